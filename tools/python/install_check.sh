#!/usr/bin/env bash
# `pip install ./tools/python` into a clean virtual environment, as a user would: what the wheel
# holds, and that it imports, finds an NVRTC and compiles for sm_90a on a machine without a GPU.
#   KDA_PREBUILT   bundle this libkda.so instead of building one, which takes minutes
#   WORK           a folder for the environment (a new one); it is left there
# Exits with 77 where pip cannot bring the build's tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=${WORK:-$(mktemp -d)}
python=$work/venv/bin/python
settings=()
if [ -n "${KDA_PREBUILT:-}" ]; then settings=(-C "cmake.define.KDA_PREBUILT=$KDA_PREBUILT"); fi

if ! [ -x "$python" ] && ! python3 -m venv "$work/venv"; then
  echo "skipped: python3 makes no virtual environment here" >&2
  exit 77
fi
if ! "$python" -m pip download -q --disable-pip-version-check --no-deps -d "$work/probe" \
  'scikit-build-core>=0.10'; then
  echo "skipped: pip cannot bring scikit-build-core here" >&2
  exit 77
fi
"$python" -m pip install -q --disable-pip-version-check --upgrade 'pip>=22.1'
"$python" -m pip wheel -q --no-deps -w "$work" "${settings[@]}" ./tools/python
"$python" -m pip install -q --no-deps --force-reinstall "$work"/kda-*.whl

# The package, our library and nothing of CUDA, torch or Python's own.
"$python" - "$work"/kda-*.whl <<'PY'
import re
import subprocess
import sys
import tempfile
import zipfile

(path,) = sys.argv[1:]
assert re.search(r"-py3-none-linux_\w+\.whl$", path), path
with zipfile.ZipFile(path) as wheel:
    names = wheel.namelist()
    libraries = [name for name in names if ".so" in name]
    assert libraries == ["kda/libkda.so"], libraries
    assert "kda/py.typed" in names and "kda/torch/fla.py" in names, names
    with tempfile.TemporaryDirectory() as folder:
        library = wheel.extract("kda/libkda.so", folder)
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
needed = re.findall(r"NEEDED.*\[(.*?)\]", needed)
strange = [name for name in needed if re.match(r"lib(cu|nv|torch|python|c10)", name)]
assert not strange, strange
print(f"wheel: {len(names)} files; libkda.so needs {', '.join(needed)}")
PY

# From another directory and without our environment variables.
cd "$work"
KDA_CACHE_DIR=$work/cache env -u KDA_LIBRARY -u PYTHONPATH "$python" - <<'PY'
import kda

plan = kda.Plan(kda.Problem(heads=4, max_tokens=4096), kda.Options(target="sm_90a"))
assert "sm_90a" in plan.describe()
print("kda", ".".join(map(str, kda.library_version())), "compiled for sm_90a")
PY
