#!/usr/bin/env bash
# Runs the soak test for three minutes on the daemon built by `cargo test --workspace`, and fails on a leak. It tolerates
# other load on the machine. `make soak` is the long version.
set -euo pipefail
cd "$(dirname "$0")/.."
# Builds the same packages as make test: a subset would have other features and be rebuilt.
cargo test --quiet --workspace --bin soak --test it --no-run
export AGENTD_BINARY=$PWD/target/debug/agentd
exec scripts/in-memory.sh cargo test --quiet --workspace --bin soak -- --ignored --nocapture
