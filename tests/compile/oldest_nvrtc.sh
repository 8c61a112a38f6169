#!/usr/bin/env bash
# Compiles kernels of every strategy by the oldest NVRTC that README.md names, from PyPI.  The bug:
# nobody did, and it had refused most of Hopper's for structs without a name; where it did not, it
# had their products wait for each other.
#   KDA_TUNE  the kda-tune to run        WORK  where NVRTC is put, if it is not there
# Exits with 77 where it cannot be fetched.
set -euo pipefail
wheel=nvidia-cuda-nvrtc-cu12==12.4.127
if ! compgen -G "$WORK/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" >/dev/null; then
  if ! { python3 -m venv "$WORK/venv" && "$WORK/venv/bin/python" -m pip install -q \
    --disable-pip-version-check --no-deps --target "$WORK" "$wheel"; }; then
    echo "skipped: $wheel could not be fetched" >&2
    exit 77
  fi
fi
export KDA_NVRTC_PATH=$WORK/nvidia/cuda_nvrtc/lib KDA_CACHE_DIR=$WORK/cache
tune=$KDA_TUNE
unset KDA_TUNE
build() {
  env KDA_TUNE=off "$tune" build --quiet "$@" | tee "$WORK/kernels.txt"
  if grep -q "serializes its wgmma" "$WORK/kernels.txt"; then
    echo "failed: products wait for each other in a kernel above" >&2
    exit 1
  fi
}
build --arch h200 "T=8192 H=64" "T=8192 H=16" "T=8192 H=8" "T=8192 H=32" "T=65536 H=8" \
  "T=8192 H=16 N=4 varlen=1" "T=8192 H=32 gate=softplus pool=1 checkpoint=64" "T=1 H=32 pool=1" \
  "H=16 pool=1 mixed=1 seqlens=256x1,8192" "T=1024 H=32 gate=log_decay g=f32 beta_logit=0 l2norm=0"
build --arch sm_89 "T=8192 H=16" "T=8192 H=16 qkv=f32" "T=1 H=32 pool=1"
