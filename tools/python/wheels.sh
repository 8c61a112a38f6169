#!/usr/bin/env bash
# Fetches what the GPU tests want and a machine with PyTorch may lack, into the folder named (.whl at
# the repository's root): FLA, its layers, einops.  pytest, pytest-xdist and hypothesis are also
# fetched with `wheels.sh <folder> all`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/.whl}
packages=(fla-core==0.6.0 flash-linear-attention==0.6.0 einops==0.8.2)
if [ "${2:-}" = all ]; then
  packages+=(pytest pluggy iniconfig packaging pygments pytest-xdist execnet hypothesis
    sortedcontainers)
fi
platforms=()
for name in manylinux_2_28 manylinux_2_17 manylinux2014 manylinux1; do
  platforms+=(--platform "${name}_x86_64")
done
mkdir -p "$folder"
python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp "${platforms[@]}" -d "$folder" "${packages[@]}"
ls -l "$folder"
