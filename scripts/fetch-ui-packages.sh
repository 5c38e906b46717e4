#!/usr/bin/env bash
# Fetches what the page is built and tried with, once. Node is there (scripts/node.sh).
set -euo pipefail
cd "$(dirname "$0")/../ui"
[ -f node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ] && exit 0
echo "== fetching what the page is built with"
npm ci --no-audit --no-fund --loglevel=error
touch node_modules/.package-lock.json
