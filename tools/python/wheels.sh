#!/usr/bin/env bash
# Fetches what the GPU tests want and a machine with PyTorch and Python 3.12 may lack, into the folder
# named (.whl at the repository's root): FLA, its layers, einops.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/.whl}
mkdir -p "$folder"
python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp --platform manylinux_2_17_x86_64 -d "$folder" \
  fla-core==0.6.0 flash-linear-attention==0.6.0 einops==0.8.2
ls -l "$folder"
