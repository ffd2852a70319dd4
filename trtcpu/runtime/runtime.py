"""The runtime: serialized engines in, engines out."""

from trtcpu.api.logger import ILogger
from trtcpu.api.pybind import Scoped, keep
from trtcpu.plan import Plan, PlanError
from trtcpu.runtime.engine import ICudaEngine


class Runtime(Scoped):
    """Deserializes engines. What cannot be deserialized is logged as an error and gives None."""

    __slots__ = (
        "DLA_core",
        "engine_host_code_allowed",
        "error_recorder",
        "logger",
        "max_threads",
        "num_DLA_cores",
    )

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Runtime needs a trt.ILogger, found {type(logger).__name__}")
        self.logger = logger
        keep(self, error_recorder=None, max_threads=1, DLA_core=-1, num_DLA_cores=0, engine_host_code_allowed=False)

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> ICudaEngine | None:
        data = bytes(serialized_engine)
        try:
            plan = Plan.deserialize(data)
            return ICudaEngine(plan, data, self.logger)
        except PlanError as error:
            self.logger.log(ILogger.ERROR, f"IRuntime::deserializeCudaEngine: Error Code 1: Serialization ({error})")
        except RuntimeError as error:
            self.logger.log(ILogger.ERROR, f"IRuntime::deserializeCudaEngine: the plan cannot be loaded ({error})")
        return None
