"""Actor-critic research on Gymnasium environments with TensorFlow 2."""

__version__ = "0.1.0"
