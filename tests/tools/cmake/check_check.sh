#!/usr/bin/env bash
# The bug: where clang-format-14 or clang-tidy-14 is not installed, the target `check` passed without
# a word of what it had not looked at.
#   check_check.sh <cmake> <generator> <kda_check.cmake> <folder to work in>
set -euo pipefail
cmake=$1 generator=$2 module=$3 work=$4
rm -rf "$work"
mkdir -p "$work"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(check_check LANGUAGES NONE)
include("$module")
END
"$cmake" -G "$generator" -S "$work" -B "$work/build" -D KDA_CLANG_FORMAT=OFF \
  -D KDA_CLANG_TIDY=OFF >"$work/said"
"$cmake" --build "$work/build" --target check >"$work/said"
for tool in clang-format-14 clang-tidy-14; do
  grep -q "check: .*there is no $tool" "$work/said" ||
    { echo "no word of $tool in:" && cat "$work/said" && exit 1; }
done
