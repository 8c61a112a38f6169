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

    # A record whose kernels changed stays as it was beside those that are carried.
    def test_what_changed_stays_another_builds(self):
        rows = [
            {"problem": name, "strategy": name, "tuning": "", "default": {"strategy": name, "tuning": ""},
             "by_strategy": [], "environment": {"capability": "9.0", "templates": digest * 32}}
            for name, digest in (("same", "0"), ("other", "0"), ("same", "1"))
        ]  # fmt: skip
        code = {"same": {"then": "a", "now": "a"}, "other": {"then": "a", "now": "b"}}

        def machine_code(kernel, templates):
            return code[kernel]["now" if templates.parent == carry_records.ROOT else "then"]

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
            now = [json.loads(line)["environment"]["templates"] for line in path.read_text().split()]
        self.assertEqual(now, ["f" * 32, "0" * 32, "1" * 32])
        self.assertIn("--of", str(refused.exception))
        self.assertIn("2 kernels, 1 of them changed", said.getvalue())
        self.assertIn("not other: changed are other", said.getvalue())
        self.assertIn("1 of 3 records", said.getvalue())


if __name__ == "__main__":
    unittest.main()
