# `make` or `make help` lists the targets. Scripts that change a machine are in tests/env.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr/local
# The engine for stories: bookworm (20.10), trixie (26.1), sid (28.5), sid-containerd, host, or a folder with an unpacked
# engine, /folder[:containerd|:overlay2].
ENGINE ?= bookworm
ENGINES ?= bookworm trixie sid sid-containerd
# dockbridge-runtime needs Docker 24.
RUNTIME_ENGINES = $(filter-out bookworm,$(ENGINES))
# With RUNTIME=1 the engine of the stories has dockbridge-runtime.
RUNTIME ?=
# The engine of test-runtime, and its stories in `make test`.
RUNTIME_ENGINE ?= trixie
RUNTIME_STORIES := user_namespaces gpu_nodes exchange::image_store restores::of_a_counter slow_starts pod_checkpoints:: setup:: oci_edits cdi::read_here pods:: restarts crashes execs::out_of security mounts volumes resources plugins::
# The default stories of test-vm: those about features that this host may lack. STORY=:: runs all stories, for hours.
VM_STORIES := machine service resources user_namespaces security oom volumes pods::
# The cgroup driver of the engine in test-vm: systemd or cgroupfs.
DRIVER ?= systemd
# The security module of the kernel in test-vm: apparmor or selinux.
LSM ?= apparmor
# The number of power cuts in test-power, and its random seed. Without a seed it draws one and prints it.
CUTS ?= 30
SEED ?=
# Run only stories whose names contain one of these words.
STORY ?=
# The engines of `make exchange`, one after the other: names as for ENGINE, folders, and own for ENGINE itself.
EXCHANGE ?=
# Fuzz only these decoders, and each for this many seconds.
FUZZ ?=
TIME ?= 600

AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env env PATH=$$PATH)
# With DESTDIR no root is needed: the files belong to the user who builds a package.
AS_OWNER := $(if $(DESTDIR),,$(AS_ROOT))
WORLD = $(AS_ROOT) tests/env/world.sh $(if $(RUNTIME),--runtime $(RUNTIME_PROGRAM))
# Where cargo builds.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
BUILT := $(TARGET)/debug/dockbridge
# The oldest Rust that builds dockbridge. If cargo is missing or older, `toolchain` installs this version below target, and
# nothing in the user's home changes.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml)
RUST_IS_HERE := $(shell printf '$(RUST)\n%s\n' "$$($(CARGO) --version 2>/dev/null | cut -d ' ' -f 2)" | sort -CV && echo yes)
ifndef RUST_IS_HERE
override CARGO := cargo
export RUSTUP_HOME := $(TARGET)/rust/rustup
export CARGO_HOME := $(TARGET)/rust/cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
endif
# A file with rustup's installer. If this is empty, the installer is downloaded.
RUSTUP_INIT ?=
RUNTIME_PROGRAM = $(BUILT)
SUITE := tests/env/suite.sh
# The checks that run no tests.
CHECKS := commits fmt-check lint arm64 deny
# The renderer of the book, installed into target/tools if it is missing.
MDBOOK_VERSION := 0.5.4
MDBOOK := $(TARGET)/tools/bin/mdbook
# The program that lists the components of a release.
CYCLONEDX_VERSION := 0.5.9
CYCLONEDX := $(TARGET)/tools/bin/cargo-cyclonedx
# Where packages are put.
PACKAGES := $(TARGET)/packages
# The architecture of the packages, as Debian names it. ARCH=arm64 on amd64 is a cross build.
HOST_ARCH := $(shell uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
ARCH ?= $(HOST_ARCH)
TARBALL = $(PACKAGES)/dockbridge-*-linux-$(ARCH).tar.gz
# Benchmarks are built separately from the program that they measure: the release build, or the one in BRIDGE.
MEASURE := $(CARGO) bench --profile measure
RELEASED := BRIDGE=$${BRIDGE:-$(TARGET)/release/dockbridge}
# The number of worlds, and of tests without an engine, that run at the same time. Tests wait most of the time, so this is
# more than the number of cores. A world needs up to 1 GiB. With JOBS=1 all tests run one after the other.
JOBS_PER_CORE ?= 3
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ { fit = int($$2 / 1048576); most = $(JOBS_PER_CORE) * cores; \
  print fit < 1 ? 1 : fit < most ? fit : most }' /proc/meminfo)
# Builds a test program and prints its path.
test_program = $$($(CARGO) test --test $(1) --no-run --message-format=json-render-diagnostics | \
  sed -n 's/.*"executable":"\([^"]*\/$(1)-[^"]*\)".*/\1/p')

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Serve the CRI on this machine; installs and starts an engine if there is none
	@$(AS_ROOT) tests/env/run.sh serve $(BUILT)

.PHONY: demo
demo: build ## Start and remove a pod, with the time of each step
	@$(AS_ROOT) tests/env/run.sh demo $(BUILT)

.PHONY: first-pod
first-pod: build ## Start the pod of README.md on the server of `make run`, without crictl
	$(CARGO) build --quiet --example client
	@$(AS_ROOT) tests/env/run.sh first-pod $(TARGET)/debug/examples/client

.PHONY: install
install: build-release ## Install the release build, units for systemd, manual pages and completions below PREFIX (/usr/local)
	$(AS_OWNER) install -D -m 0755 $(TARGET)/release/dockbridge $(DESTDIR)$(PREFIX)/bin/dockbridge
	$(AS_OWNER) ln -sf dockbridge $(DESTDIR)$(PREFIX)/bin/dockbridge-runtime
	$(AS_OWNER) install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system packaging/systemd/dockbridge.{service,socket}
	$(AS_OWNER) sed -i 's,^\(ExecStart\|ExecReload\)=/usr/,\1=$(PREFIX)/,' $(DESTDIR)$(PREFIX)/lib/systemd/system/dockbridge.service
	$(CARGO) run --quiet --example documents -- $(TARGET)/share
	chmod -R a+rX $(TARGET)/share
	umask 022 && $(AS_OWNER) cp -r $(TARGET)/share $(DESTDIR)$(PREFIX)/
	$(AS_OWNER) install -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/dockbridge/examples packaging/default packaging/cni/10-bridge.conflist

##@ Build

.PHONY: toolchain
toolchain: $(if $(RUST_IS_HERE),,$(TARGET)/rust/cargo/bin/cargo)
	@command -v cc >/dev/null || { $(AS_ROOT) tests/env/install.sh gcc libc6-dev; }
	@[ $(HOST_ARCH)-$(ARCH) != amd64-arm64 ] || command -v aarch64-linux-gnu-gcc >/dev/null || \
	  $(AS_ROOT) tests/env/install.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross

$(TARGET)/rust/cargo/bin/cargo:
	@echo "cargo is missing or older than $(RUST): rustup installs Rust $(RUST) into $(TARGET)/rust, and changes nothing in your home" >&2
	@mkdir -p $(TARGET)/rust
	@[ -n "$(RUSTUP_INIT)" ] || command -v curl >/dev/null || $(AS_ROOT) tests/env/install.sh curl ca-certificates
	@[ -n "$(RUSTUP_INIT)" ] || curl --proto '=https' -fsSo $(TARGET)/rust/rustup-init https://sh.rustup.rs
	@sh $(or $(RUSTUP_INIT),$(TARGET)/rust/rustup-init) -y -q --no-modify-path --profile minimal \
	  --component clippy,rustfmt --default-toolchain $(RUST)

.PHONY: build
build: toolchain ## Build for development
	$(CARGO) build

.PHONY: build-release
build-release: toolchain ## Build for nodes: small, optimised, stripped
	$(CARGO) build --release
	@ls -l $(TARGET)/release/dockbridge | awk '{ printf "release build: %.1f MB\n", $$5 / 1e6 }'

.PHONY: dist
dist: toolchain ## Make a tarball of a static build: program, units, manual pages, completions, examples (target/packages, ARCH=arm64)
	ARCH=$(ARCH) packaging/dist.sh $(PACKAGES)

.PHONY: deb
deb: dist ## Make the Debian packages dockbridge and dockbridge-cri-dockerd from the tarball
	packaging/deb.sh $(TARBALL)

.PHONY: rpm
rpm: dist ## Make the same as RPM packages (needs rpmbuild)
	packaging/rpm.sh $(TARBALL)

.PHONY: image
image: dist ## Make an OCI image from the tarball
	packaging/image.sh $(TARBALL)

.PHONY: dist-check
dist-check: toolchain ## Build the committed state twice, in two directories, and compare the packages byte for byte (ARCH=arm64)
	ARCH=$(ARCH) packaging/dist-check.sh

.PHONY: release-check
release-check: ## Fail unless the committed state can be released: one version in all files, packages reproduce, checks and test-all pass
	packaging/release-check.sh
	@$(MAKE) --no-print-directory dist-check $(CHECKS) test-all

.PHONY: release
release: $(CYCLONEDX) ## Put packages, image, checksums, components (SBOM) and notes into target/publish, and print how to publish them
	packaging/release.sh $(TARGET)/publish $(CYCLONEDX)

$(CYCLONEDX): | toolchain
	$(CARGO) install cargo-cyclonedx --version $(CYCLONEDX_VERSION) --locked --root $(TARGET)/tools

.PHONY: docs
docs: toolchain ## Render the code's documentation into target/doc
	$(CARGO) doc --no-deps --document-private-items

.PHONY: messages
messages: toolchain ## Print every text that leaves the program: logs, errors, findings, help
	@$(CARGO) run --quiet --example messages

.PHONY: pictures
pictures: toolchain ## Draw the pictures of the documents from the code and from tests/pictures/data
	$(CARGO) run --quiet --example pictures

.PHONY: record
record: build-release ## Record that data again in a private world; needs crictl (bench.txt is the output of make bench)
	$(WORLD) --engine $(ENGINE) -- tests/pictures/record.sh $(TARGET)/release/dockbridge

$(MDBOOK):
	$(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root $(TARGET)/tools

# Pages outside of docs that are part of the book are copied into it, and links to them are changed.
.PHONY: book
book: toolchain $(MDBOOK) ## Render docs/ as a book into target/book
	rm -rf $(TARGET)/book-source && mkdir -p $(TARGET) && cp -r docs $(TARGET)/book-source
	cp CHANGELOG.md CONTRIBUTING.md SECURITY.md $(TARGET)/book-source
	sed -i 's|](docs/|](|g' $(TARGET)/book-source/{CHANGELOG,CONTRIBUTING,SECURITY}.md
	find $(TARGET)/book-source -name '*.md' -exec sed -i -e 's|](\(\(\.\./\)*\)\.\./\([A-Z]*\.md\)|](\1\3|g' {} +
	$(MDBOOK) build $(TARGET)/book-source --dest-dir $(TARGET)/book
	@echo "open $(TARGET)/book/index.html"

.PHONY: book-test
book-test: build ## Check links, figures, log messages and pictures of the book; run its commands and compare what they print (crictl, ENGINE=…)
	$(CARGO) test --test architecture
	@[ -x /bin/busybox ] || $(AS_ROOT) tests/env/install.sh busybox-static
	$(WORLD) --engine $(ENGINE) -- tests/book.sh $(BUILT)

.PHONY: clean
clean: ## Remove everything that was built
	$(CARGO) clean

##@ Test

# The parts run one after the other, also after a failure. tests/env/suite.sh prints the result.
.PHONY: test
test: toolchain ## The tests that each change must pass: test-unit, test-stories, test-runtime (ENGINE=bookworm, JOBS=…)
	@$(SUITE) test-unit test-stories test-runtime

.PHONY: test-all
test-all: toolchain ## Before a release: full size, all engines, a virtual machine, chaos, fuzzing, power cuts, packages, the book, pauses
	@$(SUITE) test-unit test-packages book-test test-pauses test-power chaos test-vm fuzz $(ENGINES:%=test-on-%) $(RUNTIME_ENGINES:%=test-on-%-runtime)

test-all: export FULL_SIZE_ON = bookworm trixie-runtime
test-all: export CUTS = 3
test-all: export TIME = 60

# Tests record in these files what they skip (tests/skips) and which known faults of an engine they met
# (tests/known_faults). A skip that tests/skips does not allow on this machine is a failure. Random numbers of the tests are
# the same in every run.
test test-all test-engines: export DOCKBRIDGE_SKIPS := $(TARGET)/skips
test test-all test-engines: export DOCKBRIDGE_REPEATS := $(TARGET)/repeats
test test-unit: export PROPTEST_RNG_SEED ?= 1

.PHONY: test-unit
test-unit: toolchain ## Tests that need no engine (JOBS=…)
	$(CARGO) test --no-fail-fast -- --test-threads $(JOBS)

.PHONY: test-pauses
test-pauses: toolchain ## Tests that need no engine, while all processes are stopped at random, as on a busy host
	$(CARGO) test --lib --test it --no-run
	tests/env/pauses.sh $(CARGO) test --offline --lib --test it

.PHONY: test-stories
test-stories: toolchain ## End-to-end tests on a real engine in private worlds (ENGINE=…, STORY=…, RUNTIME=1, JOBS=…)
	$(call stories_on,$(ENGINE),$(RUNTIME))

.PHONY: test-runtime
test-runtime: ## The end-to-end tests that concern dockbridge-runtime (RUNTIME_ENGINE=trixie, STORY=…)
	@$(MAKE) --no-print-directory test-stories ENGINE=$(RUNTIME_ENGINE) RUNTIME=1 STORY="$(or $(STORY),$(RUNTIME_STORIES))"

.PHONY: test-engines
test-engines: toolchain ## All end-to-end tests on Docker 20.10, 26.1, 28.5, and 28.5 with the containerd store (RUNTIME=1)
	@$(SUITE) $(if $(RUNTIME),$(RUNTIME_ENGINES:%=test-on-%-runtime),$(ENGINES:%=test-on-%))

# stories_on ENGINE,RUNTIME: runs the end-to-end tests, and without STORY also the tests of the engine client. This is not a
# target, because a folder as ENGINE has slashes.
define stories_on
@code=0; stories=$(call test_program,stories); client=$(call test_program,it); \
$(AS_ROOT) "$$stories" --engine "$(1)" $(if $(2),--runtime $(BUILT)) --jobs $(JOBS) $(STORY) || code=1; \
[ -n "$(STORY)" ] || DOCKBRIDGE_WORLD_WANTED=1 $(AS_ROOT) tests/env/world.sh --engine "$(1)" -- "$$client" engine::real | tee /dev/stderr | grep -q '^test result: ok. [1-9]' || code=1; \
exit $$code
endef

# The parts of test-all in which tests have their full size. They also need processors, so there are fewer worlds.
FULL_SIZE_ON ?=
ifneq ($(FULL_SIZE_ON),)
$(FULL_SIZE_ON:%=test-on-%): export DOCKBRIDGE_FULL_SIZE := 1
$(FULL_SIZE_ON:%=test-on-%): JOBS_PER_CORE := 2
endif

test-on-%: toolchain
	$(call stories_on,$(*:-runtime=),$(filter %-runtime,$*))

.PHONY: exchange
exchange: toolchain ## Upgrade the engine under 30 pods and print what survives (ENGINE=bookworm, RUNTIME=1, EXCHANGE="own trixie sid /folder")
	@export DOCKBRIDGE_FULL_SIZE=1 DOCKBRIDGE_EXCHANGE="$(EXCHANGE)"; \
	$(MAKE) --no-print-directory test-stories STORY=exchange:: | tee $(TARGET)/exchange.log; \
	printf '\n| Docker | live-restore | network | a container of docker run | pods that keep running |\n|---|---|---|---|---|\n'; \
	grep '^| ' $(TARGET)/exchange.log

.PHONY: test-vm
test-vm: toolchain ## End-to-end tests in an emulated machine: systemd, cgroup v2, AppArmor, swap (ENGINE=…, STORY=…, DRIVER=…, LSM=…, RUNTIME=1)
	stories=$(call test_program,stories); \
	$(AS_ROOT) tests/env/vm.sh --engine $(ENGINE) --driver $(DRIVER) --lsm $(LSM) $(if $(RUNTIME),--runtime $(BUILT)) --carry $(BUILT) --carry "$$stories" -- "$$stories" $(or $(STORY),$(VM_STORIES))

.PHONY: conformance
conformance: build-release ## Run critest, stories and node e2e on all engines; one page with the results (CRITEST=…, E2E=…, IMAGES=…, VM=1, SUITES=…, ENGINES=…, STORY=…)
	stories=$(call test_program,stories); \
	$(CARGO) build --quiet --example conformance; \
	$(AS_ROOT) ENGINES="$(ENGINES)" JOBS=$(JOBS) STORY="$(STORY)" VM_STORIES="$(VM_STORIES)" tests/env/conformance.sh \
	  $(TARGET)/conformance $(TARGET)/release/dockbridge "$$stories" $(TARGET)/debug/examples/conformance

.PHONY: chaos
chaos: toolchain ## Pods under random kills and faults of dockbridge, engine, plugins and disk (KILLS=200, FAULTS=40, SEED=…, NRI=1, ENGINE=…)
	$(CARGO) test --test stories --no-run
	DOCKBRIDGE_CHAOS_KILLS=$(or $(KILLS),200) DOCKBRIDGE_CHAOS_FAULTS=$(or $(FAULTS),40) STORY_SEED=$(or $(SEED),$$RANDOM$$RANDOM) \
	  DOCKBRIDGE_WORLD_LOGS=$${DOCKBRIDGE_WORLD_LOGS:-target/chaos} \
	  $(WORLD) --engine $(ENGINE) -- $(CARGO) test --offline --test stories -- chaos::$(if $(NRI),tells_plugins,loses_nothing)

.PHONY: test-power
test-power: toolchain ## Power cuts in an emulated machine while pods come and go (ENGINE=…, CUTS=30, SEED=…)
	stories=$(call test_program,stories); \
	$(AS_ROOT) tests/env/power.sh --engine $(ENGINE) --cuts $(CUTS) $(if $(SEED),--seed $(SEED)) -- $(BUILT) "$$stories"

.PHONY: test-packages
test-packages: dist ## Install, upgrade, replace and purge the Debian packages around a running pod, in an emulated machine
	$(CARGO) build --example client
	$(AS_ROOT) tests/env/packages.sh $(TARBALL) $(TARGET)/debug/examples/client

.PHONY: bench
bench soak: RUNTIME_PROGRAM = $(TARGET)/release/dockbridge
bench: build-release ## Time pods against the same raw engine calls (ENGINE=…, RUNTIME=1, PEER=unix:///…)
	$(MEASURE) --bench lifecycle --bench logs --no-run
	$(RELEASED) $(WORLD) --engine $(ENGINE) -- $(MEASURE) --offline --bench lifecycle --bench logs
	$(RELEASED) $(MEASURE) --bench forward
	$(CARGO) run --profile measure --example authorities

.PHONY: soak
soak: build-release ## An hour of pods that come and go with all streams open; draws the resources of dockbridge (SOAK=60m, ENGINE=…)
	$(MEASURE) --bench soak --no-run
	$(RELEASED) $(WORLD) --engine $(ENGINE) -- $(MEASURE) --offline --bench soak

.PHONY: fuzz
fuzz: toolchain ## Feed random input to every decoder; prints coverage and findings (FUZZ=names, TIME=600 seconds for each)
	@TIME=$(TIME) tests/env/fuzz.sh run $(FUZZ)

##@ Checks

.PHONY: check
check: $(CHECKS) test ## All checks that must pass before a change is merged

.PHONY: commits
commits: ## Fail if a commit message breaks the rules of CONTRIBUTING.md
	@tests/env/commits.sh

.PHONY: fmt
fmt: toolchain ## Format the code
	$(CARGO) fmt

.PHONY: fmt-check
fmt-check: toolchain ## Fail if the code is not formatted
	$(CARGO) fmt --check

.PHONY: lint
lint: toolchain ## Run clippy on everything, and check the links of the code's documentation with rustdoc
	$(CARGO) clippy --all-targets --all-features -- -D warnings
	$(CARGO) doc --quiet --no-deps --document-private-items --lib

.PHONY: lines
lines: ## Count the shipped lines of src for each module (COMMIT=…)
	@tests/env/lines.sh $(COMMIT)

.PHONY: sentences
sentences: ## Draw 90 sentences of the documents, messages and comments to check for plain English (COMMIT=…)
	@tests/env/sentences.sh $(COMMIT)

.PHONY: arm64
arm64: toolchain ## Compile for arm64 without linking, if `rustup target add aarch64-unknown-linux-gnu` was run
	@if rustup target list --installed 2>/dev/null | grep -q aarch64-unknown-linux-gnu; then \
	  $(CARGO) check --all-targets --target aarch64-unknown-linux-gnu; \
	else echo "no standard library for arm64 is installed: not compiled for it"; fi

.PHONY: cargo-deny
cargo-deny: toolchain
	@$(CARGO) deny --version >/dev/null 2>&1 || { \
	  echo "cargo-deny is missing, so dependencies cannot be checked: cargo install --locked cargo-deny" >&2; exit 1; }

.PHONY: advisories
advisories: cargo-deny ## Check the dependencies for known vulnerabilities; fetches RustSec's database
	$(CARGO) deny check advisories

.PHONY: deny
deny: advisories ## Check the dependencies for advisories, licences, sources and duplicates; needs cargo-deny and network
	$(CARGO) deny check bans licenses sources
