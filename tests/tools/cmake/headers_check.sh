#!/usr/bin/env bash
# The bug: headers of CUDA 12.1 were taken without a word, and the build failed by a call that they
# lack.
#   headers_check.sh <cmake> <generator> <kda_cuda_headers.cmake> <folder to work in>
set -euo pipefail
cmake=$1 generator=$2 module=$3 work=$4
rm -rf "$work"
mkdir -p "$work"/{old,new}/include
touch "$work"/{old,new}/include/nvrtc.h
echo '#define CUDA_VERSION 12010' >"$work/old/include/cuda.h"
echo '#define CUDA_VERSION 12040' >"$work/new/include/cuda.h"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(headers_check LANGUAGES NONE)
include("$module")
message(STATUS "taken: \${KDA_CUDA_INCLUDE_DIR}")
END
configure() { "$cmake" -G "$generator" -S "$work" -B "$work/$1" "${@:2}" >"$work/said" 2>&1; }
fail() { echo "$1:" && cat "$work/said" && exit 1; }
CUDA_HOME=$work/old CUDA_PATH=$work/new configure passed_by || fail "newer ones are not taken"
grep -q "taken: $work/new/include" "$work/said" || fail "newer ones are not taken"
if configure named -D KDA_CUDA_INCLUDE_DIR="$work/old/include" ||
  ! grep -q "KDA_CUDA_INCLUDE_DIR=$work/old/include" "$work/said"; then
  fail "old ones that are named are taken"
fi
