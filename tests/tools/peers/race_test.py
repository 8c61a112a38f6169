"""What a contender's graph owns, how many calls it has, and when its time counts."""

import gc
import importlib
import sys
import unittest
import weakref
from unittest import mock


class RaceTest(unittest.TestCase):
    def setUp(self):
        self.torch = mock.MagicMock()
        self.torch.cuda.Event.return_value.elapsed_time.return_value = 0.1  # milliseconds
        patch = mock.patch.dict(sys.modules, {"torch": self.torch})
        patch.start()
        self.addCleanup(patch.stop)
        sys.modules.pop("race", None)
        self.addCleanup(sys.modules.pop, "race", None)
        self.race = importlib.import_module("race")

    # Bug: a graph did not keep its call, whose outputs PyTorch then unmapped before the next
    # capture; replaying it was an illegal memory access.
    def test_a_graph_keeps_what_its_call_owns(self):
        class Output:
            pass

        def make():
            output = Output()
            return (lambda _set: output and None), weakref.ref(output)

        call, output = make()
        graph = self.race.Graph(call, 3)
        del call
        gc.collect()
        self.assertIsNotNone(output())
        del graph
        gc.collect()
        self.assertIsNone(output())

    # Bug: the clock ran while the host launched a graph and the GPU had nothing to do, which of
    # three calls of 80 us made 90.
    def test_a_time_counts_only_if_the_gpu_was_held_until_all_was_enqueued(self):
        events = []

        def event(**_):
            made = mock.MagicMock()
            made.query.return_value = len(events) < 4  # of the first two attempts it has begun
            made.elapsed_time.return_value = 0.006
            events.append(made)
            return made

        self.torch.cuda.Event = event
        enqueued = mock.MagicMock()
        held = self.race.Held(enqueued, calls=3, seconds=1e-3)
        self.assertAlmostEqual(held.microseconds(), 2.0)
        self.assertEqual(enqueued.call_count, 3)
        spun = [call.args[0] for call in self.torch.cuda._sleep.call_args_list]
        self.assertEqual(spun, [2_000_000, 4_000_000, 8_000_000])

    def test_a_graph_lasts_for_a_millisecond_in_whole_rounds_of_its_sets(self):
        self.assertEqual(self.race.calls_for(5000, 1), 2)
        self.assertEqual(self.race.calls_for(300, 1), 4)
        self.assertEqual(self.race.calls_for(90, 5), 15)
        self.assertEqual(self.race.calls_for(90, 32), 32)
        self.assertEqual(self.race.calls_for(0.5, 3), 258)


if __name__ == "__main__":
    unittest.main()
