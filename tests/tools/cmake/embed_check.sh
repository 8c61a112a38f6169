#!/usr/bin/env bash
# The bug: lists of files were cut at letters beyond ASCII, and no checkout in /home/josé was built.
#   embed_check.sh <cmake> <embed_lines.cmake> <folder to work in>
set -euo pipefail
cmake=$1 script=$2 work=$3/é
rm -rf "$work"
mkdir -p "$work"
echo '{"a record":1}' >"$work/x.jsonl"
echo "$work/x.jsonl" >"$work/list"
"$cmake" -D LIST="$work/list" -D OUTPUT="$work/lines.cpp" -P "$script"
grep -q 'a record' "$work/lines.cpp"
