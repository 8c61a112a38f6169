"""The Python examples run; without a GPU they compile their plans and say why that is all."""

import os
import subprocess
import sys

import pytest
from support import ROOT


@pytest.mark.parametrize("name", ["two_halves", "engine"])
def test_an_example_runs(name, tmp_path):
    paths = [str(ROOT / "tools" / "python"), os.environ.get("PYTHONPATH", "")]
    if "KDA_PYTHON_INSTALLED" in os.environ:
        paths = paths[1:]
    said = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "examples" / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    last = said.stdout.strip().splitlines()[-1]
    assert last.startswith(f"{name}: ")
    if "not run" in last:
        pytest.skip(last)
