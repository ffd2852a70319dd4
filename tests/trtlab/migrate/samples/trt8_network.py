"""TensorRT 8: a network layer by layer."""

import numpy as np
import tensorrt as trt


def small_network(builder: trt.Builder):
    """Return a network of a convolution, a pooling and a fully connected layer."""
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))  #: +NetworkDefinitionCreationFlag.EXPLICIT_BATCH
    images = network.add_input("images", trt.float32, (1, 3, 8, 8))
    weights = trt.Weights(np.zeros((4, 3, 3, 3), np.float32))
    convolution = network.add_convolution(images, 4, (3, 3), weights, trt.Weights())  #: +INetworkDefinition.add_convolution
    convolution.stride = (2, 2)  #: +IConvolutionLayer.stride
    convolution.padding = (1, 1)  #: +IConvolutionLayer.padding
    convolution.padding_mode = trt.PaddingMode.CAFFE_ROUND_UP  #: +PaddingMode.CAFFE_ROUND_UP
    pooling = network.add_pooling(convolution.get_output(0), trt.PoolingType.MAX, (2, 2))  #: +INetworkDefinition.add_pooling
    pooling.stride = (2, 2)  #: +IPoolingLayer.stride
    dense = trt.Weights(np.zeros((10, 16), np.float32))
    scores = network.add_fully_connected(pooling.get_output(0), 10, dense, trt.Weights())  #: INetworkDefinition.add_fully_connected
    scores.precision = trt.float16  #: ILayer.precision
    for layer in network:
        layer.set_output_type(0, trt.float32)  #: ILayer.set_output_type
        if layer.type == trt.LayerType.FULLY_CONNECTED:  #: +LayerType.FULLY_CONNECTED
            print(layer.name)
    network.mark_output(scores.get_output(0))
    return network
