"""tools/experiments/stalls.py: parts and shares of a sampled kernel."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import stalls

NAMES = (
    "Address,Source,# Samples,Instructions Executed,stall_wait,stall_math,stall_wait (Not Issued)"
)
ROWS = [
    "0x0,  LDC R1,10,4,10,0,7",
    "0x10,HMMA,30,8,6,24,0",
    "0x20,FADD,50,8,50,0,0",
    "0x30,EXIT,10,4,0,10,0",
]


def said(*arguments, rows=ROWS):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "h64.csv"
        other = ['"Kernel Name","other"', NAMES, "0x0,NOP,900,4,900,0,0"]
        path.write_text("\n".join(['"Kernel Name","forward"', NAMES, *rows, *other]) + "\n")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            stalls.main([str(path), *arguments])
        return [line.split() for line in out.getvalue().splitlines()]


class Stalls(unittest.TestCase):
    def test_parts_ran_as_often_and_have_their_share_of_the_first_kernel(self):
        self.assertEqual(
            said(),
            [
                "0 to 0 4 times 10.0 wait 10.0".split(),
                "1 to 2 8 times 80.0 wait 56.0 math 24.0".split(),
                "3 to 3 4 times 10.0 math 10.0".split(),
            ],
        )
        self.assertEqual(len(said("--least", "50")), 1)

    def test_lines_are_instructions_by_number(self):
        self.assertEqual(
            said("--lines", "1", "2"),
            ["1 30.00 HMMA math 24.00 wait 6.00".split(), "2 50.00 FADD wait 50.00".split()],
        )

    def test_a_profile_without_samples_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
            said(rows=["0x0,NOP,0,4,0,0,0"])
        self.assertIn("SourceCounters", err.getvalue())

    # The bug: a traceback of another page of a profile, or of a file that ncu had left empty.
    def test_what_is_no_such_table_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "details.csv"
            for text in ("", '"ID","Metric Name"\n0,Duration\n'):
                path.write_text(text)
                with contextlib.redirect_stderr(io.StringIO()) as err:
                    with self.assertRaises(SystemExit):
                        stalls.main([str(path)])
                self.assertIn("--page source", err.getvalue())


if __name__ == "__main__":
    unittest.main()
