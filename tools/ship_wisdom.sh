#!/usr/bin/env bash
# tools/ship_wisdom.sh FILE [kda-tune tune's words...]: measures every case of src/reference/cases.cpp (or
# those named) on this machine's GPUs and writes the records as JSON lines, as src/tune/shipped/ holds them:
#
#   cmake --build build && tools/ship_wisdom.sh src/tune/shipped/h200.jsonl --time 600
#
# KDA_BUILD_DIR names the build folder, ./build by default.  Nothing that this machine measured
# before takes part; what failed is left out; the next build of the library carries the file.
# tools/tuning_results.sh writes it too, with tables and a page of plots.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
file=$1
shift
mkdir -p "$(dirname "$file")"  # before hours of measurement, not after them
tune=${KDA_BUILD_DIR:-build}/tools/kda-tune
wisdom=$(mktemp -d)
trap 'rm -rf "$wisdom"' EXIT
code=0
"$tune" tune "$@" --wisdom-dir "$wisdom" || code=$?
"$tune" wisdom export --own --wisdom-dir "$wisdom" --output "$wisdom/records"
[ -s "$wisdom/records" ] || { echo "nothing was measured; $file stays as it is" >&2; exit "$code"; }
mv "$wisdom/records" "$file"
echo "$(wc -l < "$file") records in $file"
exit "$code"
