#!/usr/bin/env bash
# tools/ship_wisdom.sh FILE [kda-tune tune's words...]: measures every case of peers.md (or those
# named) on this machine's GPU and writes the records as JSON lines, as src/tune/shipped/ holds them:
#
#   cmake --build build && tools/ship_wisdom.sh src/tune/shipped/h200.jsonl --time 600
#
# KDA_BUILD_DIR names the build folder, ./build by default.  Nothing that this machine measured
# before takes part, and the library is compiled anew to carry the file.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
file=$1
shift
tune=${KDA_BUILD_DIR:-build}/tools/kda-tune
wisdom=$(mktemp -d)
trap 'rm -rf "$wisdom"' EXIT
"$tune" tune "$@" --wisdom-dir "$wisdom"
# A record is one line of its own; their names are digests, so their order stays.
cat "$wisdom"/v1/????????????????/????????????????.json > "$file.new"
mv "$file.new" "$file"
echo "$(wc -l < "$file") records in $file"
