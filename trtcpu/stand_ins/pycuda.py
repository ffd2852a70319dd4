"""pycuda's names for the CPU engine: `driver`, and the context that `autoinit` and `autoprimaryctx` make."""

import sys

from trtcpu import cuda as driver

VERSION, VERSION_TEXT = (2026, 1), "2026.1+cpu"
device = driver.Device(0)
context = device.make_context()
autoinit = autoprimaryctx = sys.modules[__name__]
__path__: list[str] = []  # makes a package of it, whose modules are here already
sys.modules.update(
    {f"{__name__}.driver": driver, f"{__name__}.autoinit": autoinit, f"{__name__}.autoprimaryctx": autoinit}
)
