"""tools/experiments/picks.py: what was chosen beside the best of what could have been."""

import contextlib
import io
import json
import pathlib
import stat
import sys
import tempfile
import unittest

import picks

# Times by the first way that serves, chunk_wgmma's by how many prepare.
BENCH = """#!{python}
import json, os, sys
assert os.environ["KDA_TUNE"] == "off"
path = next(word for word in sys.argv if word.startswith("--json="))[7:]
ways = [word[11:] for word in sys.argv if word.startswith("--strategy=")] or ["chosen"]
tunings = [word[9:] for word in sys.argv if word.startswith("--tuning=")] or [""]
times = {{"chosen": 110.0, "fused": 264.0, "segments": 126.5, "chunk_wgmma": 100.0}}
status = "WRONG: o is off" if "wrong" in sys.argv[1] and "fused" in ways else "ok"
if "failing" in sys.argv[1] and "fused" in ways:
    status = "device_error: it did not start"
rows = []
for way in ways:
    if way not in times:
        rows.append({{"strategy": way, "tuning": "", "gpu_us": None, "status": "unsupported: no"}})
        continue
    us = times[way] + (20 if "warpgroups=2" in tunings[0] else 0)
    row = {{"strategy": way, "tuning": tunings[0], "status": status, "regime": "weak"}}
    if not status.startswith("device_error"):
        row["gpu_us"] = {{"median": us}}
    rows.append(row)
if "silent" in sys.argv[1]:
    sys.exit("no device")
with open(path, "w", encoding="utf-8") as file:
    json.dump(rows, file)
"""


class Picks(unittest.TestCase):
    def said(self, *problems):
        with tempfile.TemporaryDirectory() as folder:
            bench = pathlib.Path(folder) / "kda-bench"
            bench.write_text(BENCH.format(python=sys.executable), encoding="utf-8")
            bench.chmod(bench.stat().st_mode | stat.S_IXUSR)
            rows = pathlib.Path(folder) / "picks.json"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                picks.main([str(bench), *problems, f"--json={rows}"])
            return out.getvalue(), json.loads(rows.read_text(encoding="utf-8"))

    def test_what_is_chosen_stands_beside_the_best_of_what_serves(self):
        text, rows = self.said("T=8192 H=16", "h8")
        self.assertEqual([row["problem"] for row in rows], ["T=8192 H=16", "h8"])
        for row in rows:
            self.assertEqual((row["chosen"], row["us"]), ("chosen", 110.0))
            self.assertTrue(row["best"].startswith("chunk_wgmma stages_at_once=2 warpgroups=1"))
            self.assertEqual(row["best_us"], 100.0)
            self.assertEqual((row["regime"], row["status"]), ("weak", "ok"))
            self.assertEqual(row["tried"], 1 + 2 + 3)  # of four ways two serve
        self.assertIn("| 100.0 | 1.10 |", text)
        self.assertIn("0 of 2 within 5%", text)

    def test_wrong_answers_and_failures_end_it(self):
        for problem, word in (
            ("wrong T=8", "o is off"),
            ("failing T=8", "did not start"),
            ("silent T=8", "no device"),
        ):
            with self.assertRaises(SystemExit) as ended:
                self.said(problem)
            self.assertIn(word, str(ended.exception))


if __name__ == "__main__":
    unittest.main()
