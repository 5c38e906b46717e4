#!/usr/bin/env bash
# Runs a command in a private network namespace in which private and link-local addresses belong to this machine, so that
# listeners receive traffic to them. Without the permissions, the command runs unchanged.
set -euo pipefail
addresses="10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 169.254.1.1 169.254.169.254"
addresses6="fd00::1 fe80::1 fd00:ec2::254"
if [ "$(id -u)" != 0 ] || ! command -v ip > /dev/null || ! unshare --net true 2> /dev/null; then
  echo "no private network namespace: private addresses are only checked at the proxy"
  exec "$@"
fi
exec unshare --net -- bash -c '
  ip link set lo up
  for address in '"$addresses"'; do ip address add "$address/32" dev lo; done
  for address in '"$addresses6"'; do ip -6 address add "$address/128" dev lo 2> /dev/null || true; done
  exec "$@"
' bash "$@"
