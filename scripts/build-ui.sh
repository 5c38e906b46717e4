#!/usr/bin/env bash
# Builds the page into ui/dist, unless nothing changed since it was built. Node comes as a package into .venv, unless
# this machine has one that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."
built=ui/dist/index.html
sources=(docs/openapi.json ui/index.html ui/package.json ui/package-lock.json ui/*.ts ui/*.js ui/src ui/public ui/scripts)
[ -f "$built" ] && [ -z "$(find "${sources[@]}" -newer "$built" ! -name api-types.ts ! -name settings-forms.json ! -type d -print -quit)" ] && exit 0
source scripts/node.sh
cd ui
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  echo "== fetching what the page is built with"
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules/.package-lock.json
fi
echo "== building the page"
npm run --silent build
