#!/usr/bin/env bash
# Runs a command in a network of its own, where private and link-local addresses are this machine's
# own: what is sent there arrives at whoever listens. Without the rights for it, the command runs as it is.
set -euo pipefail
addresses="10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 169.254.1.1 169.254.169.254"
addresses6="fd00::1 fe80::1 fd00:ec2::254"
if [ "$(id -u)" != 0 ] || ! command -v ip > /dev/null || ! unshare --net true 2> /dev/null; then
  echo "no network of its own here: private addresses are watched at the proxy alone"
  exec "$@"
fi
exec unshare --net -- bash -c '
  ip link set lo up
  for address in '"$addresses"'; do ip address add "$address/32" dev lo; done
  for address in '"$addresses6"'; do ip -6 address add "$address/128" dev lo 2> /dev/null || true; done
  exec "$@"
' bash "$@"
