#!/usr/bin/env bash
# The bug: where fmt is not installed, kda and a project around it that fetches fmt, too, took each
# other's: FetchContent knows a name once.  And where the project has an fmt of its own, an installed
# spdlog, which wants the installed one, was taken beside it.
#   fetch_check.sh <cmake> <generator> <kda_dependencies.cmake> <folder to work in>
set -euo pipefail
cmake=$1 generator=$2 module=$3 work=$4
rm -rf "$work"
mkdir -p "$work"/{fmt,kda}
for name in fmt spdlog xxhash nlohmann_json cli11; do
  mkdir -p "$work/ours/$name"/{include,single_include}
done
cat >"$work/fmt/CMakeLists.txt" <<END
add_library(fmt INTERFACE)
target_compile_definitions(fmt INTERFACE THEIRS)
add_library(fmt::fmt ALIAS fmt)
END
cat >"$work/kda/CMakeLists.txt" <<END
include("$module")
get_target_property(spdlog spdlog::spdlog INTERFACE_INCLUDE_DIRECTORIES)
if(NOT spdlog STREQUAL "$work/ours/spdlog/include")
  message(FATAL_ERROR "spdlog is that of \${spdlog}")
endif()
END
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(fetch_check LANGUAGES CXX)
set(CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json ON)
set(CMAKE_DISABLE_FIND_PACKAGE_CLI11 ON)
if(FIRST STREQUAL "kda")
  set(CMAKE_DISABLE_FIND_PACKAGE_fmt ON)
  set(CMAKE_DISABLE_FIND_PACKAGE_spdlog ON)
endif()
foreach(name fmt spdlog xxhash nlohmann_json cli11)
  string(TOUPPER KDA_\${name} upper)
  set(FETCHCONTENT_SOURCE_DIR_\${upper} "$work/ours/\${name}")
endforeach()
include(FetchContent)
FetchContent_Declare(kda SOURCE_DIR "$work/kda")
FetchContent_Declare(fmt SOURCE_DIR "$work/fmt")
FetchContent_MakeAvailable(\${FIRST})
FetchContent_MakeAvailable(kda fmt)
get_target_property(whose fmt::fmt INTERFACE_COMPILE_DEFINITIONS)
if(NOT whose STREQUAL "THEIRS")
  message(FATAL_ERROR "fmt::fmt of the project around kda is \${whose}")
endif()
END
for first in kda fmt; do
  "$cmake" -G "$generator" -S "$work" -B "$work/$first" -D FIRST=$first >"$work/said" 2>&1 ||
    { echo "$first first:" && cat "$work/said" && exit 1; }
done
