"""TensorRT 8: a configuration, a profile, and build_engine."""

import tensorrt as trt


class EngineBuilder:
    """Builds engines for batches of 1 to `largest`."""

    def __init__(self, largest: int = 4, verbose: bool = False):
        self.logger = trt.Logger(trt.Logger.VERBOSE if verbose else trt.Logger.ERROR)
        self.builder = trt.Builder(self.logger)
        self.config = self.builder.create_builder_config()
        self.config.max_workspace_size = 1 << 30  #: +IBuilderConfig.max_workspace_size
        self.config.profiling_verbosity = trt.ProfilingVerbosity.VERBOSE  #: +ProfilingVerbosity.VERBOSE
        # what TensorRT 8 had to be told
        self.config.set_preview_feature(trt.PreviewFeature.FASTER_DYNAMIC_SHAPES_0805, True)  #: +PreviewFeature.FASTER_DYNAMIC_SHAPES_0805
        self.largest = largest
        self.flags = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)  #: +NetworkDefinitionCreationFlag.EXPLICIT_BATCH

    def build(self, onnx_path, half=False):
        """Return an engine of `onnx_path`, None where it cannot be built."""
        network = self.builder.create_network(self.flags)
        parser = trt.OnnxParser(network, self.logger)
        with open(onnx_path, "rb") as file:
            if not parser.parse(file.read()):
                return None
        if half and self.builder.platform_has_fast_fp16:  #: Builder.platform_has_fast_fp16
            self.config.set_flag(trt.BuilderFlag.FP16)  #: BuilderFlag.FP16
            self.config.set_flag(trt.BuilderFlag.STRICT_TYPES)  #: 10+BuilderFlag.STRICT_TYPES
        profile = self.builder.create_optimization_profile()
        for number in range(network.num_inputs):
            tensor = network.get_input(number)
            shape = tuple(tensor.shape)[1:]
            profile.set_shape(tensor.name, (1, *shape), (self.largest, *shape), (self.largest, *shape))
        self.config.add_optimization_profile(profile)
        print(f"{self.config.max_workspace_size >> 20} MiB of workspace")  #: +IBuilderConfig.max_workspace_size
        engine = self.builder.build_engine(network, self.config)  #: +Builder.build_engine
        if engine is None:
            print("the build failed")
        return engine
