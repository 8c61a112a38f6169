"""tools/carry_records.py: the kernels that a shipped file's records name are found, by its name."""

import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import carry_records


class Kernels(unittest.TestCase):
    # The bug: a device's target was the last word of what it calls itself, for an H100 "hbm3".
    def test_every_shipped_file_names_a_target(self):
        files = sorted((carry_records.ROOT / "src/tune/shipped").glob("*.jsonl"))
        self.assertGreaterEqual(len(files), 2)
        for file in files:
            record = json.loads(file.read_text().splitlines()[0])
            with self.subTest(file.name):
                asked = carry_records.choices(pathlib.Path(file).stem, record)
                self.assertGreaterEqual(len(asked), len(record["by_strategy"]))
                for each in asked:
                    self.assertTrue(carry_records.sources(*each))

    # A record whose winner's kernels changed stays as it was beside those that are carried; one that
    # tells of another strategy whose kernels changed, or which COMMIT did not know, is carried without.
    def test_what_changed_stays_another_builds(self):
        rows = [
            {"problem": name, "strategy": name, "tuning": "", "default": {"strategy": name, "tuning": ""},
             "by_strategy": [{"strategy": s, "tuning": "", "median": 1.50} for s in strategies],
             "environment": {"capability": "9.0", "templates": digest * 32}}
            for name, digest, strategies in (("same", "0", ()), ("other", "0", ("other", "same")),
                                             ("same", "1", ()), ("same", "0", ("new", "same", "other")))
        ]  # fmt: skip
        code = {"same": ("a", "a"), "other": ("a", "b"), "new": (None, "c")}

        def machine_code(kernel, templates, or_none=False):
            now = templates.parent == carry_records.ROOT
            self.assertNotEqual(now, or_none)
            return code[kernel][now]

        said = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(carry_records, "sources", lambda d, p, strategy, t: [strategy]),
            mock.patch.object(carry_records, "machine_code", machine_code),
            mock.patch.object(carry_records, "output", lambda *command: b""),
            mock.patch.object(
                carry_records.subprocess, "run",
                lambda *a, **k: types.SimpleNamespace(stdout=b"templates " + b"f" * 32),
            ),
            contextlib.redirect_stdout(said),
        ):  # fmt: skip
            path = pathlib.Path(folder) / "h200.jsonl"
            path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
            with self.assertRaises(SystemExit) as refused:  # of which of the two is HEAD?
                carry_records.main("HEAD", str(path))
            carry_records.main("HEAD", str(path), of="0" * 32)
            now = [json.loads(line) for line in path.read_text().split()]
        self.assertEqual([r["environment"]["templates"][0] for r in now], ["f", "0", "1", "f"])
        self.assertEqual(now[1], rows[1])
        self.assertEqual(now[3]["by_strategy"], rows[3]["by_strategy"][1:2])
        self.assertIn("--of", str(refused.exception))
        self.assertIn("3 kernels, 2 of them changed", said.getvalue())
        self.assertIn("not other: changed are other", said.getvalue())
        self.assertIn("same: without new other", said.getvalue())
        self.assertIn("2 of 4 records", said.getvalue())


if __name__ == "__main__":
    unittest.main()
