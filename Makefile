# Each target starts from a bare Debian machine: it installs what it needs by package name, says
# what it does, and does nothing twice.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MODELS := models
PACKAGES := bubblewrap cmake clang curl g++ libclang-dev pkg-config python3 python3-pip python3-venv
say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help run test check bench security models tools postgres-tools openapi fuzz-api clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | column -t -s '|'

run: tools models ## Build and start the daemon with the model inside (the first build takes minutes)
	$(call say,building the daemon)
	cargo build --release --package agentd
	$(call say,starting)
	exec ./target/release/agentd

test: tools postgres-tools models ## Run every test, on SQLite and on a throwaway PostgreSQL
	$(call say,tests on SQLite)
	cargo test --workspace
	$(call say,tests on PostgreSQL)
	scripts/with-postgres.sh cargo test --package agentd-store --package agentd

check: tools ## Format, lints, licences and sources of dependencies
	$(call say,format)
	cargo fmt --all --check
	$(call say,lints)
	cargo clippy --workspace --all-targets -- --deny warnings
	$(call say,licences and sources of dependencies)
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check bans licenses sources

security: tools ## Try to break out of the sandbox, on every tier that this machine provides
	$(call say,escape suite)
	cargo test --quiet --package agentd-sandbox --test escape

models: ## Fetch the weights of the model inside
	@scripts/fetch-models.sh $(MODELS)

tools:
	@scripts/install-packages.sh $(PACKAGES)

postgres-tools:
	@scripts/install-packages.sh postgresql

openapi: ## Write docs/openapi.json from the code
	cargo run --quiet --package agentd --no-default-features -- openapi > docs/openapi.json.new
	mv docs/openapi.json.new docs/openapi.json

fuzz-api: tools ## Send generated requests for every operation of the document to a daemon
	tests/schemathesis.sh

bench: tools models ## Measure what docs/benchmarks.md quotes (takes minutes)
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features local-model
	$(call say,cold start and idle memory)
	target/release/start
	$(call say,GET /api/agents against a bare handler)
	target/release/http
	$(call say,chat turns)
	target/release/chat
	$(call say,the model inside against its engine)
	target/release/local_model $(firstword $(wildcard $(MODELS)/*.gguf))

clean: ## Remove what was built
	cargo clean
