"""tools/summary.py: the tables of tools/results/summary.md are what the results beside it say."""

import json
import pathlib
import tempfile
import unittest

import summary


def row(problem, strategy, median, regime="strong", **more):
    return {
        "problem": problem,
        "regime": regime,
        "strategy": strategy,
        "wanted_strategy": strategy,
        "wanted_tuning": "",
        **({} if median is None else {"gpu_us": {"median": median}}),
        **more,
    }


class Summary(unittest.TestCase):
    def setUp(self):
        self.kept = summary.RESULTS
        self.folder = tempfile.TemporaryDirectory()
        summary.RESULTS = pathlib.Path(self.folder.name)

    def tearDown(self):
        summary.RESULTS = self.kept
        self.folder.cleanup()

    def write(self, name, document):
        (summary.RESULTS / name).write_text(
            document if name.endswith(".md") else json.dumps(document)
        )

    def test_tree(self):
        summary.RESULTS = self.kept
        text = (summary.RESULTS / "summary.md").read_text()
        self.assertEqual(summary.filled(text), text, "run tools/summary.py")
        named = {line.split()[1] for line in text.split("\n") if line.startswith("<!--")}
        self.assertGreater(len(named), 15)

    def test_strategies_are_columns(self):
        self.write(
            "p.json", [row("a", "fused", 99.96), row("a", "chunk", 40.04), row("b", "fused", None)]
        )
        self.assertEqual(
            summary.table("p", "strategy"),
            ["| | us, fused | us, chunk |", "|---|---|---|", "| a | 100 | 40.0 |", "| b | - | - |"],
        )

    def test_regimes_are_columns_and_targets_beside(self):
        more = {"fla_over_ours": 3.0, "ours_over_bar": 2.0, "ours_over_goal": None}
        weak = {**more, "ours_over_bar": 3.0, "fla_over_ours": 2.04}
        self.write("p.json", [row("a", "", 200.4, **more), row("a", "", 300.6, "weak", **weak)])
        self.assertEqual(
            summary.table("p", "regime", extra="bar goal fla"),
            [
                "| | us, strong | us, weak | bar | goal | FLA / ours |",
                "|---|---|---|---|---|---|",
                "| a | 200 | 301 | 100 | - | 2.0 |",
            ],
        )

    def test_one_column_needs_no_name_and_problems_can_be_chosen(self):
        self.write("p.json", [row("H=4 x", "s", 1.0, times_floor=1.234), row("H=8 x", "s", 2.0)])
        self.assertEqual(
            summary.table("p", "regime", of="H=4", extra="floor")[2:], ["| H=4 x | 1.0 | 1.23 |"]
        )
        with self.assertRaisesRegex(SystemExit, "no problem that begins with 'H=5'"):
            summary.table("p", "regime", of="H=5")

    def test_contenders_span_their_regimes(self):
        runs = [(10.0, 20.0), (11.0, 33.0), (12.0, None)]
        rows = [{"case": "a", "contenders": {"ours": {"us": o}, "fla": {"us": f}}} for o, f in runs]
        self.write("p.json", {"rows": rows})
        self.assertEqual(
            summary.table("p", "contender", extra="fla")[2:],
            ["| a | 10.0 to 12.0 | 20.0 to 33.0 | 2.0 |"],
        )

    def test_check_says_what_to_run(self):
        self.write("p.json", [row("a", "fused", 1.0)])
        self.write("summary.md", "text\n\n<!-- p by strategy -->\n\nmore\n")
        with self.assertRaisesRegex(SystemExit, "run tools/summary.py"):
            summary.main(["--check"])
        summary.main([])
        summary.main(["--check"])
        text = (summary.RESULTS / "summary.md").read_text()
        self.assertEqual(
            text, "text\n\n<!-- p by strategy -->\n| | us |\n|---|---|\n| a | 1.0 |\n\nmore\n"
        )
        self.write("p.json", [row("a", "fused", 2.0)])
        with self.assertRaisesRegex(SystemExit, "run tools/summary.py"):
            summary.main(["--check"])

    def test_unknown_table_is_named(self):
        with self.assertRaisesRegex(SystemExit, "no such table: <!-- p by colour -->"):
            summary.filled("<!-- p by colour -->\n")
        with self.assertRaisesRegex(SystemExit, "there is no .*p.json"):
            summary.filled("<!-- p by strategy -->\n")
        with self.assertRaisesRegex(SystemExit, "no such column: price"):
            self.write("p.json", [row("a", "fused", 1.0)])
            summary.table("p", "strategy", extra="price")


if __name__ == "__main__":
    unittest.main()
