"""tools/carry_records.py: the kernels that a shipped file's records name are found, by its name."""

import json
import pathlib
import unittest

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


if __name__ == "__main__":
    unittest.main()
