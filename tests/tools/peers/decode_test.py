"""What decode.py needs and lacks is said in words; its table has what was reached."""

import contextlib
import io
import types
import unittest
from unittest import mock

import decode


class DecodeTest(unittest.TestCase):
    def test_without_torch_or_a_gpu_it_says_so(self):
        for torch in (None, types.SimpleNamespace(cuda=mock.Mock(is_available=lambda: False))):
            with (
                mock.patch.dict("sys.modules", {"torch": torch}),
                contextlib.redirect_stdout(io.StringIO()) as said,
            ):
                self.assertEqual(decode.main([]), 0)
            self.assertIn("nothing was run: ", said.getvalue())

    def test_who_is_missing_is_named(self):
        nobody = {"kda.torch": None, "fla.ops.kda": None}
        with mock.patch.dict("sys.modules", nobody):
            calls, missing = decode.contenders_of(None)
        self.assertEqual(calls, {})
        self.assertEqual(set(missing), {"ours", "fla"})
        self.assertIn("fla-core", missing["fla"])

    def test_both_layouts_get_states_of_that_layout(self):
        torch = types.SimpleNamespace(
            bfloat16="bf16",
            float32="f32",
            Generator=lambda device: mock.Mock(),
            randn=lambda *shape, **kind: shape,
            rand=lambda *shape, **kind: shape,
        )
        with mock.patch.object(decode, "V", 64):
            by_keys = decode.make(torch, 8, "[K, V]")
            by_values = decode.make(torch, 8, "[V, K]")
        self.assertEqual(by_keys[0]["initial_state"], (8, 32, 128, 64))
        self.assertFalse(by_keys[0]["state_v_first"])
        self.assertEqual(by_values[0]["initial_state"], (8, 32, 64, 128))
        self.assertTrue(by_values[0]["state_v_first"])
        # Their states, read and written, are together larger than any L2.
        for batch in decode.BATCHES:
            sets = decode.make(torch, batch, "[K, V]")
            self.assertGreaterEqual(len(sets) * 8 * batch * decode.H * 128 * 128, 256 << 20)

    def test_the_table_has_what_was_reached(self):
        both = {
            "batch": 8,
            "layout": "[K, V]",
            "contenders": {
                "ours": {"us": 12.5, "o_rel_l2": 1e-5, "state_rel_l2": 2e-8},
                "fla": {"us": 25.0},
            },
        }
        alone = {"batch": 1, "layout": "[V, K]", "contenders": {"ours": {"us": 3.0}}}
        document = {"machine": "M", "date": "D", "commit": "c", "command": "x"}
        wrong = {**both, "contenders": {
            "ours": {"us": 12.5, "o_rel_l2": None, "state_rel_l2": 2e-8}, "fla": {"us": 25.0}
        }}  # fmt: skip
        text = decode.table_of({**document, "rows": [both, alone, wrong]})
        self.assertIn("| [K, V] | 8 | 12.5 | 25.0 | 2.00 | 1.0e-05 | 2.0e-08 |", text)
        self.assertIn("| [V, K] | 1 | 3.0 | - | - | - | - |", text)
        self.assertIn("| [K, V] | 8 | 12.5 | 25.0 | 2.00 | not finite | 2.0e-08 |", text)
