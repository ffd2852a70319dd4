"""The vocabulary of TensorRT's API: enumerations, shapes, loggers, and what holds of all of its classes."""
