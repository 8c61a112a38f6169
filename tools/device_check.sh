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

# report <log>: failures in a few lines each, then counts.  Lines may carry ctest's "24: ".
report() {
  # A sweep names each failing trial and why: the first four of a strategy.
  awk -v width="${WIDTH:-400}" '
    also { print substr($0, 1, width); also = 0 }
    /^([0-9]+: )?FAILED / {
      split($0, part, "|")
      if (++seen[part[1], part[2]] <= 4) { print substr($0, 1, width); also = 1 }
    }' "$1"
  # A failed check, with its case and values.
  grep -E -B6 -A8 ': (FAILED|warning):' "$1" |
    grep -Ev '^([0-9]+[:-] ?)?[-=.~]*$|: [0-9]+ passed, [0-9]+ failed|test cases: ' |
    cut -c -"${WIDTH:-400}" | head -n 100
  grep '^========= ' "$1" | grep -v 'COMPUTE-SANITIZER\|SUMMARY' | head -n 30
  grep -E '\*\*\*(Failed|Timeout|Exception|Not Run|Skipped)|ERROR SUMMARY|skipped' "$1" | sort -u
  awk '
    match($0, /: [0-9]+ passed, [0-9]+ failed, [0-9]+ refused/) {
      split(substr($0, RSTART + 2, RLENGTH - 2), n, /[^0-9]+/)
      passed += n[1]; failed += n[2]; refused += n[3]
    }
    match($0, /worst [0-9.]+/) {
      ratio = substr($0, RSTART + 6, RLENGTH - 6) + 0
      if (ratio > worst) { worst = ratio; where = $0 }
    }
    /All tests passed/ && match($0, /in [0-9]+ test/) { good += substr($0, RSTART + 3) + 0 }
    /test cases: / {
      if (match($0, /[0-9]+ passed/)) good += substr($0, RSTART) + 0
      if (match($0, /[0-9]+ failed/)) bad += substr($0, RSTART) + 0
    }
    END {
      printf "trials: %d passed, %d failed, %d refused; cases: %d passed, %d failed\n", \
        passed, failed, refused, good, bad
      if (worst > 0) print "worst error: " where
    }' "$1"
}

# phase <name> <command...>: runs it, its output in a log, what matters of it here.
phase() {
  local name=$1 start=$SECONDS
  shift
  "$@" >"$out/$name.log" 2>&1
  local code=$?
  if [[ $name == build ]]; then
    tail -n "${TAIL:-15}" "$out/$name.log"
  else
    report "$out/$name.log"
  fi
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
