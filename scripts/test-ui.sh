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
exec ../scripts/in-memory.sh node --test --test-timeout=600000 --test-concurrency=$at_once $(printf 'tests/%s.test.js ' "${names[@]}")
