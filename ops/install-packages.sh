#!/usr/bin/env bash
# Installs what Tandem is built with, from the distribution's own packages: Debian 12 and Ubuntu 24.04.
#
# Nothing missing means no call of apt at all. Without root and without sudo it names the missing packages and exits 1.
# --with-torch adds torch for python3: only tests that compare with the torch oracle need it, and they skip themselves.
set -euo pipefail

say() { echo "install-packages: $*"; }

with_torch=false
case "${1:-}" in
  "") ;;
  --with-torch) with_torch=true ;;
  *) echo "usage: ops/install-packages.sh [--with-torch]"; exit 2 ;;
esac

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# A name that other packages only mention has no candidate: `apt-cache show` would still know it.
can_be_installed() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'; }

# Tandem takes Boost 1.81 or newer: Debian 12 has 1.81 beside its default, Ubuntu 24.04 has 1.83.
boost_version() {
  local version
  for version in 1.81 1.83; do
    if is_installed "libboost$version-dev"; then echo "$version"; return; fi
  done
  for version in 1.81 1.83; do
    if can_be_installed "libboost$version-dev"; then echo "$version"; return; fi
  done
  if [ "${ID:-}" = ubuntu ]; then echo 1.83; else echo 1.81; fi
}

wanted() {
  local boost
  boost=$(boost_version)
  echo git g++ cmake ninja-build ccache mold pkg-config clang-format-14 curl iproute2 python3 python3-numpy
  echo libcaf-dev libssl-dev ca-certificates
  echo "libboost$boost-dev" "libboost-json$boost-dev" "libboost-test$boost-dev" "libboost-system$boost-dev"
  echo libsimdjson-dev libibverbs-dev librdmacm-dev liburing-dev libpcre2-dev libutf8proc-dev
  echo libfmt-dev libcli11-dev libhwy-dev libspdlog-dev libsystemd-dev
  if $with_torch; then echo python3-torch; fi
}

missing() {
  local package
  for package in $(wanted); do
    is_installed "$package" || echo "$package"
  done
}

# Runs a command as root: directly, by sudo without a question, or by sudo with one if somebody is there to answer it.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}
can_be_root() {
  [ "$(id -u)" -eq 0 ] && return 0
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null || [ -t 0 ]
}

quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || tail -n 30 "$log"
  rm -f "$log"
  return "$status"
}

if ! command -v dpkg-query >/dev/null; then
  say "this is neither Debian nor Ubuntu; what has to be there:"
  wanted
  exit 1
fi
. /etc/os-release
case "$ID-${VERSION_ID:-}" in
  debian-12 | ubuntu-24.04) ;;
  *) say "${PRETTY_NAME:-$ID} was never tried (Debian 12 and Ubuntu 24.04 were meant); going on" ;;
esac

mapfile -t packages < <(missing)
if [ ${#packages[@]} -eq 0 ]; then
  say "everything is there"
  exit 0
fi
if ! can_be_root; then
  say "not root and no sudo; these packages are missing:"
  echo "${packages[*]}"
  exit 1
fi
say "reading the package lists"
quietly as_root apt-get -qq update || { say "apt-get update failed"; exit 1; }
mapfile -t packages < <(missing)  # the lists may have settled which Boost there is
say "installing ${packages[*]}"
quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" ||
  { say "apt-get install failed"; exit 1; }
say "done"
