#!/usr/bin/env bash
# Two bugs: kda_link_bundle took a static library, out of which linkers left the bundle; and called
# from another folder than the target's it forgot what the bundle's source depends on, so that a new
# bundle was not built in.
#   bundle_check.sh <cmake> <generator> <kda_bundle.cmake> <folder to work in>
set -euo pipefail
cmake=$1 generator=$2 module=$3 work=$4
rm -rf "$work"
mkdir -p "$work/below"
touch "$work/empty.cpp" "$work/k.kdab" "$work/other.kdab"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(bundle_check LANGUAGES CXX)
include("$module")
add_library(carrier \${KIND} empty.cpp)
kda_link_bundle(carrier k.kdab)
add_library(other SHARED empty.cpp)
add_subdirectory(below)
END
echo "kda_link_bundle(other \"$work/other.kdab\")" >"$work/below/CMakeLists.txt"
configure() { "$cmake" -G "$generator" -S "$work" -B "$work/$1" -D KIND="$1" >"$work/said" 2>&1; }
configure SHARED || { cat "$work/said" && exit 1; }
if configure STATIC || ! tr -s '\n ' ' ' <"$work/said" | grep -q "carrier is a STATIC_LIBRARY, from"; then
  echo "a static library is not refused:" && cat "$work/said" && exit 1
fi
for bundle in k other; do
  grep -rq --include=build.ninja --include=build.make "$work/$bundle.kdab" "$work/SHARED" ||
    { echo "nothing is built again after $bundle.kdab" && exit 1; }
done
