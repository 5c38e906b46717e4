#!/usr/bin/env bash
# Runs a command with a /tmp of its own that lives in memory: each test makes some dozen files there and removes them,
# which takes a disk's file system more processor time than the tests take. Without the rights for it, or without
# memory to spare, the command runs as it is.
set -euo pipefail
available_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
if [ "$(id -u)" != 0 ] || [ "${available_kib:-0}" -lt $((8 * 1024 * 1024)) ] || ! unshare --mount true 2>/dev/null; then
  exec "$@"
fi
exec unshare --mount --propagation private bash -c 'mount -t tmpfs -o mode=1777 tmpfs /tmp && exec "$@"' bash "$@"
