#!/usr/bin/env bash
# Installs the packages for building and testing the web UI, if necessary. Requires Node (scripts/node.sh).
set -euo pipefail
cd "$(dirname "$0")/../ui"
[ -f node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ] && exit 0
echo "== installing the packages of the web UI"
npm ci --no-audit --no-fund --loglevel=error
touch node_modules/.package-lock.json
