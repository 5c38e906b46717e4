#!/usr/bin/env bash
# Unpacks Debian's package `prometheus` into a folder, unless the machine has it installed. Installing it would start a
# service that listens on every address, and the tests need the programs alone.
set -euo pipefail
folder=$1
if [ -x /usr/bin/promtool ] || [ -x "$folder/usr/bin/promtool" ]; then exit 0; fi
echo "== unpacking prometheus into $folder"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
apt-cache show prometheus >/dev/null 2>&1 || "${as_root[@]}" apt-get update -qq
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What apt checks the signature of is written by the user that runs this.
(cd "$work" && apt-get -o APT::Sandbox::User="$(id -un)" download -qq prometheus)
dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
mkdir -p "$folder"
cp -r "$work/unpacked/." "$folder"
