#!/usr/bin/env bash
# The Python tests that need no GPU; arguments go to pytest.
#   KDA_LIBRARY  the libkda.so to test; unset: built into ${BUILD:-build-python}
#   VENV         where pytest is, made if it is not there (${BUILD}/venv)
#   KDA_TEST_TORCH  1: torch, FLA and transformers are fetched into VENV where it lacks them (5 GB)
#                   and the disk has room; .ci/run does
# Uses torch, FLA and transformers where that environment has them.  Exits with 77 where pytest
# cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-$PWD/build-python}
venv=${VENV:-$build/venv}

if [ -z "${KDA_LIBRARY:-}" ]; then
  cmake -S . -B "$build" -D CMAKE_BUILD_TYPE=Release -D KDA_BUILD_TESTS=OFF -D KDA_BUILD_TOOLS=OFF
  cmake --build "$build" --parallel --target kda_shared
  KDA_LIBRARY=$(find "$build" -name libkda.so | head -n 1)
fi
export KDA_LIBRARY PYTHONDONTWRITEBYTECODE=1

python=$venv/bin/python
pip=("$python" -m pip install -q --disable-pip-version-check)
if ! "$python" -c 'import pytest' 2>/dev/null &&
  ! { python3 -m venv "$venv" && "${pip[@]}" pytest; }; then
  echo "skipped: no pytest here, and pip could not bring it" >&2
  exit 77
fi

bring_torch() {
  "$@" torch==2.11.0 einops transformers==5.24.0 &&
    "$@" --no-deps fla-core==0.6.0 flash-linear-attention==0.6.0
}
# uv has torch's 5 GB in place in a fifth of pip's time, but does not know pip's settings.
bring_torch_soon() {
  "${pip[@]}" uv && UV_CACHE_DIR=$venv/cache bring_torch "$venv/bin/uv" pip install -q \
    --python "$python"
}
free_gb() { df -Pk "$venv" | awk 'NR == 2 { print int($4 / 1048576) }'; }
if [ "${KDA_TEST_TORCH:-}" = 1 ] &&
  ! "$python" -c 'import torch, fla.layers, transformers' 2>/dev/null; then
  # The bug: torch filled the disk, and what failed for want of room was another test.
  needed=8
  if [ "$(free_gb)" -lt $needed ]; then
    echo "$venv: $(free_gb) GB free, torch, FLA and transformers want $needed:" \
      "their tests are skipped" >&2
  elif ! bring_torch_soon && ! bring_torch "${pip[@]}"; then
    echo "neither uv nor pip could bring torch, FLA and transformers: their tests are skipped" >&2
    rm -rf "$venv/cache"  # what came of them
  fi
fi
exec "$python" -m pytest -q -rs -p no:cacheprovider tests/python "$@"
