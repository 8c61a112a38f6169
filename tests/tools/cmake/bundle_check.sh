#!/usr/bin/env bash
# The bug: kda_link_bundle took a static library, out of which linkers left the bundle.
#   bundle_check.sh <cmake> <generator> <kda_bundle.cmake> <folder to work in>
set -euo pipefail
cmake=$1 generator=$2 module=$3 work=$4
rm -rf "$work"
mkdir -p "$work"
touch "$work/empty.cpp" "$work/k.kdab"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(bundle_check LANGUAGES CXX)
include("$module")
add_library(carrier \${KIND} empty.cpp)
kda_link_bundle(carrier k.kdab)
END
configure() { "$cmake" -G "$generator" -S "$work" -B "$work/$1" -D KIND="$1" >"$work/said" 2>&1; }
configure SHARED || { cat "$work/said" && exit 1; }
if configure STATIC || ! tr -s '\n ' ' ' <"$work/said" | grep -q "carrier is a STATIC_LIBRARY, from"; then
  echo "a static library is not refused:" && cat "$work/said" && exit 1
fi
