# `make` or `make help` lists the targets. Everything that touches a machine is in tests/env.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr/local
# Which engine the stories run on: bookworm (20.10), trixie (26.1), sid (28.5), sid-containerd, host, or a folder with an
# unpacked engine, /folder[:containerd|:overlay2].
ENGINE ?= bookworm
ENGINES ?= bookworm trixie sid sid-containerd
# dockbridge-runtime needs Docker 24.
RUNTIME_ENGINES = $(filter-out bookworm,$(ENGINES))
# With RUNTIME=1 the stories' engine has dockbridge-runtime.
RUNTIME ?=
# Which engine test-runtime uses, and which stories of it are part of `make test`.
RUNTIME_ENGINE ?= trixie
RUNTIME_STORIES := user_namespaces setup:: oci_edits cdi::read_here pods:: restarts crashes execs::out_of security mounts volumes resources plugins::
# What test-vm runs unless STORY says otherwise (STORY=:: is everything, and takes hours): what this host may lack.
VM_STORIES := machine service resources user_namespaces security oom volumes pods::
# Who keeps the engine's cgroups in test-vm: systemd or cgroupfs.
DRIVER ?= systemd
# What the kernel of test-vm confines with: apparmor or selinux.
LSM ?= apparmor
# How often test-power cuts, and with which chance; it prints the seed that it drew.
CUTS ?= 30
SEED ?=
# Only these stories; parts of names.
STORY ?=
# Only these decoders, and for how many seconds each.
FUZZ ?=
TIME ?= 600

AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env env PATH=$$PATH)
# Who makes a package stages it as himself.
AS_OWNER := $(if $(DESTDIR),,$(AS_ROOT))
WORLD = $(AS_ROOT) tests/env/world.sh $(if $(RUNTIME),--runtime $(RUNTIME_PROGRAM))
# Where cargo builds.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
BUILT := $(TARGET)/debug/dockbridge
# The oldest Rust that builds this. If cargo is missing or older, `toolchain` puts this version below target, so that
# nothing in the user's home changes.
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml)
RUST_IS_HERE := $(shell printf '$(RUST)\n%s\n' "$$($(CARGO) --version 2>/dev/null | cut -d ' ' -f 2)" | sort -CV && echo yes)
ifndef RUST_IS_HERE
override CARGO := cargo
export RUSTUP_HOME := $(TARGET)/rust/rustup
export CARGO_HOME := $(TARGET)/rust/cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
endif
# rustup's installer; downloaded if this names no file.
RUSTUP_INIT ?=
RUNTIME_PROGRAM = $(BUILT)
SUITE := tests/env/suite.sh
# Who renders the book; installed into target/tools when it is missing.
MDBOOK_VERSION := 0.5.4
MDBOOK := $(TARGET)/tools/bin/mdbook
# Who lists the components of a release.
CYCLONEDX_VERSION := 0.5.9
CYCLONEDX := $(TARGET)/tools/bin/cargo-cyclonedx
# Where packages are put.
PACKAGES := $(TARGET)/packages
# Who measures is built apart from the program that is measured, which is the release build unless BRIDGE names another.
MEASURE := $(CARGO) bench --profile measure
RELEASED := BRIDGE=$${BRIDGE:-$(TARGET)/release/dockbridge}
# How many worlds run tests at once, and how many tests without an engine: tests mostly wait. A world takes up to 1 GiB.
# With JOBS=1 all tests run one after the other.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ { fit = int($$2 / 1048576); most = 3 * cores; \
  print fit < 1 ? 1 : fit < most ? fit : most }' /proc/meminfo)
# The path of a test program, which is built first.
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
demo: build ## Show a pod go up and down, with the time each step took
	@$(AS_ROOT) tests/env/run.sh demo $(BUILT)

.PHONY: first-pod
first-pod: build ## Start README's pod at the server of `make run`, without crictl
	$(CARGO) build --quiet --example client
	@$(AS_ROOT) tests/env/run.sh first-pod $(TARGET)/debug/examples/client

