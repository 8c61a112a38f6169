#!/usr/bin/env bash
# Fetches the peers' wheels for a Linux x86-64 machine with Python 3.12, PyTorch, Triton and cuDNN,
# into the folder named (.whl at the repository's root): 13 MB.  What else they ask for is there
# (einops, cuda-bindings) or serves engines that are not run (nvidia-cutlass-dsl, 95 MB of wheels).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/.whl}
platforms=()
for name in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1; do
  platforms+=(--platform "${name}_x86_64")
done
mkdir -p "$folder"
python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp "${platforms[@]}" -d "$folder" \
  fla-core==0.6.0 einops==0.8.2 nvidia-cudnn-frontend==1.32.0
ls -l "$folder"
