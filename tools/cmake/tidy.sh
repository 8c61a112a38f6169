#!/usr/bin/env bash
# clang-tidy over several sources.  Most of its time goes into what a source includes, so
# sources are read together, as one text, wherever their own names let them:
#   tidy.sh <clang-tidy> <build folder> together <folder to work in> <source>...
#   tidy.sh <clang-tidy> <build folder> alone <source>
# `alone` is the rest: the checks to which one text would say that a source's own lines are another's.
# Sources that define macros or ask for some are read by themselves.
set -euo pipefail
tidy=$1 build=$2 mode=$3
shift 3
of_one_file='misc-unused-using-decls,-misc-unused-alias-decls,-readability-duplicate-include'

# write_command <folder> <text> <source>: how the text is compiled, as that source is, or as the text
# of several in which the build compiles it (kda_compile_together).
write_command() {
  local folder=$1 to=$2 as=$3
  if ! grep -qF "\"file\": \"$as\"" "$build/compile_commands.json"; then
    as=$(grep -lF "\"$3\"" "$build"/*/CMakeFiles/*/Unity/*.cxx | head -n 1) ||
      { echo "$3: $build does not say how it is compiled; configure it anew" >&2 && exit 1; }
  fi
  { echo '[{'
    grep -F -B2 "\"file\": \"$as\"" "$build/compile_commands.json" |
      sed -e "s|$as|$to|g" -e '/"file":/s|,$||'
    echo '}]'; } >"$folder/compile_commands.json"
}

# read_alone <source> <argument of clang-tidy>...
read_alone() {
  local source=$1 folder result=0
  shift
  folder=$(mktemp -d)
  write_command "$folder" "$source" "$source"
  "$tidy" --quiet -p "$folder" "$@" "$source" || result=$?
  rm -r "$folder"
  return $result
}

# Prints the sources that do not compile after those before them.
misfits() {
  write_command "$work" "$text" "$1"
  printf '#include "%s"\n' "$@" >"$text"
  { "$tidy" --quiet -p "$work" --checks='-*,modernize-avoid-bind' --extra-arg=-ferror-limit=0 \
    "$text" 2>&1 || true; } | sed -n 's/^\(.*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u
}

# Prints those of the sources in whose lines of the text the findings on standard input lie; all of
# them where a header has one.
blamed() {
  local found source first=0 last
  found=$(sed -nE 's/^(.*):([0-9]+):[0-9]+: (warning|error): .*/\1 \2/p')
  if [ -z "$found" ] || grep -qvF "$text " <<<"$found"; then
    printf '%s\n' "$@"
    return
  fi
  for source in "$@"; do
    last=$((first + $(wc -l <"$source")))
    awk -v first="$first" -v last="$last" '$2 > first && $2 <= last { print name; exit }' \
      name="$source" <<<"$found"
    first=$last
  done
}

# What a text of several reports is decided by each source alone: a source passes here that passes so.
check() {
  local source sources=("$@") said result=0
  if [ $# -gt 1 ]; then
    write_command "$work" "$text" "$1"
    cat "$@" >"$text"  # included they would be headers, whose functions the analyzer leaves out
    # Every function is analyzed for itself, too, not only as its callers beside it call it.
    if said=$("$tidy" --quiet -p "$work" --checks="-$of_one_file" --extra-arg=-Xclang \
      --extra-arg=-analyzer-inlining-mode=all "$text" 2>&1); then
      return 0
    fi
    mapfile -t sources < <(blamed "$@" <<<"$said")
    if [ ${#sources[@]} = 0 ]; then sources=("$@"); fi
  fi
  for source in "${sources[@]}"; do read_alone "$source" || result=1; done
  return $result
}

together() {
  local fit=("$@") apart=() kept source misfit
  while [ ${#fit[@]} -gt 1 ]; do
    misfit=$(misfits "${fit[@]}")
    if [ -z "$misfit" ]; then break; fi
    kept=()
    for source in "${fit[@]}"; do
      if grep -qxF "$source" <<<"$misfit"; then apart+=("$source"); else kept+=("$source"); fi
    done
    if [ ${#kept[@]} = ${#fit[@]} ]; then kept=("${fit[0]}") apart+=("${fit[@]:1}"); fi
    fit=("${kept[@]}")
  done
  local result=0
  check "${fit[@]}" || result=1
  if [ ${#fit[@]} = 0 ]; then
    check "${apart[0]}" || result=1
    apart=("${apart[@]:1}")
  fi
  if [ ${#apart[@]} -gt 0 ]; then together "${apart[@]}" || result=1; fi
  return $result
}

case $mode in
  together)
    work=$1 text=$1/together.cpp
    shift
    fit=() result=0
    for source in "$@"; do
      if grep -qE '^ *# *(define|undef|if|ifdef|ifndef|pragma)' "$source"; then
        check "$source" || result=1
      else
        fit+=("$source")
      fi
    done
    if [ ${#fit[@]} -gt 0 ]; then together "${fit[@]}" || result=1; fi
    exit $result
    ;;
  alone)
    # Reading a source for these alone takes as long as for all: only where its text is suspicious,
    # a header twice or a name that is brought in and never met again.
    suspicious=$(sed -n 's/^ *# *include *[<"]\([^>"]*\).*/\1/p' "$1" | sort | uniq -d)
    for name in $(sed -nE 's/^ *using +([A-Za-z_0-9]*::)+([A-Za-z_0-9]+) *;.*/\2/p
                           s/^ *namespace +([A-Za-z_0-9]+) *=.*/\1/p' "$1"); do
      if [ "$(grep -ow "$name" "$1" | wc -l)" -lt 2 ]; then suspicious+=" $name"; fi
    done
    if [ -n "$suspicious" ]; then
      read_alone "$1" --checks="-*,${of_one_file//,-/,}"
    fi
    ;;
esac
