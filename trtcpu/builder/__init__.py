"""From a model to a plan: parse a network, configure its build, put Q/DQ nodes in for INT8, compile.

Read `parser` and `network` first, then `config` and `builder`; `checks`, `lowering`, `strong_types`, `quantization`
and `layer_facts` are the builder's steps.
"""

from trtcpu.api.manifest import complete
from trtcpu.builder.builder import Builder
from trtcpu.builder.config import IBuilderConfig, IOptimizationProfile, IProgressMonitor, ITimingCache
from trtcpu.builder.network import ILayer, INetworkDefinition, ITensor
from trtcpu.builder.parser import OnnxParser, ParserError

__all__ = [
    "Builder",
    "IBuilderConfig",
    "ILayer",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IProgressMonitor",
    "ITensor",
    "ITimingCache",
    "OnnxParser",
    "ParserError",
]

complete(globals())
