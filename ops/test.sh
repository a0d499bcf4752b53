#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests; ends with ctest's summary.
#
#   ops/test.sh                     what every change has to pass: the CUDA backend compiles (where nvcc is), release, then asan
#                                   without the long numeric comparisons
#   ops/test.sh release asan tsan   these presets, one after the other, with all of their tests (tsan: all that run our code)
#
# Exits 1 if a preset fails to build or a test fails; the presets after it still run.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

say() { echo "test [$(date +%H:%M:%S)]: $*"; }

started_s=$SECONDS
failed=()

# Runs ctest on a built preset; further arguments go to ctest.
run_tests() {
  local preset=$1
  shift
  say "running the tests of $preset"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(env -u OMP_NUM_THREADS nproc)" "$@"
}

# Builds one preset and tests it. tsan needs an actor framework built under it and is left out, with a message, without.
run_preset() {
  local preset=$1 caf status=0
  shift
  TANDEM_CMAKE_ARGS=
  if [ "$preset" = tsan ]; then
    caf=$(ops/tsan_caf.sh) || status=$?
    if [ "$status" -eq 77 ]; then
      say "tsan is skipped: the source of the actor framework cannot be had here"
      return 0
    fi
    [ "$status" -eq 0 ] || return 1
    TANDEM_CMAKE_ARGS=$(printf '%s\n' "-DCAF_INCLUDE_DIR=$caf/include" "-DCAF_core_LIBRARY=$caf/lib/libcaf_core_static.a" \
      "-DCAF_io_LIBRARY=$caf/lib/libcaf_io_static.a")
  fi
  export TANDEM_CMAKE_ARGS
  say "building $preset"
  ops/build.sh "$preset" || return 1
  run_tests "$preset" "$@"
}

# The version of the nvcc that cmake/Cuda.cmake takes, e.g. 13; nothing without one.
nvcc_major() {
  local nvcc=${CUDACXX:-/usr/local/cuda/bin/nvcc}
  [ -x "$nvcc" ] || nvcc=$(command -v nvcc) || return 0
  "$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p'
}

# Compiles the CUDA backend, kernels and all, for one architecture; without a new enough nvcc it is left out, with a
# message.
compile_cuda() {
  local major
  major=$(nvcc_major)
  if [ "${major:-0}" -lt 13 ]; then
    say "the CUDA backend is not compiled: it takes nvcc 13 or newer, here is ${major:-none}"
    return 0
  fi
  local begun_s=$SECONDS
  say "compiling the CUDA backend"
  ops/build.sh cuda tandem_cuda || return 1
  say "the CUDA backend took $((SECONDS - begun_s)) s"
}

# Under the sanitizers a defect of ours must stop the test at once and with its place.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

ops/install-packages.sh || exit 1
[ $# -gt 0 ] || set -- cuda:objects release asan:short
for wanted in "$@"; do
  case "$wanted" in
    tsan) run_preset tsan -LE 'bench|tidy|python' || failed+=(tsan) ;;
    release | debug | asan | cuda) run_preset "$wanted" || failed+=("$wanted") ;;
    cuda:objects) compile_cuda || failed+=(cuda:objects) ;;
    asan:short) run_preset asan -LE 'model|exl3|bench|tidy|python' || failed+=(asan) ;;
    *) echo "usage: ops/test.sh [release|debug|asan|asan:short|tsan|cuda|cuda:objects]..."; exit 2 ;;
  esac
done

# ctest's own last lines stay the last ones when all is well.
if [ ${#failed[@]} -gt 0 ]; then
  say "failed after $((SECONDS - started_s)) s: ${failed[*]}"
  exit 1
fi
