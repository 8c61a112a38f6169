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
