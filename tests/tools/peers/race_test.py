"""What a captured graph writes to lives as long as the graph."""

import gc
import importlib
import sys
import unittest
import weakref
from unittest import mock


class RaceTest(unittest.TestCase):
    # Bug: a graph did not keep its call, whose outputs PyTorch then unmapped before the next
    # capture; replaying it was an illegal memory access.
    def test_a_graph_keeps_what_its_call_owns(self):
        class Output:
            pass

        def make():
            output = Output()
            return (lambda _set: output and None), weakref.ref(output)

        with mock.patch.dict(sys.modules, {"torch": mock.MagicMock()}):
            sys.modules.pop("race", None)
            race = importlib.import_module("race")
            try:
                call, output = make()
                graph = race.Graph(call, 3)
                del call
                gc.collect()
                self.assertIsNotNone(output())
                del graph
                gc.collect()
                self.assertIsNone(output())
            finally:
                sys.modules.pop("race", None)


if __name__ == "__main__":
    unittest.main()
