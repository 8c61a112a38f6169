#!/usr/bin/env bash
# What of the Python package needs a GPU, on the machine that has one; no network, no build.
#   tools/python/device_check.sh tests [pytest's arguments]   under 100 s, or SECONDS_FOR_TESTS + 35
#   tools/python/device_check.sh calltime                     under 100 s
#   tools/python/device_check.sh callparts                    where that time goes, under 60 s
#   tools/python/device_check.sh                              the first two
#   KDA_LIBRARY  the libkda.so to test; unset: of ${BUILD:-build}, build-device, build-peers
#   OUT          logs, calls.json, calls.md (/tmp)     SITE  where the wheels of .whl go (/tmp/site)
#   WORKERS      processes that test at once           SECONDS_FOR_TESTS  no test starts later (65)
# FLA comes from wheels in .whl (tools/python/wheels.sh); without it our own naive recurrence is
# compared with, and the table has our column alone.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
out=${OUT:-/tmp}
site=${SITE:-/tmp/site}
mkdir -p "$out"
failed=()

if [ -z "${KDA_LIBRARY:-}" ]; then
  for folder in "${BUILD:-build}" build build-device build-peers; do
    if [ -e "$folder/src/libkda.so" ]; then
      KDA_LIBRARY=$(realpath "$folder/src/libkda.so")
      break
    fi
  done
fi
if [ ! -e "${KDA_LIBRARY:-}" ]; then
  echo "no libkda.so in ${BUILD:-build}/src, build-device or build-peers: run" \
    "tools/device_check.sh build first, or set KDA_LIBRARY" >&2
  exit 2
fi
export KDA_LIBRARY
if [ ! -d "$site/fla" ] && compgen -G '.whl/*.whl' >/dev/null; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" .whl/*.whl || echo "the wheels of .whl did not install; going on without"
fi
export PYTHONPATH="$PWD/tools/python:$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export PYTHONDONTWRITEBYTECODE=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
# Many processes at once: each with one thread for what it compiles.
export KDA_CACHE_DIR=${KDA_CACHE_DIR:-/tmp/kda-python-cache} TORCHINDUCTOR_COMPILE_THREADS=1

run_tests() {
  local parallel=()
  if python3 -c 'import xdist' 2>/dev/null; then
    parallel=(-p xdist.plugin -n "${WORKERS:-$(($(nproc) > 15 ? 15 : $(nproc)))}" --dist worksteal)
  fi
  local seconds=${SECONDS_FOR_TESTS:-65}
  export KDA_DEADLINE=$(($(date +%s) + seconds)) KDA_JIT_THREADS=2
  # Plugins are named: a machine with JAX has some that import it.
  PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 timeout -s INT -k 5 $((seconds + 27)) python3 -m pytest -q -rfE \
    -p no:cacheprovider --tb=short "${parallel[@]}" --durations=6 "${@:-tests/python}"
}

# phase <name> <command...>
phase() {
  local name=$1 start=$SECONDS
  shift
  "$@" >"$out/python-$name.log" 2>&1
  local code=$?
  tail -n "${TAIL:-45}" "$out/python-$name.log" | cut -c -200
  echo "== $name: exit $code after $((SECONDS - start)) s, log in $out/python-$name.log"
  [ $code -eq 0 ] || failed+=("$name")
}

only=${1:-all}
[ $# -eq 0 ] || shift
case $only in
  all | tests | calltime | callparts) ;;
  *)
    echo "unknown phase $only: tests, calltime, callparts" >&2
    exit 2
    ;;
esac
if [ "$only" = all ] || [ "$only" = tests ]; then
  if [ $# -eq 0 ]; then
    set -- tests/python/gpu tests/python/test_examples.py tests/python/test_readme.py
  fi
  phase tests run_tests "$@"
fi
if [ "$only" = callparts ]; then
  phase callparts timeout -k 5 60 python3 tools/python/call_parts.py "$@"
fi
if [ "$only" = all ] || [ "$only" = calltime ]; then
  phase calltime timeout -k 5 95 python3 tools/python/call_time.py --out "$out" --seconds 75
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
