"""kda.add_bundle: kernels that come along, so that no compiler is needed."""

import os
import subprocess
import sys

import pytest
from support import ROOT

import kda

PROGRAM = """
import sys, kda
if len(sys.argv) > 1:
    kda.add_bundle(sys.argv[1])
    kda.add_bundle(open(sys.argv[1], "rb").read())  # twice is once
print(kda.Plan(kda.Problem(heads=2, max_tokens=64), kda.Options(target="sm_90a")).describe())
"""


def test_what_is_no_bundle_is_refused(tmp_path):
    for bundle in (b"", b"nothing of the kind"):
        with pytest.raises(kda.InvalidArgument):
            kda.add_bundle(bundle)
    with pytest.raises(FileNotFoundError):
        kda.add_bundle(tmp_path / "missing.kdab")


def test_a_bundle_needs_no_compiler(tmp_path):
    tune = os.environ.get("KDA_TUNE")
    if not tune or not os.path.exists(tune):
        pytest.skip("kda-tune is not built here (KDA_TUNE)")
    bundle = tmp_path / "kernels.kdab"
    words = "T=64 H=2 h0=0 ht=0"
    said = subprocess.run(
        [tune, "bundle", "create", str(bundle), words, "--arch", "sm_90a"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    env = {**os.environ, "KDA_JIT": "off", "KDA_CACHE_DIR": str(tmp_path / "empty"),
           "PYTHONPATH": str(ROOT / "tools" / "python")}  # fmt: skip

    def run(*arguments):
        return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip

    without = run()
    assert without.returncode != 0 and "KDA_JIT=off" in without.stderr
    given = run(str(bundle))
    assert given.returncode == 0, given.stderr
    assert "sm_90a" in given.stdout
