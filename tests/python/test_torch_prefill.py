"""torch.ops.kda_prefill beside another extension of that name.  No GPU."""

import os
import subprocess
import sys

import pytest
from support import ROOT

pytest.importorskip("torch", reason="torch is not installed")

BESIDE_ANOTHER = """
import torch
theirs = torch.library.Library("kda_prefill", "DEF")
if {defines}:
    theirs.define("forward(Tensor q) -> Tensor")
import kda.torch
print(torch.ops.kda_prefill.forward.default._schema)
print(hasattr(torch.ops.kda_prefill, "fill"))
"""


# Bug: where another extension had made the namespace kda_prefill, as the first kda_prefill does,
# `import kda.torch` failed.
@pytest.mark.parametrize("defines", [True, False])
@pytest.mark.parametrize("level", ["warn", "off"])
def test_the_namespace_may_be_anothers(defines, level):
    env = {**os.environ, "KDA_LOG": level}
    if "KDA_PYTHON_INSTALLED" not in env:
        env["PYTHONPATH"] = str(ROOT / "tools" / "python")
    command = [sys.executable, "-c", BESIDE_ANOTHER.format(defines=defines)]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    schema, fills = ran.stdout.splitlines()
    assert (schema == "kda_prefill::forward(Tensor q) -> Tensor") == defines
    assert (fills == "True") != defines
    warns = "warning: torch.ops.kda_prefill.forward is another extension's" in ran.stderr
    assert warns == (defines and level == "warn")
