#!/usr/bin/env bash
# test_check.sh <tools/python/test.sh> <folder>: when it fetches torch.  Nothing is fetched here:
# python, df and uv are ours.
set -euo pipefail
script=$1
work=$2
rm -rf "$work"
mkdir -p "$work/bin" "$work/venv/bin"

cat > "$work/venv/bin/python" <<'FAKE'
#!/usr/bin/env bash
case "$*" in
  *"import torch"*) exit 1 ;;
  *"pip install"*) echo "fetched ${*: -1}"; exit "$PIP" ;;
  *"-m pytest"*) echo "tested" ;;
esac
FAKE
cat > "$work/bin/df" <<'FAKE'
#!/usr/bin/env bash
printf 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x 1 1 %s 1%% /\n' \
  $((FREE * 1048576))
FAKE
cat > "$work/venv/bin/uv" <<'FAKE'
#!/usr/bin/env bash
mkdir -p "$UV_CACHE_DIR"
echo "uv fetched ${*: -1}"
exit "$UV"
FAKE
chmod +x "$work"/bin/* "$work"/venv/bin/*
export VENV=$work/venv KDA_LIBRARY=$work/libkda.so KDA_TEST_TORCH=1 PATH=$work/bin:$PATH PIP=0 UV=0

expect() {  # what it says, whole, after what was set
  local said
  said=$("$script" 2>&1) || { echo "failed with $?: $said"; exit 1; }
  [ "$said" = "$1" ] || { printf 'said:\n%s\nand not:\n%s\n' "$said" "$1"; exit 1; }
}

# The bug: torch filled the disk, and what failed for want of room was another test.
FREE=7 expect "$VENV: 7 GB free, torch, FLA and transformers want 8: their tests are skipped
tested"
FREE=8 expect "fetched uv
uv fetched transformers==5.24.0
uv fetched flash-linear-attention==0.6.0
tested"
FREE=8 UV=1 expect "fetched uv
uv fetched transformers==5.24.0
fetched transformers==5.24.0
fetched flash-linear-attention==0.6.0
tested"
FREE=8 UV=1 PIP=1 expect "fetched uv
fetched transformers==5.24.0
neither uv nor pip could bring torch, FLA and transformers: their tests are skipped
tested"
[ ! -e "$VENV/cache" ] || { echo "left what did not come whole"; exit 1; }
KDA_TEST_TORCH="" expect "tested"
