"""TensorRT 7: a UFF file, an implicit batch, and a classifier that runs it; nothing of this can be done by renaming."""

import pycuda.autoinit  # noqa: F401  #: pycuda.autoinit
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.INFO)
LARGEST = 16


def build(path):
    """Build an engine of a frozen graph in UFF."""
    builder = trt.Builder(LOGGER)
    network = builder.create_network()
    parser = trt.UffParser()  #: UffParser
    parser.register_input("images", (3, 224, 224), trt.UffInputOrder.NCHW)  #: UffInputOrder
    parser.register_output("scores")
    parser.parse(path, network)
    builder.max_batch_size = LARGEST  #: Builder.max_batch_size
    builder.max_workspace_size = 1 << 30  #: +Builder.max_workspace_size
    builder.average_find_iterations = 2  #: +Builder.average_find_iterations
    return builder.build_cuda_engine(network)  #: +Builder.build_cuda_engine


class Classifier:
    """Runs batches of up to 16 images."""

    def __init__(self, engine: trt.ICudaEngine):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.bindings = []
        for number in range(len(engine)):  #: +len(ICudaEngine)
            size = trt.volume(engine.get_binding_shape(number)) * engine.max_batch_size  #: +ICudaEngine.get_binding_shape, +ICudaEngine.max_batch_size
            self.bindings.append(int(cuda.mem_alloc(4 * size)))
        self.scores = engine.get_binding_index("scores")  #: ICudaEngine.get_binding_index

    def execute(self, batch):
        """Run `batch` images, or copy of them in the background."""
        self.context.execute(batch, self.bindings)  #: IExecutionContext.execute

    def close(self):
        """Free the engine and what it runs in."""
        self.context.destroy()  #: +destroy()
        self.engine.destroy()  #: +destroy()


def classify(engine, batch):
    """Run one batch."""
    classifier = Classifier(engine)
    classifier.execute(batch)
    classifier.close()
