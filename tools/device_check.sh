#!/usr/bin/env bash
# Everything that needs a GPU, on the machine that has one: build, the tests labelled gpu, then
# compute-sanitizer over the small runs.  Name phases to do only those:
#   tools/device_check.sh                        all of them
#   tools/device_check.sh build test             the tests alone
#   tools/device_check.sh memcheck racecheck     on what is built
# Logs go to ${OUT:-/tmp}; the build to ${BUILD:-build-device}; CMAKE_ARGS go to the configure step.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=${OUT:-/tmp}
build=${BUILD:-build-device}
phases=${*:-build test memcheck racecheck initcheck}
export KDA_CACHE_DIR=${KDA_CACHE_DIR:-$PWD/$build/cache}
failed=()

# phase <name> <command...>: runs it, its output in a log, its last lines here.
phase() {
  local name=$1 start=$SECONDS
  shift
  "$@" >"$out/$name.log" 2>&1
  local code=$?
  # Of a sweep: each failure and each strategy's line; of a passing rest: the end.
  grep -E 'FAILED|: [0-9]+ passed, |plans [0-9.]+ s' "$out/$name.log" | cut -c -"${WIDTH:-300}" | tail -n 60
  tail -n "${TAIL:-15}" "$out/$name.log"
  echo "== $name: exit $code after $((SECONDS - start)) s, log in $out/$name.log"
  [[ $code -eq 0 ]] || failed+=("$name")
}

build() {
  # shellcheck disable=SC2086
  cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D KDA_BUILD_TESTS=ON ${CMAKE_ARGS:-} &&
    cmake --build "$build" -j "$(nproc)"
}

# sanitize <tool> <Catch2 tag> <options...>
sanitize() {
  local tool=$1 tag=$2
  shift 2
  compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$@" \
    "$build/tests/kda_test_strategy" "$tag"
}

for each in $phases; do
  case $each in
    build) phase build build ;;
    test) phase test ctest --test-dir "$build" -L gpu --verbose --timeout 540 ;;
    memcheck) phase memcheck sanitize memcheck '[sanitize]' --leak-check no ;;
    racecheck) phase racecheck sanitize racecheck '[sanitize]' --racecheck-report all ;;
    initcheck) phase initcheck sanitize initcheck '[initcheck]' ;;
    *)
      echo "unknown phase $each: build, test, memcheck, racecheck, initcheck" >&2
      exit 2
      ;;
  esac
done

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "all passed: $phases"
