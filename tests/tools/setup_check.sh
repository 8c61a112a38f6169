#!/usr/bin/env bash
# The bug: where tools/setup.sh had fetched NVRTC only the script's own commands found it; kda-tune
# and a ctest by hand failed afterwards, and nothing said what they lack.
#   setup_check.sh <setup.sh>
set -euo pipefail
eval "$(sed -n '/^say_nvrtc()/,/^}/p' "$1")"

# told <was set before> <is set> <wanted>
told() {  # shellcheck disable=SC2034  # say_nvrtc reads both
  local given_nvrtc=$1 KDA_NVRTC_PATH=$2 said
  said=$(say_nvrtc 2>&1)
  case $said in
    *"$3"*) [ -n "$3" ] || [ -z "$said" ] ;;
    *) false ;;
  esac || { echo "of \"$1\", then \"$2\" it says: $said" && exit 1; }
}
told '' '' ''            # there is a toolkit
told /its/own /its/own ''
told '' '/a b/lib' 'export KDA_NVRTC_PATH=/a\ b/lib'
told /older /newer 'export KDA_NVRTC_PATH=/newer'

# The bug: grep -q ended at NVRTC's line, ldconfig by SIGPIPE, and so what is installed was fetched.
eval "$(sed -n '/^new_enough()/,/^}/p; /^has_cuda()/,/^}/p' "$1")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/include"
touch "$root/include/nvrtc.h"
compgen() { false; }  # no toolkit of this machine's
ldconfig() { echo 'libnvrtc.so.12 (libc6,x86-64)' && seq 100000; }
echo '#define CUDA_VERSION 12040' >"$root/include/cuda.h"
CUDA_HOME=$root has_cuda || { echo "what is installed was not found" && exit 1; }
# The bug: headers of any CUDA would do.
echo '#define CUDA_VERSION 12030' >"$root/include/cuda.h"
if new_enough "$root/include"; then echo "CUDA 12.3 is new enough" && exit 1; fi
