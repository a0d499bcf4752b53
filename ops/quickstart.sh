#!/usr/bin/env bash
# From nothing to a streamed answer: installs what is missing, builds, serves the tiny model with two ranks, asks it something.
#
#   ops/quickstart.sh [--once] [--port N]
#
# Leaves the server running (log, pid and address in build/quickstart); --once stops the one that it started. A second call builds only what
# changed and asks the server that already runs, if it is this checkout's and of this build. Without --port the first free
# port from 8000 on is taken; a port that was asked for and is taken is an error.
set -euo pipefail
cd -P "$(dirname "$0")/.."

readonly state=build/quickstart
readonly binary=build/release/tandem
readonly model=configs/tiny
readonly ready_limit_s=180
readonly question='What is 17*19? Reply with the integer only.'

once=false
wanted_port=
port=
pid=

say() { echo "quickstart: $*"; }
fail() { say "$@"; exit 1; }

read_arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --once) once=true ;;
      --port) wanted_port=${2:-0}; shift $(($# > 1)) ;;
      *) echo "usage: ops/quickstart.sh [--once] [--port N]"; exit 2 ;;
    esac
    shift
  done
  [ -n "$wanted_port" ] || return 0
  if ! [[ "$wanted_port" =~ ^[1-9][0-9]{0,4}$ ]] || [ "$wanted_port" -gt 65535 ]; then
    echo "quickstart: --port $wanted_port: 1 to 65535 is possible"
    exit 2
  fi
}

is_free() {
  python3 - "$1" <<'PYTHON'
import socket, sys
with socket.socket() as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", int(sys.argv[1])))
    except OSError:
        sys.exit(1)
PYTHON
}

choose_port() {
  if [ -n "$wanted_port" ]; then
    is_free "$wanted_port" || fail "port $wanted_port is taken; another one: ops/quickstart.sh --port N"
    port=$wanted_port
    return
  fi
  for port in 8000 8001 8002 8003 8004 8005 8006 8007 8008 8009; do
    if is_free "$port"; then return; fi
    say "port $port is taken"
  done
  fail "ports 8000 to 8009 are taken; name one: ops/quickstart.sh --port N"
}

get() { curl -sf --max-time 5 "http://127.0.0.1:$port$1"; }

# The process must still be the very file that was just built: a rebuilt server shows as "(deleted)" and is replaced.
is_our_process() { [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$PWD/$binary" ]; }

stop_server() {
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 1 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  # Without these files the next call would start a second server beside one that hangs.
  if kill -0 "$pid" 2>/dev/null; then fail "the server (pid $pid) does not end; its log: $state/server.log"; fi
  rm -f "$state/pid" "$state/port"
}

# Takes over the server of an earlier call: true if it still runs, is ours, of this build, and on the wanted port.
find_running() {
  [ -f "$state/pid" ] && [ -f "$state/port" ] || return 1
  pid=$(<"$state/pid")
  port=$(<"$state/port")
  if is_our_process && [ "${wanted_port:-$port}" = "$port" ] && get /livez >/dev/null; then return 0; fi
  case "$(readlink "/proc/$pid/exe" 2>/dev/null)" in
    "$PWD/$binary" | "$PWD/$binary (deleted)")
      say "stopping the server of an earlier call (pid $pid): another build or port is wanted"
      stop_server
      ;;
  esac
  return 1
}

start_server() {
  choose_port
  mkdir -p "$state"
  say "serving $model with two ranks at http://127.0.0.1:$port (log: $state/server.log)"
  setsid nohup "$binary" serve --model "$model" --ranks 2 --host 127.0.0.1 --port "$port" --state-dir "$state/state" \
    </dev/null >"$state/server.log" 2>&1 &
  pid=$!
  echo "$pid" >"$state/pid"
  echo "$port" >"$state/port"
}

server_died() {
  local status=0
  wait "$pid" 2>/dev/null || status=$?
  say "the server ended with exit code $status; the end of its log:"
  tail -n 20 "$state/server.log"
  rm -f "$state/pid" "$state/port"
  exit 1
}

# Prints each new phase that /health names; 503 carries a body too, so curl must not fail on it.
wait_until_ready() {
  local health phase last=
  for _ in $(seq 1 $((ready_limit_s * 5))); do
    kill -0 "$pid" 2>/dev/null || server_died
    health=$(curl -s --max-time 5 "http://127.0.0.1:$port/health" || true)
    phase=$(sed -n 's/.*"phase":"\([^"]*\)".*/\1/p' <<<"$health")
    case "$health" in *'"status":"ok"'*) say "ready"; return ;; esac
    if [ -n "$phase" ] && [ "$phase" != "$last" ]; then say "  $phase"; fi
    last=$phase
    sleep 0.2
  done
  tail -n 20 "$state/server.log"
  fail "not ready after $ready_limit_s s (pid $pid, still running)"
}

ask() {
  say "asking: $question"
  curl -sN --max-time 120 "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d "{
    \"model\": \"tiny\", \"stream\": true, \"temperature\": 0,
    \"messages\": [{\"role\": \"user\", \"content\": \"$question\"}]}" | python3 -u ops/show_stream.py
}

read_arguments "$@"
ops/install-packages.sh || fail "packages are missing"
ops/build.sh release tandem || fail "the build failed"
if find_running; then
  say "the server of an earlier call still runs at http://127.0.0.1:$port (pid $pid)"
else
  start_server
  if $once; then trap stop_server EXIT; fi
fi
wait_until_ready
if ! ask; then
  tail -n 20 "$state/server.log"
  fail "no complete answer came"
fi
if [ -n "$(trap -p EXIT)" ]; then
  say "stopping the server"
else
  say "it goes on running: http://127.0.0.1:$port/v1 (pid $pid); stop it with: kill $pid"
fi
