#!/usr/bin/env bash
# Looks at what products are told of places in shared memory, for CUDA 12.8, the compiler of many a
# PyTorch.  The bug: its ptxas put the copy of a place behind the addition to it, where descriptors
# were sums of 64 bits.  Every strategy with wgmma took o of the chunk before, or ended in an illegal
# address, on an H200.  Here: each descriptor is put together from two words.
set -euo pipefail
# shellcheck source=tests/compile/nvrtc_wheel.sh
source "$(dirname "${BASH_SOURCE[0]}")/nvrtc_wheel.sh"
nvrtc_of 12.8.93
for strategy in chunk_wgmma fused segments; do
  ptx=$WORK/$strategy.ptx
  tune dump --quiet --arch h200 --strategy "$strategy" --ptx "T=8192 H=16" >"$ptx"
  awk -v strategy="$strategy" '
    match($0, /mov\.b64[ \t]+%rd[0-9]+, \{/) { split($2, name, ","); joined[name[1]] = 1 }
    /wgmma\.mma_async/ {
      match($0, /\}, %rd[0-9]+, p/)
      descriptor = substr($0, RSTART + 3, RLENGTH - 6)
      ++products
      if (!(descriptor in joined)) { print "failed: " strategy ": the sum " descriptor; ++sums }
    }
    END { print strategy ": " products + 0 " products"; exit sums > 0 || products == 0 }
  ' "$ptx"
done