.PHONY: install
install: build-release ## Install the release build, units for systemd, manual pages and completions below PREFIX (/usr/local)
	$(AS_OWNER) install -D -m 0755 $(TARGET)/release/dockbridge $(DESTDIR)$(PREFIX)/bin/dockbridge
	$(AS_OWNER) ln -sf dockbridge $(DESTDIR)$(PREFIX)/bin/dockbridge-runtime
	$(AS_OWNER) install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system packaging/systemd/dockbridge.{service,socket}
	$(AS_OWNER) sed -i 's,^\(ExecStart\|ExecReload\)=/usr/,\1=$(PREFIX)/,' $(DESTDIR)$(PREFIX)/lib/systemd/system/dockbridge.service
	$(CARGO) run --quiet --example documents -- $(TARGET)/share
	$(AS_OWNER) cp -r $(TARGET)/share $(DESTDIR)$(PREFIX)/

##@ Build

.PHONY: toolchain
toolchain: $(if $(RUST_IS_HERE),,$(TARGET)/rust/cargo/bin/cargo)
	@command -v cc >/dev/null || { $(AS_ROOT) tests/env/install.sh gcc libc6-dev; }

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
dist: toolchain ## Make a tarball of a static build: program, units, manual pages, completions, examples (target/packages)
	packaging/dist.sh $(PACKAGES)

.PHONY: deb
deb: dist ## Make the Debian packages dockbridge and dockbridge-cri-dockerd of the tarball
	packaging/deb.sh $(PACKAGES)/dockbridge-*.tar.gz

.PHONY: rpm
rpm: dist ## Make the same as RPM packages (needs rpmbuild)
	packaging/rpm.sh $(PACKAGES)/dockbridge-*.tar.gz

.PHONY: image
image: dist ## Make an OCI image of the tarball's program
	packaging/image.sh $(PACKAGES)/dockbridge-*.tar.gz

.PHONY: dist-check
dist-check: toolchain ## Build the committed state twice, in two directories, and compare the packages byte for byte
	packaging/dist-check.sh

.PHONY: release-check
release-check: ## Fail unless the committed state can be released: one version in all files, packages reproduce, checks and test-all pass
	packaging/release-check.sh
	@$(MAKE) --no-print-directory dist-check check test-all

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
pictures: toolchain ## Draw the documents' pictures from the code and from tests/pictures/data
	$(CARGO) run --quiet --example pictures

.PHONY: record
record: build-release ## Record that data anew in a private world; needs crictl (bench.txt is what make bench prints)
	$(WORLD) --engine $(ENGINE) -- tests/pictures/record.sh $(TARGET)/release/dockbridge

