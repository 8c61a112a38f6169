"""The struct that original.py hands to libkda.so is prefill.h's; what is missing is said in words."""

import contextlib
import io
import pathlib
import re
import types
import unittest
from unittest import mock

import original

ROOT = pathlib.Path(__file__).resolve().parents[3]


class OriginalTest(unittest.TestCase):
    def test_the_struct_is_prefill_h(self):
        header = (ROOT / "include/kda/prefill.h").read_text()
        body = re.search(r"typedef struct KdaPrefillIO \{(.*?)\} KdaPrefillIO;", header, re.S)
        fields = re.findall(r"(?:float\* |int )(\w+);", body.group(1))
        self.assertEqual(fields, [name for name, _ in original.Io._fields_])

    def test_the_sizes_are_those_of_kda_bench(self):
        source = (ROOT / "tools/cli/suites.cpp").read_text()
        table = re.search(r"kSizes\[\] = \{(.*?)\};", source, re.S).group(1)
        sizes = [tuple(map(int, row)) for row in re.findall(r"\{(\d+), (\d+), (\d+)\}", table)]
        self.assertEqual(sizes, list(original.SIZES))

    def test_without_torch_or_a_gpu_it_says_so(self):
        for torch in (None, types.SimpleNamespace(cuda=mock.Mock(is_available=lambda: False))):
            with (
                mock.patch.dict("sys.modules", {"torch": torch}),
                contextlib.redirect_stdout(io.StringIO()) as said,
            ):
                self.assertEqual(original.main([]), 0)
            self.assertIn("nothing was run: ", said.getvalue())

    def test_a_library_that_is_not_there_is_a_reason(self):
        with mock.patch.dict("os.environ", {"KDA_LIBRARY": "/nowhere/libkda.so"}):
            found, missing = original.contenders_of(None, "local")
        self.assertEqual(found, [])
        self.assertIn("/nowhere/libkda.so", missing["ours"])

    # Bug: what errors() called rel_l2 the table looked for as o_rel_l2, and the run died after its
    # first size.
    def test_the_table_has_what_was_reached(self):
        class Numbers(float):  # of one element
            double = abs = max = norm = lambda self: self

            def __sub__(self, other):
                return Numbers(float(self) - float(other))

        ours = {"us": 640.3, **original.errors(Numbers(1.5), Numbers(2.0))}
        row = {"B": 2, "H": 8, "T": 4096, "contenders": {"ours": ours, "fla": {"skipped": "why"}}}
        self.assertEqual(len(original.text_of(row)), 2)
        document = {"machine": "M", "date": "D", "commit": "c", "command": "x", "truth": "t"}
        text = original.table_of({**document, "rows": [row]})
        self.assertIn("| 2 | 8 | 4096 | 640.3 | -2.5e-01 | - | - | - | - |", text)


if __name__ == "__main__":
    unittest.main()
