# Sourced.  Has kda-tune compile by the NVRTC of a release, from PyPI; KDA_TUNE is made `tune`.
#   KDA_TUNE  the kda-tune to run        WORK  where NVRTC is put, if it is not there
# Exits with 77 where it cannot be fetched.
# shellcheck shell=bash
nvrtc_of() {
  local wheel=nvidia-cuda-nvrtc-cu12==$1
  if ! compgen -G "$WORK/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" >/dev/null; then
    if ! { python3 -m venv "$WORK/venv" && "$WORK/venv/bin/python" -m pip install -q \
      --disable-pip-version-check --no-deps --target "$WORK" "$wheel"; }; then
      echo "skipped: $wheel could not be fetched" >&2
      exit 77
    fi
  fi
  export KDA_NVRTC_PATH=$WORK/nvidia/cuda_nvrtc/lib KDA_CACHE_DIR=$WORK/cache
}
tune() { env KDA_TUNE=off "$KDA_TUNE" "$@"; }
