# Sourced by the scripts in tools/: finds the repository, installs what is missing, and makes the
# Python environment. Every step says what it does and is skipped when there is nothing to do.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VENV=$ROOT/build/venv

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 3
}

# To compile and run everything, the product's own parts first, then the tools'.
PACKAGES=(
  cmake ninja-build ccache g++ pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libboost1.81-dev libssl-dev libseccomp-dev libyaml-cpp-dev libcli11-dev libspdlog-dev
  prometheus-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev
  bubblewrap clang-format-14 clang-tidy-14 python3 python3-venv git ca-certificates
)

is_debian_12() {
  [[ -r /etc/os-release ]] && (
    # shellcheck disable=SC1091  # the system's own file
    . /etc/os-release
    [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]]
  )
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root or sudo to run: $*"
  fi
}

# install_packages NAME...: those that are missing, and nothing else.
install_packages() {
  local name missing=()
  for name in "$@"; do
    # shellcheck disable=SC2016  # dpkg's own placeholder
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
      missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  say "installing Debian packages: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
  local log
  log=$(mktemp)
  if ! { as_root "${apt[@]}" update &&
    as_root "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    die "apt-get failed; its whole output: $log"
  fi
  rm -f "$log"
}

# The build needs what Debian 12 ships: gRPC 1.51, Boost 1.81, GCC 12, clang 14.
ensure_packages() {
  if [[ -n ${SANDBROKER_SKIP_PACKAGES:-} ]]; then
    return 0
  fi
  is_debian_12 || die "this script sets up Debian 12 only. Elsewhere install what these packages" \
    "hold, then run it again with SANDBROKER_SKIP_PACKAGES=1: ${PACKAGES[*]}"
  install_packages "${PACKAGES[@]}"
}

# The distribution's Python, where there is one, since python3-venv belongs to it.
system_python() {
  if [[ -x /usr/bin/python3 ]]; then echo /usr/bin/python3; else command -v python3; fi
}

# Pinned Python packages: google.rpc's protos for the build, stubs and pytest for the tests.
ensure_venv() {
  local wanted=$ROOT/tools/ci/requirements.txt
  cmp -s "$wanted" "$VENV/installed.txt" && return 0
  say "installing Python packages into build/venv: $(grep -v '^#' "$wanted" | tr '\n' ' ')"
  rm -rf "$VENV"
  mkdir -p "$ROOT/build"
  "$(system_python)" -m venv "$VENV"
  "$VENV/bin/python" -m pip -q --disable-pip-version-check install -r "$wanted"
  cp "$wanted" "$VENV/installed.txt"
}

# Compilers of gRPC code take up to 1.5 GB each.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  ((memory < 1)) && memory=1
  echo $((cores < memory ? cores : memory))
}
