#!/usr/bin/env bash
# Compiles kernels of every strategy by the oldest NVRTC that README.md names.  The bug: nobody did,
# and it had refused most of Hopper's for structs without a name; where it did not, it had their
# products wait for each other.
set -euo pipefail
# shellcheck source=tests/compile/nvrtc_wheel.sh
source "$(dirname "${BASH_SOURCE[0]}")/nvrtc_wheel.sh"
nvrtc_of 12.4.127
build() {
  tune build --quiet "$@" | tee "$WORK/kernels.txt"
  if grep -q "serializes its wgmma" "$WORK/kernels.txt"; then
    echo "failed: products wait for each other in a kernel above" >&2
    exit 1
  fi
}
build --arch h200 "T=8192 H=64" "T=8192 H=16" "T=8192 H=8" "T=8192 H=32" "T=65536 H=8" \
  "T=8192 H=16 N=4 varlen=1" "T=8192 H=32 gate=softplus pool=1 checkpoint=64" "T=1 H=32 pool=1" \
  "H=16 pool=1 mixed=1 seqlens=256x1,8192" "T=1024 H=32 gate=log_decay g=f32 beta_logit=0 l2norm=0"
build --arch sm_89 "T=8192 H=16" "T=8192 H=16 qkv=f32" "T=1 H=32 pool=1"
