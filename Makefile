# The commands of this repository. `make demo` and `make test` are the two a stranger needs.
SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export SPINIFEX_TEST_CACHE ?= $(CARGO_TARGET_DIR)/cache
VENV := $(SPINIFEX_TEST_CACHE)/venv
GUEST_FLAGS := -C target-feature=+crt-static -C relocation-model=static
SPX_DEBUG := $(CARGO_TARGET_DIR)/debug/spx

.PHONY: help packages build guest check test unit e2e demo bench clean

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## packages  install the Debian packages we need (root)
packages:
	@scripts/install-packages

## build     the release binary and the guest agent: $(CARGO_TARGET_DIR)/release/spx
build: guest
	cargo build --release -p spx

# The guest agent is static, so that it runs in any image. It has a target directory of its own because its flags
# would otherwise rebuild everything else.
guest:
	RUSTFLAGS="$(GUEST_FLAGS)" cargo build -p guest --profile guest --target x86_64-unknown-linux-gnu --target-dir $(CARGO_TARGET_DIR)/guest
	@for profile in release debug; do \
	  install -D $(CARGO_TARGET_DIR)/guest/x86_64-unknown-linux-gnu/guest/guest $(CARGO_TARGET_DIR)/$$profile/spx-guest; done

## check     format, lints as errors, layering, quick tests
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo nextest run -p xtask -p aws-types -p policy -p state

$(VENV)/ready: tests/requirements.txt
	@mkdir -p $(SPINIFEX_TEST_CACHE)
	python3 -m venv --system-site-packages $(VENV)
	$(VENV)/bin/pip install --quiet -r tests/requirements.txt
	@touch $@

## test      everything CI runs
test: packages $(VENV)/ready
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	PATH="$(VENV)/bin:$$PATH" cargo xtask models --check
	PATH="$(VENV)/bin:$$PATH" cargo nextest run --workspace
	$(MAKE) e2e

# The binary of these tests can abort at the named points of the crash tests; otherwise it is the product.
## e2e       real clients against a real cloud
e2e: $(VENV)/ready guest
	cargo build -p spx --features fault-points
	SPX=$(SPX_DEBUG) SPX_FAULTS=$(SPX_DEBUG) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python -m pytest -q tests/e2e

## demo      a real guest, from nothing, through the stock AWS CLI
demo: packages $(VENV)/ready build
	PATH="$(VENV)/bin:$$PATH" SPX=$(CARGO_TARGET_DIR)/release/spx scripts/demo

## bench     the measurements behind docs/promises.md
bench: packages $(VENV)/ready build
	PATH="$(VENV)/bin:$$PATH" SPX=$(CARGO_TARGET_DIR)/release/spx benches/run

clean:
	cargo clean
