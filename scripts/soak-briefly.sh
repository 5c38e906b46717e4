#!/usr/bin/env bash
# Three minutes of the soak on the daemon that `cargo test --workspace` has built, beside whatever else the machine does:
# fails where something is never given back. `make soak` is the long one.
set -euo pipefail
cd "$(dirname "$0")/.."
# As make test builds it: fewer packages would have other features, and all be built again.
cargo test --quiet --workspace --bin soak --test it --no-run
export AGENTD_BINARY=$PWD/target/debug/agentd
exec scripts/in-memory.sh cargo test --quiet --workspace --bin soak -- --ignored --nocapture
