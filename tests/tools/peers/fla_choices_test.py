"""FLA's kernels compiled by workers, and what these leave to whoever tunes."""

import unittest
from unittest import mock

import cases
import fla_choices


class FlaChoicesTest(unittest.TestCase):
    # Bug: workers, which only compile, told Triton a made-up time of each variant, Triton kept these
    # on disk, and the measuring process took the first variant of every kernel for FLA's best.
    def test_a_worker_keeps_no_times(self):
        with mock.patch("subprocess.Popen") as popen:
            popen.return_value.communicate.return_value = ("", "")
            popen.return_value.returncode = 0
            self.assertEqual(fla_choices.compile_all(list(cases.OTHERS), seconds=1), [])
        self.assertGreater(popen.call_count, 0)
        for call in popen.call_args_list:
            self.assertEqual(call.kwargs["env"]["FLA_CACHE_RESULTS"], "0")
            self.assertIn("PATH", call.kwargs["env"])


if __name__ == "__main__":
    unittest.main()
