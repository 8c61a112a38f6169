#!/usr/bin/env bash
# Ours beside the peers on this machine's GPU, in one command: builds libkda and kda-bench, makes
# the wheels of .whl importable, runs compare.py, or original.py or decode.py where the first
# argument is "original" or "decode".  Arguments go there; README.md has more.
#   BUILD  the build folder, made if it is not there (build-peers); that of device_check.sh will do
#   OUT    where peers.json and peers.md go, or others.*, original_fla.* and decode_fla.* (/tmp)
#   CMAKE_ARGS  to the configure step         KDA_PEERS_SITE  where the wheels are unpacked
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-build-peers}
site=${KDA_PEERS_SITE:-/tmp/kda-peers-site}

build_all() {
  # shellcheck disable=SC2086
  [[ -f $build/CMakeCache.txt ]] ||
    cmake -S . -B "$build" -D CMAKE_BUILD_TYPE=Release -D KDA_BUILD_TOOLS=ON \
      -D KDA_BUILD_TESTS=OFF ${CMAKE_ARGS:-} || return
  cmake --build "$build" -j "$(nproc)" --target kda_shared kda-bench
}
mkdir -p "$build"
if ! build_all >"$build/build.log" 2>&1; then
  tail -n 30 "$build/build.log" >&2
  exit 1
fi

if compgen -G '.whl/*.whl' >/dev/null; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" .whl/*.whl
fi
library=$(realpath "$build/src/libkda.so")
export KDA_LIBRARY=${KDA_LIBRARY:-$library}
export PYTHONPATH="$PWD/tools/python:$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
program=compare
if [[ ${1:-} == original || ${1:-} == decode ]]; then
  program=$1
  shift
fi
exec python3 "tools/peers/$program.py" --kda-bench "$build/tools/kda-bench" --out "${OUT:-/tmp}" "$@"
