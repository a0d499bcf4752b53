#!/usr/bin/env bash
# Builds the actor framework under ThreadSanitizer, once, and prints the folder that it is installed in (its last line).
#
# The packaged library is not instrumented: its locks are invisible and every message looks like a race. The source is the
# distribution's own; it is fetched with a private copy of apt's configuration, so no root is needed and nothing of the
# system changes. Exit code 77: the source cannot be had here.
set -euo pipefail

version=0.17.6
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tandem
prefix=$cache/caf-$version-tsan
if [ -f "$prefix/complete" ]; then
  echo "$prefix"
  exit 0
fi

say() { echo "tsan_caf: $*" >&2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The system's package sources, asked for source packages instead.
private_apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts="$work/sources.list.d" \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" "$@"
}
copy_sources() {
  local file
  mkdir -p "$work/sources.list.d" "$work/lists/partial" "$work/cache/archives/partial"
  : >"$work/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file" >>"$work/sources.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/sources.list.d/$(basename "$file")"
  done
}
fetch() {
  cd "$work"
  copy_sources
  private_apt update >/dev/null 2>&1 &&
    private_apt source --download-only --tar-only actor-framework >/dev/null 2>&1 &&
    mkdir caf && tar -xf actor-framework_*.orig.tar.* -C caf --strip-components=1
}

say "fetching the source package actor-framework"
if ! (fetch); then
  say "the source package cannot be had here"
  exit 77
fi
say "building it under ThreadSanitizer: about 6 minutes of one core, once"
build_and_install() {
  cmake -S "$work/caf" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCAF_BUILD_STATIC_ONLY=yes \
    -DCMAKE_CXX_FLAGS="-std=c++17 -O1 -g1 -fsanitize=thread -Wno-tsan -include cstdint -include limits" \
    -DCAF_NO_UNIT_TESTS=yes -DCAF_NO_EXAMPLES=yes -DCAF_NO_OPENSSL=yes -DCAF_NO_OPENCL=yes -DCAF_NO_PYTHON=yes \
    -DCAF_NO_TOOLS=yes -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib &&
    cmake --build "$work/build" && cmake --install "$work/build"
}
if ! build_and_install >"$work/log" 2>&1; then
  tail -n 40 "$work/log" >&2
  say "the build failed"
  exit 1
fi
touch "$prefix/complete"
echo "$prefix"
