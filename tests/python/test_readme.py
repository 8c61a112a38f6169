"""The README's Python programs run as they stand; those that need a GPU are compiled without one."""

import re

import pytest
from support import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_the_readme_has_programs():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_program_runs(number):
    program = compile(BLOCKS[number], f"README.md, Python block {number + 1}", "exec")
    if "torch" in BLOCKS[number]:
        torch = pytest.importorskip("torch", reason="torch is not installed")
        for line in re.findall(r"^(?:import|from) .*", BLOCKS[number], re.M):
            exec(line, {})
        if not torch.cuda.is_available():
            pytest.skip("no GPU; it compiles")
    exec(program, {"__name__": "__main__"})
