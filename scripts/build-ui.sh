#!/usr/bin/env bash
# Builds the page into ui/dist, and into ui/muxer the library that the daemon makes videos with, unless nothing changed
# since they were built. Node comes as a package into .venv, unless this machine has one that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."
built=ui/dist/index.html
sources=(docs/openapi.json ui/index.html ui/package.json ui/package-lock.json ui/*.ts ui/*.js ui/src ui/public ui/scripts)
[ -f "$built" ] && [ -f ui/muxer/mp4-muxer.js ] && [ -z "$(find "${sources[@]}" -newer "$built" ! -name api-types.ts ! -name settings-forms.json ! -type d -print -quit)" ] && exit 0
source scripts/node.sh
scripts/fetch-ui-packages.sh
cd ui
echo "== building the page"
npm run --silent build
