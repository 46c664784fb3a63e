# Every target is one line of help: the text after the double hash.

LOCKED := $(if $(wildcard Cargo.lock),--locked)

.DEFAULT_GOAL := help
.PHONY: help test check bless bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: ## install what the tests need, then run every test and doctest
	@scripts/test

check: ## formatting, lints, licences and advisories of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings
	@cargo deny --version >/dev/null 2>&1 || { \
		echo "make check: cargo-deny is missing; install it with:" >&2; \
		echo "cargo install cargo-deny --locked" >&2; \
		exit 1; \
	}
	cargo deny check

bless: ## regenerate the generated files that tests compare
	BLESS=1 cargo test --workspace

bench: ## run the benchmark; pass its arguments in ARGS="…"
	cargo run --release $(LOCKED) -p windlass-bench -- $(ARGS)
