#!/usr/bin/env bash
# Configures and builds one preset: ops/build.sh PRESET [TARGET...]. Without targets everything is built.
#
# It takes as many jobs as cores and memory allow (a heavy source needs 1.2 GB in the compiler), keeps ccache's entries usable
# from any checkout, and starts the configuration afresh where the folder was moved or copied. TANDEM_CMAKE_ARGS adds
# arguments for cmake, one a line.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: ops/build.sh PRESET [TARGET...]}
shift
folder=build/$preset

export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_BASEDIR=$PWD
export CCACHE_NOHASHDIR=1

job_count() {
  local cores memory_gib
  cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)  # nproc counts threads wanted, if these are set
  memory_gib=$(awk '/^MemAvailable:/ {print int($2 / 1048576 / 1.5)}' /proc/meminfo)
  [ "$memory_gib" -ge 1 ] || memory_gib=1
  echo $((cores < memory_gib ? cores : memory_gib))
}

arguments=()
cache=$folder/CMakeCache.txt
if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
  echo "build: $folder belongs to another folder; configuring afresh"
  rm -rf "$folder"
fi
while IFS= read -r line; do
  [ -z "$line" ] || arguments+=("$line")
done <<<"${TANDEM_CMAKE_ARGS:-}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "build: configuring $folder"
if ! cmake --preset "$preset" "${arguments[@]}" >"$log" 2>&1; then
  cat "$log"
  echo "build: the configuration failed"
  exit 1
fi
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
jobs=$(job_count)
echo "build: building ${*:-everything} with $jobs jobs"
# On a terminal ninja keeps one line up to date; elsewhere every tenth line is enough, and the whole text if it fails.
if [ -t 1 ]; then
  cmake --build "$folder" -j "$jobs" "${targets[@]}"
elif ! cmake --build "$folder" -j "$jobs" "${targets[@]}" >"$log" 2>&1; then
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log" | tail -n 120
  echo "build: failed"
  exit 1
fi
echo "build: done"
