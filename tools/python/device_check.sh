#!/usr/bin/env bash
# Everything of the Python package that needs a GPU, on the machine that has one; no network.
#   tools/python/device_check.sh              build, test, the table of call times
#   tools/python/device_check.sh test -k graph    pytest's arguments after a phase's name
#   BUILD        the build folder (build-python)      CMAKE_ARGS  to the configure step
#   KDA_LIBRARY  a libkda.so that is built: no build  OUT         logs and results (/tmp)
#   KDA_RANDOM   how many random problems (1000)
# FLA comes from wheels in .whl (tools/python/wheels.sh); without it our own naive recurrence is
# compared with, and the table has our column alone.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
out=${OUT:-/tmp}
build=${BUILD:-build-python}
site=$build/site
mkdir -p "$build" "$out"
failed=()

if compgen -G '.whl/*.whl' >/dev/null && [ ! -d "$site/fla" ]; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" .whl/*.whl
fi
export PYTHONPATH="$PWD/tools/python:$PWD/$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export PYTHONDONTWRITEBYTECODE=1 KDA_CACHE_DIR=${KDA_CACHE_DIR:-$PWD/$build/cache}

build() {
  [ -z "${KDA_LIBRARY:-}" ] || return 0
  # shellcheck disable=SC2086
  cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D BUILD_SHARED_LIBS=ON \
    -D KDA_BUILD_TESTS=OFF -D KDA_BUILD_TOOLS=OFF ${CMAKE_ARGS:-} &&
    cmake --build "$build" -j "$(nproc)" --target kda
}

tests() {
  local parallel=()
  if python3 -c 'import xdist' 2>/dev/null; then parallel=(-n "${WORKERS:-12}" --dist worksteal); fi
  python3 -m pytest -q -rfE -p no:cacheprovider --tb=short "${parallel[@]}" --durations=8 \
    tests/python "$@"
}

# phase <name> <command...>
phase() {
  local name=$1 start=$SECONDS
  shift
  "$@" >"$out/python-$name.log" 2>&1
  local code=$?
  tail -n "${TAIL:-60}" "$out/python-$name.log" | cut -c -300
  echo "== $name: exit $code after $((SECONDS - start)) s, log in $out/python-$name.log"
  [ $code -eq 0 ] || failed+=("$name")
}

only=${1:-all}
[ $# -eq 0 ] || shift
if [[ $only =~ ^(all|build|test|times)$ ]]; then phase build build; fi
KDA_LIBRARY=${KDA_LIBRARY:-$(find "$PWD/$build" -name libkda.so | head -n 1)}
export KDA_LIBRARY
if [[ $only =~ ^(all|test)$ ]]; then phase test tests "$@"; fi
if [[ $only =~ ^(all|times)$ ]]; then
  phase times python3 tools/python/call_time.py --out "$out" "$@"
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
