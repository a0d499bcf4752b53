#!/usr/bin/env bash
# Is the CUDA backend right on this machine's card? Builds it, runs the tests of the device, serves the tiny model on the
# card and asks it for 17 * 19, whole and streamed.
#
#   ops/check-device.sh                 what is said above
#   ops/check-device.sh --served        also the end-to-end suites of the served model, with the card behind them
#   ops/check-device.sh --sanitizers    also the operations' tests under compute-sanitizer, suite by suite, which takes long
#   ops/check-device.sh --no-build      takes build/cuda as it is
#
# Exits 1 if something fails, everything after it still runs; 77 where there is no card.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

say() { echo "check-device [$(date +%H:%M:%S)]: $*"; }

with_build=true with_served=false with_sanitizers=false
for word in "$@"; do
  case "$word" in
    --served) with_served=true ;;
    --sanitizers) with_sanitizers=true ;;
    --no-build) with_build=false ;;
    *) echo "usage: ops/check-device.sh [--served] [--sanitizers] [--no-build]"; exit 2 ;;
  esac
done

cards=$(nvidia-smi -L 2>/dev/null) || cards=
if [ -z "$cards" ]; then
  say "there is no CUDA card here"
  exit 77
fi
say "$cards"

folder=$(mktemp -d) server= failed=()
# Nothing that was started outlives the script.
clean_up() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
  rm -rf "$folder"
}
trap clean_up EXIT

tests=build/cuda/tests/test_cuda tandem=build/cuda/tandem served_tests=build/cuda/tests/test_e2e
programs=("$tests" "$tandem")
$with_served && programs+=("$served_tests")
if $with_build; then
  ops/build.sh cuda "${programs[@]##*/}" || { say "the build failed"; exit 1; }
fi
for program in "${programs[@]}"; do
  [ -x "$program" ] || { say "$program is not there: without --no-build it is made"; exit 1; }
done

say "the tests of the device"
timeout 1800 "$tests" --log_level=warning || failed+=("test_cuda")

# --- served

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Asks once; $2 is the value of "stream". Says whether the text of the answer has 323.
asks() {
  local body='{"model":"tiny","messages":[{"role":"user","content":"What is 17 * 19?"}],"temperature":0,"max_tokens":64'
  curl -sS -m 60 "http://127.0.0.1:$1/v1/chat/completions" -H 'content-type: application/json' \
    -d "$body,\"stream\":$2}" >"$folder/answer" || return 1
  # Streamed text comes in pieces.
  grep -o '"content":"[^"]*"' "$folder/answer" | sed 's/^"content":"//; s/"$//' | tr -d '\n' | grep -q 323
}

serves() {
  local port status=0 stream
  port=$(free_port) || return 1
  "$tandem" serve --backend cuda --model configs/tiny --host 127.0.0.1 --port "$port" --state-dir "$folder/state" \
    >"$folder/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    curl -sf -m 2 "http://127.0.0.1:$port/health" >/dev/null 2>&1 && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.2
  done
  for stream in false true; do
    if asks "$port" "$stream"; then
      say "17 * 19 is 323, stream: $stream"
    else
      say "no 323, stream: $stream; the answer: $(head -c 600 "$folder/answer" 2>/dev/null)"
      status=1
    fi
  done
  kill -TERM "$server" 2>/dev/null
  wait "$server"
  local ended=$?
  server=
  [ "$ended" -eq 0 ] || { say "the server ended with $ended"; status=1; }
  [ "$status" -eq 0 ] || tail -n 20 "$folder/server.log"
  return "$status"
}
say "the tiny model, served by the card"
serves || failed+=("serve")

# Two processes need a card each.
if $with_served; then
  say "the suites of the served model, with the card"
  TANDEM_MODEL_BACKEND=cuda timeout 1200 "$served_tests" --log_level=warning \
    --run_test='answers:lifecycle:pack:bench:ranks:storm' --run_test='!ranks/two_processes*' || failed+=("served")
fi

# --- under compute-sanitizer

# Whole engines take hours there, and NCCL's own kernels are not ours.
unchecked='engine|exactness|graphs|nccl|nccl_engine|memory'
suites() { "$tests" --list_content 2>&1 | sed -n 's/^\([a-z0-9_]*\)\*\?$/\1/p' | sort -u | grep -vxE "$unchecked"; }

# One suite under one tool; its report stays in the folder if there is something in it. What is set about the tools is
# explained in tests/cuda/README.md.
sanitize() {
  local tool=$1 suite=$2 more=() blocking=0 log="$folder/$1.$2"
  [ "$tool" = memcheck ] && more=(--report-api-errors no) blocking=1
  [ "$tool" = racecheck ] && more=(--kernel-name-exclude kns=product_warpgroup --kernel-name-exclude kns=product_expert)
  CUDA_LAUNCH_BLOCKING=$blocking timeout 5400 compute-sanitizer --tool "$tool" --error-exitcode 1 "${more[@]}" \
    "$tests" --run_test="$suite" --log_level=error >"$log" 2>&1 && rm -f "$log"
}

if $with_sanitizers; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -z "$sanitizer" ]; then
    say "compute-sanitizer is not there"
    failed+=("compute-sanitizer")
  else
    PATH=$PATH:$(dirname "$sanitizer")
    export PATH tests folder
    export -f sanitize
    most=$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))
    checked=$(suites)
    [ -n "$checked" ] || failed+=("the list of suites")
    for tool in memcheck initcheck synccheck racecheck; do
      say "$tool, up to $most suites beside each other"
      xargs -r -P "$most" -I{} bash -c "sanitize $tool {}" <<<"$checked"
      for log in "$folder/$tool".*; do
        [ -e "$log" ] || continue
        say "${log##*/}:"
        tail -n 15 "$log"
        failed+=("${log##*/}")
      done
    done
  fi
fi

if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
say "everything passed"
