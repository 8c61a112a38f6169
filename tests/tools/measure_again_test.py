"""tools/measure_again.py: a file of results is asked again by its own commands, and kept by worse."""

import contextlib
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest
import unittest.mock

import measure_again

# Answers each problem of its line with a row; what it was called with lies in calls.
BENCH = """#!{python}
import json, os, sys
words = sys.argv[1:]
if "fails" in words:
    sys.exit(3)
file, table = words[words.index("--json") + 1], words[words.index("--md") + 1]
with open("{calls}", "a", encoding="utf-8") as calls:
    calls.write(json.dumps([os.environ.get("KDA_TUNE"), *words[:-4]]) + "\\n")
rows = [
    {{"problem": word, "status": "WRONG" if word == "turned" else "ok", "device": "NVIDIA H200",
     "commit": os.environ.get("COMMIT", "1234567"), "us": 1.50,
     "command": ("KDA_TUNE=off " if "KDA_TUNE" in os.environ else "") + "kda-bench " + word}}
    for word in words[: words.index("--quick")] if word != "gone"
]
with open(file, "w", encoding="utf-8") as out:
    out.write("[\\n" + ",\\n".join(json.dumps(row) for row in rows) + "\\n]\\n")
with open(table, "w", encoding="utf-8") as out:
    out.write("| problem |\\n|---|\\n" + "".join(f"| {{row['problem']}} |\\n" for row in rows))
"""


def row(problem, command, **more):
    given = {"problem": problem, "status": "ok", "device": "NVIDIA H200", "commit": "0000000"}
    return {**given, "command": command, **more}


class MeasureAgain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.calls = self.root / "calls"
        bench = self.root / "build" / "tools" / "kda-bench"
        bench.parent.mkdir(parents=True)
        bench.write_text(BENCH.format(python=sys.executable, calls=self.calls))
        bench.chmod(bench.stat().st_mode | stat.S_IXUSR)
        (self.root / "h200").mkdir()
        results = unittest.mock.patch.object(measure_again, "RESULTS", self.root)
        variables = {"KDA_BUILD_DIR": str(self.root / "build")}
        for patch in (results, unittest.mock.patch.dict(os.environ, variables)):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("KDA_TUNE", None)

    def write(self, name, rows):
        (self.root / "h200" / f"{name}.json").write_text(json.dumps(rows))

    def run_on(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = measure_again.main(["--output", str(self.root), *words])
        return code, out.getvalue(), err.getvalue()

    def refused(self, name, rows, why):
        self.write(name, rows)
        before = (self.root / "h200" / f"{name}.json").read_text()
        code, _, err = self.run_on(f"h200/{name}")
        self.assertEqual(code, 1)
        self.assertIn(why, err)
        self.assertEqual((self.root / "h200" / f"{name}.json").read_text(), before)

    def test_commands_run_without_their_files_and_with_their_variables(self):
        one = "kda-bench 'a b' c --quick --json /o/x.json --md /o/x.md"
        two = "KDA_TUNE=off kda-bench d --quick --cache-dir /tmp/c --quiet --json=/o/y.json"
        self.write("some", [row("a b", one), row("c", one), row("d", two)])
        code, out, err = self.run_on("h200/some")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "h200/some: 3 rows of 1234567\n")
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()]
        self.assertEqual(calls, [[None, "a b", "c", "--quick"], ["off", "d", "--quick", "--quiet"]])
        text = (self.root / "h200" / "some.json").read_text()
        self.assertEqual([each["problem"] for each in json.loads(text)], ["a b", "c", "d"])
        self.assertEqual(len(text.splitlines()), 5)
        self.assertIn('"us": 1.5, ', text)  # as kda-bench wrote it
        table = (self.root / "h200" / "some.md").read_text()
        self.assertEqual(table, "| problem |\n|---|\n| a b |\n| c |\n| d |\n")

    def test_what_is_worse_replaces_nothing(self):
        line = "kda-bench a {} --quick"
        self.refused("fails", [row("a", line.format("fails"))], "kda-bench ended with 3")
        lost = [row("a", line.format("gone")), row("gone", line.format("gone"))]
        self.refused("fewer", lost, "1 rows in place of 2")
        wrong = [row("a", line.format("turned")), row("turned", line.format("turned"))]
        self.refused("wrong", wrong, "turned is WRONG; it was ok")
        other = [row("a", "kda-bench a --quick", device="NVIDIA H100")]
        self.refused("other", other, "this is an NVIDIA H200, that was an NVIDIA H100")
        with unittest.mock.patch.dict(os.environ, {"COMMIT": "1234567-dirty"}):
            self.refused("dirty", [row("a", "kda-bench a --quick")], "belongs to no source")

    def test_variables_that_are_set_here_and_decide_are_refused(self):
        with unittest.mock.patch.dict(os.environ, {"KDA_TUNE": "off"}):
            self.refused("some", [row("a", "kda-bench a --quick")], "unset them")

    def test_a_program_that_is_not_built_is_named(self):
        with unittest.mock.patch.dict(os.environ, {"KDA_BUILD_DIR": "/nowhere"}):
            why = "/nowhere/tools/kda-bench: No such file or directory; build it"
            self.refused("some", [row("a", "kda-bench a --quick")], why)

    def test_what_other_programs_made_is_named(self):
        self.refused("picks", [row("a", "kda-bench a")], "made by tools/experiments/picks.py")
        self.refused("peers", {"command": "compare.sh h64"}, "made by compare.sh h64")
        self.refused("tuned", {"tuned": []}, "tools/tuning_results.sh")
        self.assertIn("there is no", self.run_on("h200/nothing")[2])

    def test_print_runs_nothing(self):
        self.write("some", [row("a b", "KDA_TUNE=off kda-bench 'a b' --quick --json x")])
        code, out, _ = self.run_on("--print", "h200/some")
        self.assertEqual((code, out), (0, "KDA_TUNE=off kda-bench 'a b' --quick\n"))
        self.assertFalse(self.calls.exists())


if __name__ == "__main__":
    unittest.main()
