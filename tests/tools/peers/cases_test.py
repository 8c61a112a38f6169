"""The cases are kda-bench's: all of them, as they are there."""

import json
import os
import subprocess
import unittest

import cases

KDA_BENCH = os.environ["KDA_BENCH"]


class CasesTest(unittest.TestCase):
    def setUp(self):
        listed = subprocess.run(
            [KDA_BENCH, "--list", "--json", "-"], capture_output=True, check=True
        )
        self.listed = {row["case"]: row for row in json.loads(listed.stdout)}
        self.read = cases.read(KDA_BENCH)

    def test_every_case_once(self):
        self.assertEqual(sorted(self.listed), sorted(case.name for case in self.read))
        self.assertGreaterEqual(len(self.read), 23)

    def test_the_telling_ones_first(self):
        self.assertEqual([case.name for case in self.read[:3]], ["h64", "h16", "h8"])
        for name in cases._FIRST:
            self.assertIn(name, self.listed)

    def test_sequences_cover_the_tokens(self):
        for case in self.read:
            self.assertEqual(case.cu_seqlens[0], 0)
            self.assertEqual(case.cu_seqlens[-1], case.tokens, case.name)
            self.assertEqual(case.sequences, self.listed[case.name]["N"])
            self.assertEqual(case.varlen, case.sequences > 1)

    def test_grouped_heads_and_mixed_lengths(self):
        by_name = {case.name: case for case in self.read}
        self.assertEqual((by_name["gva16_64"].heads, by_name["gva16_64"].value_heads), (16, 64))
        self.assertEqual(by_name["h64_mixed"].cu_seqlens, (0, 1300, 1847, 3895, 4858, 5129, 8192))

    def test_others_are_of_other_kinds(self):
        self.assertTrue(all(case.is_usual for case in self.read))
        self.assertFalse(any(case.is_usual for case in cases.OTHERS))
        names = [case.name for case in self.read + cases.OTHERS]
        self.assertEqual(len(names), len(set(names)))
        for case in cases.OTHERS:
            self.assertEqual((case.cu_seqlens, case.bar_us), ((0, case.tokens), None))


if __name__ == "__main__":
    unittest.main()
