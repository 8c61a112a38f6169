"""Ratios, geomeans and files from rows that a GPU might have given."""

import json
import pathlib
import tempfile
import unittest

import report


def row(case, regime, **times):
    return {
        "case": case,
        "regime": regime,
        "bar_us": 300,
        "goal_us": 200,
        "contenders": {
            name: {"us": us} if us else {"skipped": "why"} for name, us in times.items()
        },
    }


ROWS = [
    row("h64", "strong", ours=200.0, fla=1600.0, cudnn_cuda=400.0),
    row("h64", "weak", ours=200.0, fla=400.0, cudnn_cuda=100.0),
    row("gva16_64", "strong", ours=100.0, fla=400.0, cudnn_cuda=None),
]
DOCUMENT = {
    "machine": "a GPU",
    "date": "2026-01-01",
    "commit": "abc",
    "truth": "fla",
    "missing": {"cula": "import cula: ModuleNotFoundError"},
    "rows": ROWS,
}


class ReportTest(unittest.TestCase):
    def test_ratio_is_theirs_over_ours(self):
        self.assertEqual(report.ratio(ROWS[0], "fla"), 8.0)
        self.assertIsNone(report.ratio(ROWS[2], "cudnn_cuda"))
        self.assertIsNone(report.ratio(ROWS[2], "unheard_of"))

    def test_summary_a_peer(self):
        fla, cudnn = report.summary(ROWS)
        self.assertAlmostEqual(fla["geomean"], 4.0)  # of 8, 2 and 4
        self.assertAlmostEqual(fla["strong"], 32**0.5)
        self.assertEqual((fla["least"], fla["least_at"]), (2.0, "h64 weak"))
        self.assertEqual((cudnn["rows"], cudnn["least"]), (2, 0.5))

    def test_a_time_whose_output_is_not_the_plain_calls_counts_for_nothing(self):
        for timed, doubted in ((0.004, False), (0.007, False), (1.3, True), (None, True)):
            rows = [row("h64", "strong", ours=200.0, cudnn_cuda=400.0)]
            for its in rows[0]["contenders"].values():
                its.update(o_rel_l2=0.004, timed_o_rel_l2=0.004)
            rows[0]["contenders"]["cudnn_cuda"]["timed_o_rel_l2"] = timed
            self.assertEqual(report.ratio(rows[0], "cudnn_cuda"), None if doubted else 2.0)
            self.assertEqual(report.summary(rows) == [], doubted)

    def test_table_names_what_did_not_run(self):
        text = report.markdown(DOCUMENT)
        self.assertIn("- cula did not run: import cula: ModuleNotFoundError", text)
        self.assertIn("- gva16_64 strong, cudnn_cuda: why", text)
        self.assertIn("| h64 | strong | 200.0 | 300 | 200 | 1600.0 | 8.00 | 400.0 | 2.00 |", text)

    def test_other_kinds_have_no_bar_and_files_of_their_own(self):
        other = {**row("f32_h8", "strong", ours=600.0, fla=900.0), "bar_us": None, "goal_us": None}
        with tempfile.TemporaryDirectory() as folder:
            report.write(pathlib.Path(folder), {**DOCUMENT, "rows": [other]}, "others")
            text = pathlib.Path(folder, "others.md").read_text()
            written = json.loads(pathlib.Path(folder, "others.json").read_text())
        self.assertEqual(len(written["rows"]), 1)
        self.assertIn("| f32_h8 | strong | 600.0 | - | - | 900.0 | 1.50 |", text)

    def test_memory_is_the_most_of_a_cases_regimes(self):
        # The bug: garbage that was collected during FLA's watched call under strong gates, the
        # first row of h8_t4096, made 23.9 MiB of its 88.4.
        rows = [row("h8", regime, ours=50.0, fla=200.0) for regime in ("strong", "weak")]
        for its, mebibytes in zip(rows, (24, 88)):
            its["contenders"]["fla"]["workspace_bytes"] = mebibytes * 2**20
            its["contenders"]["ours"]["workspace_bytes"] = 40 * 2**20
        self.assertIn("| h8 | 40.0 | 88.0 |", report.markdown({**DOCUMENT, "rows": rows}))
        self.assertIn("| h64 | - | - | - |", report.markdown(DOCUMENT))

    def test_files_after_every_row(self):
        with tempfile.TemporaryDirectory() as folder:
            for count in range(len(ROWS) + 1):
                report.write(pathlib.Path(folder), {**DOCUMENT, "rows": ROWS[:count]})
                written = json.loads(pathlib.Path(folder, "peers.json").read_text())
                self.assertEqual(written["rows"], ROWS[:count])
                self.assertEqual(written["missing"], DOCUMENT["missing"])


if __name__ == "__main__":
    unittest.main()
