"""The package as a whole: without torch, and what its build makes.  No GPU."""

import importlib.util
import os
import subprocess
import sys
import types
import typing

import pytest
from support import ROOT

import kda
from kda import _library

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # what an import of it finds is nothing
import kda
assert not hasattr(kda, "torch")
try: kda.torch
except AttributeError as error: print(error)
try: import kda.torch
except ModuleNotFoundError as error: print(error.name)
"""


# The bug: hasattr(kda, "torch") raised ModuleNotFoundError, which an import alone should.
def test_without_torch_there_is_no_attribute_of_that_name():
    env = dict(os.environ)
    if "KDA_PYTHON_INSTALLED" not in env:
        env["PYTHONPATH"] = str(ROOT / "tools" / "python")
    command = [sys.executable, "-c", WITHOUT_TORCH]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert first.startswith("module 'kda' has no attribute 'torch': ")
    assert second == "torch"


# The bug: an editable install, whose sources lie apart from what is built, had no library.
@pytest.mark.parametrize("at", [0, 1, None])
def test_the_library_may_lie_in_any_folder_of_the_package(monkeypatch, tmp_path, at):
    folders = [tmp_path / "built", tmp_path / "sources"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.delenv("KDA_LIBRARY", raising=False)
    monkeypatch.setattr(kda, "__path__", [str(folder) for folder in folders])
    if at is not None:
        (folders[at] / "libkda.so").touch()
    found = "libkda.so" if at is None else str(folders[at] / "libkda.so")
    assert list(_library._candidates()) == [found]


NAMES = """
import kda
p = kda.Problem(heads=16, qkv_type="f16", gate=2, state_layout=kda.StateLayout.key_first)
o = kda.Options(effort="measure", cache_mode=1)
held: tuple[kda.DType, kda.Gate, kda.Effort, kda.CacheMode] = (
    p.qkv_type, p.gate, o.effort, o.cache_mode
)
kda.Problem(qkv_type=1.5)  # type: ignore[arg-type]
"""


# The bug: to type checkers, for which the package has its mark, an enumerated field took no names.
def test_type_checkers_know_that_enumerators_may_be_named(tmp_path):
    assert typing.get_type_hints(kda.Problem)["qkv_type"] is kda.DType
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "names.py").write_text(NAMES)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += [str(tmp_path / "names.py"), "--cache-dir", str(tmp_path)]
    env = dict(os.environ)
    if "KDA_PYTHON_INSTALLED" not in env:
        env["MYPYPATH"] = str(ROOT / "tools" / "python")
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def backend(monkeypatch):
    """tools/python/backend, on a scikit-build-core that is not here."""
    package = types.ModuleType("scikit_build_core")
    package.build = types.SimpleNamespace(
        build_sdist=lambda folder, settings=None: "kda-0.1.0.tar.gz",
        get_requires_for_build_sdist=lambda settings=None: [],
        prepare_metadata_for_build_wheel=None,
        prepare_metadata_for_build_editable=None,
    )
    monkeypatch.setitem(sys.modules, package.__name__, package)
    path = ROOT / "tools" / "python" / "backend" / "backend.py"
    spec = importlib.util.spec_from_file_location("kda_backend", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The bug: an sdist was made without the C++ sources, which lie above tools/python, and no wheel could
# be built from it.
def test_no_sdist_is_made(backend, tmp_path):
    with pytest.raises(backend.UnsupportedOperation, match="pip wheel ./tools/python"):
        backend.build_sdist(str(tmp_path))
    assert not list(tmp_path.iterdir())
