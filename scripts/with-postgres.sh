#!/usr/bin/env bash
# Runs a command with AGENTD_TEST_DATABASE_URL set to a temporary PostgreSQL: a cluster in a temporary folder on a free
# loopback port, removed when the command ends. It is stored in memory if possible: each test has its own database of
# about a thousand files, which takes five times as long on a disk.
set -euo pipefail
binaries=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
durable=${AGENTD_POSTGRES_FSYNC:-off}
parent=/tmp
free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1 || true)
if [ "$durable" = off ] && [ -w /dev/shm ] && [ "${free_kib:-0}" -gt $((4 * 1024 * 1024)) ]; then
  parent=/dev/shm
fi
folder=$(mktemp -d "$parent/agentd-postgres.XXXXXX")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
run() { "$@"; }
if [ "$(id -u)" -eq 0 ]; then
  # The server refuses to run as root.
  chown postgres "$folder"
  run() { setpriv --reuid=postgres --regid=postgres --init-groups env --chdir="$folder" HOME="$folder" "$@"; }
fi
stop() {
  run "$binaries/pg_ctl" -D "$folder/data" -m immediate -s stop || true
  rm -rf "$folder"
}
trap stop EXIT
run "$binaries/initdb" -D "$folder/data" -U agentd -A trust --no-sync >/dev/null
# The data is temporary, so durability and autovacuum are disabled unless a benchmark measures them.
speed=""
if [ "$durable" = off ]; then
  speed="-c synchronous_commit=off -c wal_level=minimal -c max_wal_senders=0 -c autovacuum=off -c jit=off -c max_wal_size=1GB -c shared_buffers=256MB"
fi
run "$binaries/pg_ctl" -D "$folder/data" -s -w -l "$folder/log" -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$folder -c fsync=$durable -c full_page_writes=$durable -c max_connections=$((100 * (1 + $(nproc)))) $speed" start
export AGENTD_TEST_DATABASE_URL="postgres://agentd@127.0.0.1:$port/postgres"
"$@"
