#!/usr/bin/env bash
# Runs a command with a private /tmp in memory: tests create and delete many files there, which costs more processor time
# on a disk than the tests themselves. Without the permissions, without enough free memory, or if required files are in
# /tmp, the command runs unchanged.
set -euo pipefail
available_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  bytes=$(grep -x '[0-9]*' "$limit" 2>/dev/null || true)
  # Values above 2^60 mean no limit.
  if [ -n "$bytes" ] && [ "${#bytes}" -lt 19 ] && [ $((bytes / 1024)) -lt "$available_kib" ]; then
    available_kib=$((bytes / 1024))
  fi
done
in_tmp=$(printf '%s\n' "$PWD/" "${CARGO_HOME:-$HOME/.cargo}/" "${RUSTUP_HOME:-$HOME/.rustup}/" "${TMPDIR:-}/" | grep -c '^/tmp/' || true)
mount_memory="mount -t tmpfs -o mode=1777,size=$((available_kib / 4))k tmpfs /tmp"
if [ "$(id -u)" != 0 ] || [ "$in_tmp" != 0 ] || [ "$available_kib" -lt $((8 * 1024 * 1024)) ] ||
  ! unshare --mount --propagation private $mount_memory 2>/dev/null; then
  exec "$@"
fi
exec unshare --mount --propagation private bash -c "$mount_memory && exec \"\$@\"" bash "$@"
