#!/usr/bin/env bash
# tools/tuning_results.sh PHASE...: what the tuner finds on this machine's GPUs, checked in under
# tools/results/.  Each search ends by its limit of seconds, whatever happens; all visible GPUs take
# part, so phases may run side by side, each with some of them:
#
#   build        kda-tune alone, on all cores
#   tune         every case of `kda-tune list`: the records to ship, tuned.{json,md,html}, of which the
#                page plots every search
#   again        the same independently: tuned_again.json
#   exhaustive   five cases by exhaustive search: exhaustive.{json,md}; of what strategies
#                chunk_wgmma and segments have at chunk=32 prepare_threads=256, the rest of the space
#                being hours
#   report       repeats.md and to_exhaustive.md: whether they agree within 3%
#
#   tools/tuning_results.sh build tune again exhaustive report         on all GPUs, one by one
#   tools/tuning_results.sh build; for p in 0:tune 1:again 2,3:exhaustive; do
#     CUDA_VISIBLE_DEVICES=${p%:*} tools/tuning_results.sh "${p#*:}" & done; wait
#
# BUILD: the build folder, `build`.  OUT: where src/tune/shipped/ and tools/results/ are written, the
# tree itself.  DEVICE: their name, h200.  TUNE_SECONDS=150, AGAIN_SECONDS=150,
# EXHAUSTIVE_SECONDS=120.  CASES: words of kda-tune tune, in place of the cases above.  CMAKE_ARGS go
# to the configure step.
set -uo pipefail
self=$(realpath "${BASH_SOURCE[0]}")
usage() { sed -n "2,14p" "$self"; exit 2; }
[ $# -gt 0 ] || usage
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
build=$(realpath -m "${BUILD:-build}")
out=$(realpath -m "${OUT:-.}")
device=${DEVICE:-h200}
results=$out/tools/results/$device
work=$build/tuning
tool=$build/tools/kda-tune
cases=() small=(h12_t2048 h8_t4096 h4_t1024 h32_t256 h16)
if [ -n "${CASES:-}" ]; then
  read -ra cases <<<"$CASES"
  small=("${cases[@]}")
fi
# Kernels are shared: what compiles is the same.  Measurements are not.
export KDA_CACHE_DIR=$work/cache
mkdir -p "$results" "$out/src/tune/shipped" "$work"
failed=0

# search NAME SECONDS [words...]: into $work/NAME and $results/NAME.json
search() {
  local name=$1 seconds=$2 code=0
  shift 2
  rm -rf "${work:?}/$name"
  # The limit is kda-tune's; this is for a driver that hangs.
  timeout -k 5 -s INT $((seconds * 12 / 10 + 30)) "$tool" tune "$@" --time "$seconds" \
    --wisdom-dir "$work/$name" -o json --output "$results/$name.json" \
    >"$work/$name.log" 2>&1 || code=$?
  tail -n 6 "$work/$name.log" | cut -c -300
  "$tool" wisdom ls --own --wisdom-dir "$work/$name" -o md --output "$results/$name.md"
  echo "== $name: exit $code after $SECONDS s, $(grep -c '^|' "$results/$name.md") lines in $name.md"
  [ "$code" = 0 ] || failed=1
}

for phase in "$@"; do
  case $phase in
    build)
      # shellcheck disable=SC2086
      { cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D KDA_BUILD_TESTS=OFF \
        ${CMAKE_ARGS:-} && cmake --build "$build" -j "$(nproc)" --target kda-tune; } \
        >"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }
      echo "== build: $SECONDS s"
      ;;
    tune)
      search tuned "${TUNE_SECONDS:-150}" "${cases[@]}"
      "$tool" plot "$work"/tuned/v1/journal/*.jsonl --out "$results/tuned.html"
      "$tool" wisdom export --own --wisdom-dir "$work/tuned" \
        --output "$work/records" && [ -s "$work/records" ] &&
        cp "$work/records" "$out/src/tune/shipped/$device.jsonl"
      ;;
    again) search tuned_again "${AGAIN_SECONDS:-150}" "${cases[@]}" --seed 2 ;;
    exhaustive)
      search exhaustive "${EXHAUSTIVE_SECONDS:-120}" "${small[@]}" --method exhaustive \
        --strategy chunk_wgmma --strategy segments --tuning "chunk=32 prepare_threads=256"
      ;;
    report)
      "$tool" compare "$results/tuned.json" "$results/tuned_again.json" --threshold 3 \
        -o md --output "$results/repeats.md" || failed=1
      "$tool" compare "$results/exhaustive.json" "$results/tuned.json" --threshold 3 \
        -o md --output "$results/to_exhaustive.md" || failed=1
      tail -n 3 "$results/repeats.md" "$results/to_exhaustive.md"
      ;;
    *) usage ;;
  esac
done
exit $failed
