#!/usr/bin/env bash
# Tests the web UI in a real browser, with the daemon built by `cargo test --workspace`.
# Usage: test-ui.sh [name of a file in ui/tests, without .test.js]…
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/node.sh
scripts/fetch-ui-packages.sh
names=("$@")
[ ${#names[@]} -gt 0 ] || names=('*')
# Each file starts a browser and a daemon: run two files concurrently on two processors.
at_once=$(($(nproc) > 3 ? 3 : $(nproc)))
cd ui
# All grammars and patterns take most of an hour.
limit_ms=$([ "${AGENTD_MARKDOWN_FUZZ:-}" = 1 ] && echo 10000000 || echo 600000)
exec ../scripts/in-memory.sh node --test --test-timeout=$limit_ms --test-concurrency=$at_once $(printf 'tests/%s.test.js ' "${names[@]}")