$(MDBOOK):
	$(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root $(TARGET)/tools

# What docs link to outside of docs becomes a page beside them.
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

# The parts of each tier run one after the other, all of them whatever fails; tests/env/suite.sh prints one verdict.
.PHONY: test
test: toolchain ## The tests that decide a change: test-unit, test-stories, test-runtime (ENGINE=bookworm, JOBS=…)
	@$(SUITE) test-unit test-stories test-runtime

.PHONY: test-all
test-all: toolchain ## Before a release: full size, all engines, a virtual machine, chaos, fuzzing, power cuts, packages, the book, pauses
	@$(SUITE) test-unit $(ENGINES:%=test-on-%) $(RUNTIME_ENGINES:%=test-on-%-runtime) test-vm chaos fuzz test-power test-packages book-test test-pauses

test-all: export DOCKBRIDGE_FULL_SIZE := 1
test-all: export CUTS = 3
test-all: export TIME = 60

# A test notes here what it skips, and fails if tests/skips does not list it for such a machine; likewise the faults of
# an engine that tests/known_faults lists. Numbers that the tests draw are the same in every run.
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

# stories_on ENGINE,RUNTIME: the end-to-end tests, then the engine client alone, unless some tests were asked for. A folder
# has slashes, which the name of a target must not have.
define stories_on
@code=0; stories=$(call test_program,stories); client=$(call test_program,it); \
$(AS_ROOT) "$$stories" --engine "$(1)" $(if $(2),--runtime $(BUILT)) --jobs $(JOBS) $(STORY) || code=1; \
[ -n "$(STORY)" ] || DOCKBRIDGE_WORLD_WANTED=1 $(AS_ROOT) tests/env/world.sh --engine "$(1)" -- "$$client" engine::real || code=1; \
exit $$code
endef

test-on-%: toolchain
	$(call stories_on,$(*:-runtime=),$(filter %-runtime,$*))

.PHONY: test-vm
test-vm: toolchain ## End-to-end tests in an emulated machine: systemd, cgroup v2, AppArmor, swap (ENGINE=…, STORY=…, DRIVER=…, LSM=…, RUNTIME=1)
	stories=$(call test_program,stories); \
	$(AS_ROOT) tests/env/vm.sh --engine $(ENGINE) --driver $(DRIVER) --lsm $(LSM) $(if $(RUNTIME),--runtime $(BUILT)) --carry $(BUILT) --carry "$$stories" -- "$$stories" $(or $(STORY),$(VM_STORIES))

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
	$(AS_ROOT) tests/env/packages.sh $(PACKAGES)/dockbridge-*.tar.gz $(TARGET)/debug/examples/client

.PHONY: bench
bench soak: RUNTIME_PROGRAM = $(TARGET)/release/dockbridge
bench: build-release ## Time pods against the same raw engine calls (ENGINE=…, RUNTIME=1, PEER=unix:///…)
	$(MEASURE) --bench lifecycle --bench logs --no-run
	$(RELEASED) $(WORLD) --engine $(ENGINE) -- $(MEASURE) --offline --bench lifecycle --bench logs
	$(RELEASED) $(MEASURE) --bench forward
	$(CARGO) run --profile measure --example authorities

.PHONY: soak
soak: build-release ## An hour of pods that come and go with all streams open; draws what dockbridge holds (SOAK=60m, ENGINE=…)
	$(MEASURE) --bench soak --no-run
	$(RELEASED) $(WORLD) --engine $(ENGINE) -- $(MEASURE) --offline --bench soak

.PHONY: fuzz
fuzz: toolchain ## Throw bytes at every decoder; prints what was reached and found (FUZZ=names, TIME=600 seconds for each)
	@TIME=$(TIME) tests/env/fuzz.sh run $(FUZZ)

##@ Care

.PHONY: check
check: commits fmt-check lint arm64 deny test ## Everything that has to hold before a change goes in

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
lint: toolchain ## Let clippy look at everything, and rustdoc at the links of the code's documentation
	$(CARGO) clippy --all-targets --all-features -- -D warnings
	$(CARGO) doc --quiet --no-deps --document-private-items --lib

.PHONY: lines
lines: ## Count the shipped lines of src, module by module (COMMIT=…)
	@tests/env/lines.sh $(COMMIT)

.PHONY: sentences
sentences: ## Draw 90 sentences of the documents, messages and comments to check for plain English (COMMIT=…)
	@tests/env/sentences.sh $(COMMIT)

.PHONY: arm64
arm64: toolchain ## Compile for arm64 without linking, if `rustup target add aarch64-unknown-linux-gnu` was run
	@if rustup target list --installed 2>/dev/null | grep -q aarch64-unknown-linux-gnu; then \
	  $(CARGO) check --all-targets --target aarch64-unknown-linux-gnu; \
	else echo "no standard library for arm64 is installed: not compiled for it"; fi

.PHONY: deny
deny: toolchain ## Check the dependencies for advisories, licences, sources and duplicates; needs cargo-deny and network
	@$(CARGO) deny --version >/dev/null 2>&1 || { \
	  echo "cargo-deny is missing, so dependencies cannot be checked: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny check advisories bans licenses sources
