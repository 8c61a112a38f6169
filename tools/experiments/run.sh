#!/usr/bin/env bash
# The experiments behind the Hopper kernels' design: builds every one with nvcc and runs it on the
# GPU, some 50 s in all.  Each prints one JSON object a line; they are kept in
# ${OUT:-/tmp}/experiments.jsonl and its tables printed last by table.py.  `--build` only builds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-/tmp}
built=$(mktemp -d)

build() {  # build <program> <source> <options...>
  local program=$1 source=$2
  shift 2
  nvcc -gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -std=c++20 -O3 -I "$here/../../templates" -I "$here" \
    "$@" -o "$built/$program" "$here/$source" -lcuda 2>&1 | grep -v C7517 >&2 || true
  [[ -x $built/$program ]]
}

programs=(wgmma cluster feed relay pipes launch rewrite vote_16 vote_32 groups_1 groups_4)
programs+=(chain_16 chain_32 chain_64)
pids=()
for program in "${programs[@]}"; do
  chunk=${program#*_}
  build "$program" "${program%_*}.cu" -DCHUNK="${chunk/$program/32}" \
    -DGROUPS="${chunk/$program/1}" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
echo "built in $SECONDS s" >&2
[[ ${1:-} == --build ]] && exit "$failed"

: >"$out/experiments.jsonl"
for program in "${programs[@]}"; do
  # One that fails or hangs must not cost the others.
  [[ -x $built/$program ]] || continue
  timeout 30 "$built/$program" >>"$out/experiments.jsonl" || echo "$program: exit $?" >&2
done
echo "ran by $SECONDS s; rows in $out/experiments.jsonl" >&2
python3 "$here/table.py" "$out/experiments.jsonl"
