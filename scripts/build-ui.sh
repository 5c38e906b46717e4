#!/usr/bin/env bash
# Builds the web UI into ui/dist, and the library for videos into ui/muxer, unless their sources are unchanged. Node is
# installed as a package into .venv, unless this machine has a recent version.
set -euo pipefail
cd "$(dirname "$0")/.."
built=ui/dist/index.html
sources=(docs/openapi.json ui/index.html ui/package.json ui/package-lock.json ui/*.ts ui/*.js ui/src ui/public ui/scripts)
[ -f "$built" ] && [ -f ui/muxer/mp4-muxer.js ] && [ -z "$(find "${sources[@]}" -newer "$built" ! -name api-types.ts ! -name settings-forms.json ! -type d -print -quit)" ] && exit 0
source scripts/node.sh
scripts/fetch-ui-packages.sh
cd ui
echo "== building the web UI"
npm run --silent build
