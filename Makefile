# Every target is one line of help: the text after the double hash.

LOCKED := $(if $(wildcard Cargo.lock),--locked)

NEED_DENY := cargo deny --version >/dev/null 2>&1 || { \
	echo "cargo-deny is missing; install it with: cargo install cargo-deny --locked" >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help run test test-pg18 hunt check page msrv audit bless bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: ## build, then the demo: server, workers and a small shop on SQLite in ./windlass-data
	cargo run --profile quick $(LOCKED) -p windlass-cli -- demo $(ARGS)

test: ## install what the tests need, then run every test and doctest
	@scripts/test

test-pg18: ## the tests of the PostgreSQL store on PostgreSQL 18, which it gets
	@scripts/test-pg18

hunt: ## random lives on two stores at once, other ones than the suite's; ARGS="ROUNDS LIVES"
	@scripts/hunt $(ARGS)

check: ## formatting, lints, licences and sources of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features $(LOCKED) -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; else \
		echo "GAP: cargo-deny is not installed, so bans, licences and sources of dependencies were NOT checked;" \
			"install it with: cargo install cargo-deny --locked" >&2; fi

page: ## build the page from crates/http/page/src; needs node and npm, and only who changes it
	cd crates/http/page && npm install --no-save --ignore-scripts --no-audit --no-fund && node build.mjs

msrv: ## the library with the oldest compiler that it promises
	@scripts/msrv

audit: ## known vulnerabilities of dependencies; needs the advisory database, from the network
	@$(NEED_DENY)
	cargo deny check advisories

bless: ## regenerate the generated files that tests compare
	BLESS=1 cargo test --workspace

bench: ## run the benchmark; pass its arguments in ARGS="…"
	cargo run --release $(LOCKED) -p windlass-bench -- $(ARGS)
