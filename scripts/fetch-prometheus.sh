#!/usr/bin/env bash
# Unpacks Debian's package `prometheus` into a folder, unless it is installed. Installing it would start a service that
# listens on all addresses; the tests need only the programs.
set -euo pipefail
folder=$1
if [ -x /usr/bin/promtool ] || [ -x "$folder/usr/bin/promtool" ]; then exit 0; fi
echo "== unpacking prometheus into $folder"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
apt-cache show prometheus >/dev/null 2>&1 || "${as_root[@]}" apt-get update -qq
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# apt downloads as the current user, who owns the working directory.
(cd "$work" && apt-get -o APT::Sandbox::User="$(id -un)" download -qq prometheus)
dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
mkdir -p "$folder"
cp -r "$work/unpacked/." "$folder"
