"""A comparison's document says where it comes from."""

import os
import pathlib
import re
import types
import unittest
import unittest.mock

import provenance

TORCH = types.SimpleNamespace(
    __version__="2.11", cuda=types.SimpleNamespace(get_device_name=lambda: "NVIDIA H200")
)


class ProvenanceTest(unittest.TestCase):
    def test_the_command_is_without_the_places_of_this_machine(self):
        words = ["--kda-bench", "/b/kda-bench", "--out", "/tmp", "--seconds", "150", "h64"]
        with unittest.mock.patch.dict(os.environ, clear=True):
            plain = provenance.command_of("compare.sh", words)
            alone = provenance.command_of("compare.sh original", [])
        self.assertEqual(plain, "compare.sh --seconds 150 h64")
        self.assertEqual(alone, "compare.sh original")

    def test_the_command_has_what_decides_which_kernels_run(self):
        variables = {"KDA_TUNE": "off", "NVRTC_APPEND_FLAGS": "-G -w", "KDA_CACHE_DIR": "/x"}
        with unittest.mock.patch.dict(os.environ, variables):
            self.assertEqual(
                provenance.command_of("compare.sh", ["h64"]),
                "KDA_TUNE=off NVRTC_APPEND_FLAGS='-G -w' compare.sh h64",
            )

    def test_what_decides_is_what_kda_bench_names(self):
        tools = pathlib.Path(provenance.__file__).resolve().parent.parent
        text = (tools / "cli" / "command_line.cpp").read_text()
        names = re.search(r"kDeciding\[\] = \{([^}]*)\}", text)[1]
        self.assertEqual(tuple(re.findall(r'"(\w+)"', names)), provenance._DECIDING)

    def test_version_and_commit_are_the_programs(self):
        found = provenance.of_run(TORCH, os.environ["KDA_BENCH"], "compare.sh")
        self.assertRegex(found["version"], r"^\d+\.\d+\.\d+$")
        self.assertTrue(found["commit"])
        self.assertIn("NVIDIA H200, PyTorch 2.11, fla-core ", found["machine"])

    def test_a_program_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(SystemExit, "/nowhere/kda-bench: not found; compare.sh builds"):
            provenance.of_run(TORCH, "/nowhere/kda-bench", "compare.sh")


if __name__ == "__main__":
    unittest.main()
