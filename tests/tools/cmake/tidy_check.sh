#!/usr/bin/env bash
# tools/cmake/tidy.sh: several sources at once report what each reports by itself, and a source that
# is read by itself what is its own.
#   tidy_check.sh <tidy.sh> <clang-tidy> <.clang-tidy> <folder to work in>
set -euo pipefail
script=$1 tidy=$2 settings=$3 work=$4
mkdir -p "$work/text"
cp "$settings" "$work/.clang-tidy"

# write <name>: a source from standard input
write() { cat >"$work/$1.cpp"; }
# describe <name>...: how they are compiled
describe() {
  local name comma=''
  {
    echo '['
    for name in "$@"; do
      printf '%s{\n"directory": "%s",\n"command": "c++ -std=c++20 -I. -c %s",\n"file": "%s"\n}\n' \
        "$comma" "$work" "$work/$name.cpp" "$work/$name.cpp"
      comma=,
    done
    echo ']'
  } >"$work/compile_commands.json"
}
# judge <check or nothing> <names> <command>...: whether the command finds that fault with them
judge() {
  local check=$1 names=$2 found
  shift 2
  found=$("$@" 2>&1) && found=passes:$found
  if [ -z "$check" ]; then
    [[ $found == passes:* ]] || { echo "$names: $found" && exit 1; }
  elif [[ $found == passes:* || $found != *"$check"* ]]; then
    echo "$names: no $check in: $found" && exit 1
  fi
}
# reports <check or nothing> <name>...: as one text
reports() {
  local check=$1 sources=() name
  shift
  describe "$@"
  for name in "$@"; do sources+=("$work/$name.cpp"); done
  judge "$check" "$*" "$script" "$tidy" "$work" together "$work/text" "${sources[@]}"
}
# reports_alone <check or nothing> <name>
reports_alone() {
  describe "$2"
  judge "$1" "$2" "$script" "$tidy" "$work" alone "$work/$2.cpp"
}

cat >"$work/value.hpp" <<'EOS'
#pragma once
int value_of(const int* at, bool noted);
int both();
EOS
write value <<'EOS'
#include "value.hpp"
int value_of(const int* at, bool noted) {
  if (at == nullptr && noted) {
    __builtin_printf("none");
  }
  return *at;
}
EOS
write caller <<'EOS'
#include "value.hpp"
int both() {
  const int x = 3;
  return value_of(&x, true);
}
EOS
write other <<'EOS'
int other();
int other() { return 3; }
EOS
write same_name <<'EOS'
int other(int x);
static int other_helper() { return 1; }
int other(int x) { return x + other_helper(); }
EOS
write also_same_name <<'EOS'
int third(int x);
static int other_helper() { return 2; }
int third(int x) { return x + other_helper(); }
EOS
write defines <<'EOS'
#define KDA_X 1
int defined();
int defined() { return KDA_X; }
EOS
write asks <<'EOS'
int* asked();
#ifndef KDA_X
int* asked() { return 0; }
#endif
EOS
cat >"$work/far.hpp" <<'EOS'
#pragma once
namespace far {
int near();
}
namespace far::away {
int near();
}
EOS
write names <<'EOS'
#include "far.hpp"
using far::near;
int fifth();
int fifth() { return 5; }
EOS
write names_more <<'EOS'
#include "far.hpp"
namespace here = far::away;
EOS
write twice <<'EOS'
#include "value.hpp"
#include "value.hpp"
EOS

reports '' caller other
reports '' same_name also_same_name other
# The bug: a function was analyzed only as its caller in the same text calls it.
reports NullDereference value caller
reports NullDereference caller value
# The bug: one source's macro hid another's lines.
reports modernize-use-nullptr other defines asks
# The bug: a source that the build compiles with others had no command of its own.
mkdir -p "$work/part/CMakeFiles/part.dir/Unity"
printf '#include "%s"\n' "$work/value.cpp" "$work/other.cpp" \
  >"$work/part/CMakeFiles/part.dir/Unity/unity_0_cxx.cxx"
describe part/CMakeFiles/part.dir/Unity/unity_0_cxx.cxx
sed -i 's|0_cxx.cxx.cpp|0_cxx.cxx|g' "$work/compile_commands.json"
judge NullDereference 'value of a text' "$script" "$tidy" "$work" together "$work/text" \
  "$work/value.cpp" "$work/other.cpp"
reports_alone misc-unused-using-decls names
reports_alone misc-unused-alias-decls names_more
reports_alone readability-duplicate-include twice
reports_alone '' caller
echo "several sources report what each reports"
