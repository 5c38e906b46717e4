#!/usr/bin/env bash
# Tries the page in a real browser, before the daemon that `cargo test --workspace` has built: test-ui.sh [name of a
# file in ui/tests, without .test.js]…
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/node.sh
scripts/fetch-ui-packages.sh
names=("$@")
[ ${#names[@]} -gt 0 ] || names=('*')
# A browser and a daemon for each file: two files at once are enough for two processors.
at_once=$(($(nproc) > 3 ? 3 : $(nproc)))
cd ui
# Every grammar and pattern takes most of an hour.
limit_ms=$([ "${AGENTD_MARKDOWN_FUZZ:-}" = 1 ] && echo 10000000 || echo 600000)
exec ../scripts/in-memory.sh node --test --test-timeout=$limit_ms --test-concurrency=$at_once $(printf 'tests/%s.test.js ' "${names[@]}")
