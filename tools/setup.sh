# shellcheck shell=bash
# Sourced by run.sh, test.sh and check.sh: installs what the build needs and the machine lacks.
# Debian 12 or Ubuntu 24.04 and newer, as root or with sudo.  Where nothing is missing, the network
# is not touched.  Sets `configure`, the CMake arguments that the scripts share.  A script that needs
# more commands names them, each also its package, in `extra_commands` before, and may end with
# say_nvrtc.
set -euo pipefail
given_nvrtc=${KDA_NVRTC_PATH:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

has_header() {  # any of the headers named
  for header in "$@"; do
    if printf '#include <%s>\n' "$header" |
      "${CXX:-c++}" -std=c++20 -E -x c++ - >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

# Prints the packages that are missing, by what they bring and not by name.
missing_packages() {
  command -v "${CXX:-c++}" >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v git >/dev/null || echo git
  command -v c++ >/dev/null || { echo libfmt-dev libspdlog-dev nlohmann-json3-dev libxxhash-dev \
    libcli11-dev catch2; return; }
  has_header fmt/format.h || echo libfmt-dev
  has_header spdlog/spdlog.h || echo libspdlog-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header xxhash.h || echo libxxhash-dev
  has_header CLI/CLI.hpp || echo libcli11-dev
  has_header catch2/catch.hpp catch2/catch_session.hpp || echo catch2
}

missing_commands() {
  local name
  for name in ${extra_commands:-}; do command -v "$name" >/dev/null || echo "$name"; done
}

install_packages() {
  local packages=("$@")
  [ ${#packages[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || {
    echo "missing: ${packages[*]}; this is no Debian or Ubuntu, so please install them" >&2
    exit 1
  }
  say "installing ${packages[*]}"
  if ! { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
      "${packages[@]}"; }; then
    say "apt-get failed; going on in case CMake finds or fetches what is missing"
  fi
}

# Whether headers are of CUDA 12.4 or newer, which src/launch/driver.hpp wants.
new_enough() {
  local version
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$1/cuda.h")
  [ "${version:-0}" -ge 12040 ]
}

# Succeeds where cuda.h, nvrtc.h and libnvrtc are on the machine.  ldconfig is in no user's PATH on
# Debian, and what it says is read to its end, as pipefail is set.
has_cuda() {
  local include="" library="" root
  for root in "${CUDA_HOME:-/usr/local/cuda}" "${CUDA_PATH:-/usr/local/cuda}" /usr/local/cuda \
    /usr/local/cuda-* /usr; do
    if [ -f "$root/include/cuda.h" ] && [ -f "$root/include/nvrtc.h" ] &&
      new_enough "$root/include"; then include=$root; fi
    if compgen -G "$root/lib64/libnvrtc.so.1[23]" >/dev/null; then library=$root; fi
  done
  if [ -n "${KDA_NVRTC_PATH:-}" ] ||
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep 'libnvrtc\.so\.1[23] ' >/dev/null; then
    library=found
  fi
  [ -n "$include" ] && [ -n "$library" ]
}

# NVRTC and the headers from PyPI, into .cache/cuda: a release that the driver, if any, can load.
fetch_cuda() {
  local venv=.cache/cuda wheels=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96) newest
  newest=$({ nvidia-smi 2>/dev/null || true; } | sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p')
  if [ "${newest:-13}" -lt 13 ]; then
    wheels=(nvidia-cuda-nvrtc-cu12==12.8.93 nvidia-cuda-runtime-cu12==12.8.90)
  fi
  if [ ! -f "$venv/${wheels[0]}" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    say "fetching ${wheels[*]} into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${wheels[@]}"
    touch "$venv/${wheels[0]}"
  fi
  KDA_NVRTC_PATH=$(dirname "$(find "$PWD/$venv" -name 'libnvrtc.so.1[23]' | head -1)")
  export KDA_NVRTC_PATH
}

# NVRTC that was fetched is where the library does not look by itself: says what the caller's shell
# needs.  To stderr, as stdout ends with what the script is for.
say_nvrtc() {
  if [ "${KDA_NVRTC_PATH:-}" = "$given_nvrtc" ]; then return; fi
  echo "== NVRTC was fetched; kda-tune and other programs find it in this shell after" >&2
  printf 'export KDA_NVRTC_PATH=%q\n' "$KDA_NVRTC_PATH" >&2
}

mapfile -t packages < <({ missing_packages; missing_commands; } | tr ' ' '\n')
install_packages "${packages[@]}"
has_cuda || fetch_cuda

configure=(-G Ninja -D CMAKE_BUILD_TYPE=Release)
if command -v ccache >/dev/null; then configure+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
