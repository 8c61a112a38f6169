"""What test files import from each other's midst: the tree's root, and tensors of no framework."""

import itertools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Array:
    """A tensor of no framework, at an address of its own; nothing reads the memory."""

    _next = itertools.count(1)

    def __init__(self, shape, typestr="<V2", strides=None):
        self.pointer = next(Array._next) << 32
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "typestr": typestr,
            "data": (self.pointer, False),
            "strides": strides,
            "version": 3,
        }
