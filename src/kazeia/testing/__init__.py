"""Random checkpoints in the official layout, at any size, made with NumPy alone; and dumps to compare with.

For tests, benchmarks and anyone without weights: the random models sound like noise, but load and run like
the real ones.
"""

from kazeia.dumps import Dump, read_dump
from kazeia.testing.checkpoint import make_checkpoint, random_model_path
from kazeia.testing.shapes import SHAPES, Shape

__all__ = ["SHAPES", "Dump", "Shape", "make_checkpoint", "random_model_path", "read_dump"]
