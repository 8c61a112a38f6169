"""What the Python tests share.  Without a GPU those under gpu/ skip; without torch, its tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from support import ROOT, Array  # noqa: E402

if "KDA_PYTHON_INSTALLED" not in os.environ:  # else: test what pip put there
    sys.path.insert(0, str(ROOT / "tools" / "python"))

import kda  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """A cache of the tests' own, so that what was compiled before decides nothing."""
    if "KDA_CACHE_DIR" not in os.environ:
        os.environ["KDA_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def small_plan():
    """Of a device that need not be here; it checks its runs and refuses them at the very end."""
    return kda.Plan(
        kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                    max_sequences=4, initial_state=True, final_state=True),
        kda.Options(target="sm_90a", strategy="recurrent"),
    )  # fmt: skip


@pytest.fixture
def arrays():
    """Tensors of a run of 24 tokens in 3 sequences that fits small_plan."""
    state = (3, 4, 32, 64)
    return {
        "q": Array((24, 2, 64)),
        "k": Array((24, 2, 64)),
        "v": Array((24, 4, 32)),
        "g": Array((24, 4, 64)),
        "beta": Array((24, 4)),
        "o": Array((24, 4, 32)),
        "A_log": Array((4,), "<f4"),
        "dt_bias": Array((4, 64), "<f4"),
        "initial_state": Array(state, "<f4"),
        "final_state": Array(state, "<f4"),
        "workspace": 1 << 20,
        "sequences": 3,
    }


@pytest.fixture
def launches(monkeypatch):
    """What torch's calls hand to the library, on CPU tensors; the library checks it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from launching import patched

    from kda.torch._plans import plan_for

    with torch.inference_mode():
        yield patched(monkeypatch)
    assert plan_for.cache_info().currsize == 0
