#!/usr/bin/env bash
# Checks style: clang-format and clang-tidy over the tree, both of version 14, whose layout it
# follows.  Does its own set-up, as run.sh does.
# shellcheck disable=SC2034  # read by setup.sh
extra_commands="clang-format-14 clang-tidy-14"
# shellcheck source=tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

cmake -S . -B build-test "${configure[@]}" -D KDA_BUILD_TESTS=ON -D KDA_WERROR=ON
cmake --build build-test --target check_format check_tidy
