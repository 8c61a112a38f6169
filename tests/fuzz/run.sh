#!/usr/bin/env bash
# tests/fuzz/run.sh [seconds] [target...]: libFuzzer with ASan and UBSan on each parser (clang).
# New inputs stay in the build folder; copy small ones that reach something new to corpus/<target>.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-120}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(entry bundle problem words wisdom)
build=${KDA_FUZZ_BUILD:-build-fuzz}
cmake -S . -B "$build" -DCMAKE_CXX_COMPILER="${KDA_CLANG:-clang++}" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DKDA_FUZZ=ON -DKDA_BUILD_TOOLS=OFF -DKDA_INSTALL=OFF \
  -DKDA_SANITIZE=address,undefined,fuzzer-no-link ${KDA_CMAKE_ARGS:-} >/dev/null
programs=()
for target in "${targets[@]}"; do programs+=("fuzz_$target"); done
cmake --build "$build" --parallel 2 --target "${programs[@]}"
for target in "${targets[@]}"; do
  mkdir -p "$build/found/$target"
  echo "== $target, $seconds s"
  "$build/tests/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$build/found/$target-" \
    "$build/found/$target" "tests/fuzz/corpus/$target"
done
