#!/usr/bin/env bash
# Builds kda and runs its main job: plans, compiles, caches and runs prefills, each held against the
# fp64 reference.  Does all the set-up on a fresh Debian or Ubuntu machine.  With no GPU it composes
# and compiles the same plans for sm_89 and sm_90a, and says what was not run.
# shellcheck source=tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
trap say_nvrtc EXIT

cmake -S . -B build "${configure[@]}" -D KDA_BUILD_TESTS=OFF
cmake --build build
build/tools/prefill
