#!/usr/bin/env bash
# Builds kda with warnings as errors and runs the whole test suite.  Does all the set-up on a fresh
# Debian or Ubuntu machine.  Arguments go to ctest:
#   tools/test.sh -R layers      tools/test.sh -L gpu
# shellcheck source=tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
trap say_nvrtc EXIT

cmake -S . -B build-test "${configure[@]}" -D KDA_BUILD_TESTS=ON -D KDA_WERROR=ON
cmake --build build-test
# A cache of the suite's own: what was compiled before must not decide what is tested.
export KDA_CACHE_DIR=$PWD/build-test/cache
ctest --test-dir build-test --output-on-failure --parallel 2 --timeout 1200 "$@"
