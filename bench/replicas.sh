#!/usr/bin/env bash
# Starts three daemons on a temporary PostgreSQL that share a data directory and with it the key file. Prints their
# addresses and how to log in; Ctrl-C stops them and removes everything.
#   REPLICAS=5 FIRST_PORT=9000 AGENTD_BINARY=target/debug/agentd bench/replicas.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${AGENTD_TEST_DATABASE_URL:-}" ]; then
  exec scripts/with-postgres.sh "bench/$(basename "$0")"
fi
binary=${AGENTD_BINARY:-target/release/agentd}
replicas=${REPLICAS:-3}
first_port=${FIRST_PORT:-7881}
[ -x "$binary" ] || { echo "There is no $binary; build it: cargo build --release -p agentd" >&2; exit 1; }

folder=$(mktemp -d /tmp/agentd-replicas.XXXXXX)
processes=()
stop() {
  trap - EXIT INT TERM
  [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 0' INT TERM

# The key is in a file readable only by the owner, and passed to every daemon in the same way.
(umask 077; printf 'svc_%s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$folder/key")
start() {
  # In its own process group: Ctrl-C only reaches this script, which stops them in order.
  SVC_DATABASE_URL=$AGENTD_TEST_DATABASE_URL SVC_DATA_DIR=$folder/data SVC_SECRET_KEY_FILE=$folder/data/secret.key \
    SVC_MODELS_DIR=$PWD/models SVC_BOOTSTRAP_API_KEY_FILE=$folder/key SVC_PORT=$1 SVC_LOG=${SVC_LOG:-warn} \
    setsid "$binary" >"$folder/log-$1" 2>&1 &
  processes+=($!)
}
wait_until_ready() {
  for _ in $(seq 300); do
    ! curl -fsS -o /dev/null "http://127.0.0.1:$1/health/ready" 2>/dev/null || return 0
    sleep 0.1
  done
  echo "The daemon on port $1 did not become ready:" >&2
  tail -n 20 "$folder/log-$1" >&2
  return 1
}
for number in $(seq 0 $((replicas - 1))); do
  port=$((first_port + number))
  start "$port"
  wait_until_ready "$port"
done

echo "$replicas daemons over one database, process by process:"
for number in "${!processes[@]}"; do
  echo "  http://127.0.0.1:$((first_port + number))  (process ${processes[$number]})"
done
cat <<TEXT
Log in with the API key in $folder/key:
  KEY=\$(cat $folder/key)
Make something on one and see it on another:
  curl -H "Authorization: Bearer \$KEY" -H 'Content-Type: application/json' http://127.0.0.1:$first_port/api/projects -d '{"name": "Seen everywhere"}'
  curl -H "Authorization: Bearer \$KEY" http://127.0.0.1:$((first_port + replicas - 1))/api/projects
Logs: $folder/log-PORT. Ctrl-C ends all of them.
TEXT
wait
