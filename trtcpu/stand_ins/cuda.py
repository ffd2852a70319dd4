"""cuda-python's names for the CPU engine, of version 12 (`cuda.cudart`) and 13 (`cuda.bindings.runtime`)."""

import sys

from trtcpu import cudart

cuda = runtime = driver = cudart
bindings = sys.modules[__name__]
__version__ = "13.0.0+cpu"
__path__: list[str] = []  # makes a package of it, whose modules are here already
sys.modules.update(dict.fromkeys(("cuda.cuda", "cuda.cudart", "cuda.bindings.runtime", "cuda.bindings.driver"), cudart))
sys.modules["cuda.bindings"] = bindings
