"""From a model to a plan: parse a network, configure its build, put Q/DQ nodes in for INT8, compile.

Read `parser` and `network` first, then `config` and `builder`; `checks`, `lowering`, `strong_types`, `quantization`
and `layer_facts` are the builder's steps.
"""

from helpers.cpu_engine.api.manifest import complete
from helpers.cpu_engine.builder.builder import Builder
from helpers.cpu_engine.builder.config import IBuilderConfig, IOptimizationProfile, IProgressMonitor, ITimingCache
from helpers.cpu_engine.builder.network import ILayer, INetworkDefinition, ITensor
from helpers.cpu_engine.builder.parser import OnnxParser, ParserError

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
