# On a machine with only Go, git and make: `make run`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# nomsgpack omits Gin's codec for a format that the API does not use. Static
# binaries run on any Linux of the fleet.
TAGS    := nomsgpack
VERSION := $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/gpuaas/gpuaas/internal/version.Version=$(VERSION)
GO      := CGO_ENABLED=0 go

# Without the path of the checkout in it, the build cache of one work tree serves all others.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# The linter has its own module, so that its dependencies are not ours.
LINT_VERSION := $(shell sed -n 's,^.*golangci/golangci-lint/v2 v\([0-9.]*\).*,\1,p' tools/golangci/go.mod)
LINT         := bin/golangci-lint-$(LINT_VERSION)

# So has the search for unreachable functions.
DEADCODE := bin/deadcode-$(shell sed -n 's,^.*golang.org/x/tools v\([0-9.]*\).*,\1,p' tools/deadcode/go.mod)

# The search for published vulnerabilities of the modules in a binary.
GOVULNCHECK := bin/govulncheck-$(shell sed -n 's,^.*golang.org/x/vuln v\([0-9.]*\).*,\1,p' tools/govulncheck/go.mod)

# Real certificate authorities for tests of the drivers, each in its own module. They are
# never linked or shipped; building one takes minutes, once.
VAULT   := bin/vault-$(shell sed -n 's,^.*github.com/hashicorp/vault v\([0-9.]*\) .*,\1,p' tools/vault/go.mod)
STEP_CA := bin/step-ca-$(shell sed -n 's,^.*smallstep/certificates v\([0-9.]*\) .*,\1,p' tools/stepca/go.mod)

# A real S3 server for tests of the object store, in its own module. Tests build it where it is missing.
VERSITYGW := bin/versitygw-$(shell sed -n 's,^.*versity/versitygw v\([0-9.]*\).*,\1,p' tools/versitygw/go.mod)

# An S3 tool for tests of the S3 endpoint, in its own module. The others are packages.
S5CMD := bin/s5cmd-$(shell sed -n 's,^.*peak/s5cmd/v2 v\([0-9.]*\).*,\1,p' tools/s5cmd/go.mod)

# promtool and the parser of PromQL for tests of alerts and dashboards, in a module of their own.
PROMTOOL := bin/promtool-$(shell sed -n 's,^require github.com/prometheus/prometheus v\([0-9.]*\).*,\1,p' tools/promtool/go.mod)
PROMQL   := $(subst promtool,promql,$(PROMTOOL))

# A real identity provider for tests of the sign-in, from its distribution.
KEYCLOAK_VERSION := 26.5.6
KEYCLOAK         := bin/keycloak-$(KEYCLOAK_VERSION)

export BENCH_ONLY BENCH_OUT BENCH_PROFILE

.PHONY: help run build portal screenshots gen verify check test test-race fuzz test-real test-vault test-step-ca test-keycloak test-s3 test-edge test-prometheus e2e e2e-host soak bench release vulncheck reset

help: ## Print the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## Install missing packages, build, and start an installation on the local machine
	@scripts/install-deps.sh
	@$(MAKE) --no-print-directory build
	exec bin/gpuaas up

build: ## Build bin/gpuaas and bin/gpuaas-agent
	$(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/gpuaas ./cmd/gpuaas-agent

portal: ## Build the portal into web/dist (needs Node 20.19 or newer)
	@scripts/portal.sh build

screenshots: ## Write the images of the portal in docs/images
	@scripts/install-deps.sh --browser
	@mkdir -p docs/images
	@SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -count=1 -tags 'e2e $(TAGS)' -run TestScreenshots ./e2e

gen: ## Generate all generated files
	$(GO) generate -tags $(TAGS) ./desired/validate # it writes a part of the contract, which api/oapi reads
	$(GO) generate -tags $(TAGS) ./...
	$(GO) run ./scripts/vendorhash

verify: ## Fail if a generated file is out of date
	@scripts/ci/codegen_current.sh
	@scripts/portal.sh compare

# The linter contains go vet.
check: $(LINT) $(DEADCODE) ## Check format, lint, architecture, words and contracts
	@scripts/ci/format_guard.sh
	@scripts/ci/codegen_current.sh
	$(LINT) run ./...
	scripts/ci/arch_guard.sh
	scripts/ci/language_guard.sh
	scripts/ci/deadcode_guard.sh $(DEADCODE)
	scripts/ci/contracts_validate.sh
	scripts/ci/contracts_breaking_change.sh
	scripts/ci/canonical_error_guard.sh
	scripts/ci/audit_mandatory_guard.sh
	scripts/ci/observability_trace_gate.sh
	scripts/ci/matrix_guard.sh
	scripts/ci/cue_vet.sh
	scripts/ci/sdk_codegen_smoke.sh
	scripts/ci/portal_guard.sh

test: bin/testline ## Run all tests, against a real PostgreSQL
	@scripts/install-deps.sh
	@bin/testline -tags $(TAGS) ./...
	@scripts/portal.sh test

test-race: bin/testline ## Run all tests under the race detector (needs a C compiler)
	@scripts/install-deps.sh
	@CGO_ENABLED=1 bin/testline -race -timeout 40m -tags $(TAGS) ./...

FUZZTIME ?= 10m

fuzz: ## Run every fuzz target: FUZZTIME=1m
	@FUZZTIME=$(FUZZTIME) CGO_ENABLED=0 scripts/fuzz.sh

test-vault: $(VAULT) ## Test the Vault drivers with a real Vault
	GPUAAS_TEST_VAULT=$(CURDIR)/$(VAULT) $(GO) test -count=1 -tags $(TAGS) ./platform/secret/vault

test-step-ca: $(STEP_CA) ## Test the step-ca driver with a real step-ca
	GPUAAS_TEST_STEP_CA=$(CURDIR)/$(STEP_CA) $(GO) test -count=1 -tags $(TAGS) ./platform/secret/stepca

test-keycloak: $(KEYCLOAK) ## Test the sign-in with a real Keycloak (needs Java and Maven)
	GPUAAS_TEST_KEYCLOAK=$(CURDIR)/$(KEYCLOAK) $(GO) test -count=1 -tags $(TAGS) -run RealKeycloak ./platform/identity/oidc

test-s3: $(VERSITYGW) ## Test the S3 driver of the object store with a real S3 server
	GPUAAS_TEST_S3=$(CURDIR)/$(VERSITYGW) $(GO) test -count=1 -tags $(TAGS) ./product/storage/blob/s3 ./product/storage/blob/open

test-s3-clients: $(S5CMD) ## Test the S3 endpoint with aws-cli, boto3, rclone and s5cmd
	@scripts/install-deps.sh --storage
	GPUAAS_TEST_S5CMD=$(CURDIR)/$(S5CMD) GPUAAS_TEST_S3_CLIENTS=$(CURDIR)/bin/s3-clients $(GO) test -count=1 -tags $(TAGS) -run RealClients ./api/s3

test-prometheus: $(PROMTOOL) $(PROMQL) ## Test alerts, objectives and dashboards with promtool and the parser of PromQL
	GPUAAS_TEST_PROMTOOL=$(CURDIR)/$(PROMTOOL) $(GO) test -count=1 -tags $(TAGS) ./deploy/observability
	GPUAAS_TEST_PROMQL=$(CURDIR)/$(PROMQL) $(GO) test -count=1 -tags $(TAGS) -run MetricsReference ./server

test-real: ## Test with the real counterparts, and print which were reached
	@MAKE='$(MAKE)' scripts/test-real.sh

test-edge: ## Test the files of deploy/edge with nginx and Caddy
	@scripts/install-deps.sh --edge
	$(GO) test -tags $(TAGS) -count=1 -run TestEdges ./deploy

# A test that fails is run once more by itself, after its list: FLAKY names one that passes then.
# Most of these tests wait for processes, so more of them run than there are cores. The packages begin in this sequence, two
# at a time: the longest first, so that none runs alone at the end. Booted nodes run alone, because their tests limit the
# delay of a neighbour.
E2E := bin/testline -ends -again
E2E_FLAGS := -count=1 -timeout 20m -p 2 -parallel 4 -tags 'e2e $(TAGS)'

# `go run` does not wait for its program after SIGTERM, so that make and its caller would miss the counts.
.PHONY: bin/testline
bin/testline:
	@$(GO) build -o $@ ./scripts/testline

e2e: bin/testline ## Run the end-to-end tests against the built binaries
	@scripts/install-deps.sh --browser --rig --observability
	@$(E2E) -count=1 -tags 'failpoint $(TAGS)' -run Kill ./jobs ./agent ./gitops/sync ./platform/identity/reseal ./product/storage ./platform/event/consume -- \
		$(E2E_FLAGS) ./e2e ./e2e/matrix ./e2e/bench $(patsubst %,./%...,$(filter-out e2e/host/ e2e/testdata/,$(wildcard e2e/*/))) -- $(E2E_FLAGS) ./e2e/host/...

e2e-host: bin/testline ## Run only the tests on booted Debian systems (needs root; skips if none can boot)
	@scripts/install-deps.sh --rig
	@$(E2E) -count=1 -timeout 20m -tags 'e2e $(TAGS)' ./e2e/rig ./e2e/host

HOURS ?= 1
soak: ## Run the load of a simulated day in HOURS hours; fails if a table without a retention grows
	@scripts/install-deps.sh
	SOAK_HOURS=$(HOURS) $(GO) test -count=1 -timeout 0 -v -tags 'e2e soak $(TAGS)' -run TestSoak ./e2e

bench: ## Run the benchmarks: BENCH_ONLY=A1,R2 BENCH_OUT=file.json
	@scripts/install-deps.sh --browser
	$(GO) run -tags $(TAGS) ./e2e/bench

# Two builds of one commit by one compiler give equal archives.
release: ## Build and sign a version: VERSION=v1.2.3 KEY=release.pem BUILDER=text [OUT=dist/v1.2.3]
	$(GO) run -tags $(TAGS) ./scripts/release -version '$(VERSION)' -key '$(KEY)' -builder '$(BUILDER)' -out '$(or $(OUT),dist/$(VERSION))'

vulncheck: ## Search for published vulnerabilities, if their database can be reached
	@scripts/vulncheck.sh $(GOVULNCHECK)

reset: ## Delete the development data in .gpuaas
	@scripts/reset.sh

$(LINT): tools/golangci/go.mod tools/golangci/go.sum
	@echo "building golangci-lint $(LINT_VERSION), once (about a minute)"
	@mkdir -p bin
	@cd tools/golangci && $(GO) build -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(DEADCODE): tools/deadcode/go.mod tools/deadcode/go.sum
	@mkdir -p bin
	@cd tools/deadcode && $(GO) build -o ../../$(DEADCODE) golang.org/x/tools/cmd/deadcode

$(GOVULNCHECK): tools/govulncheck/go.mod tools/govulncheck/go.sum
	@mkdir -p bin
	@cd tools/govulncheck && $(GO) build -o ../../$@ golang.org/x/vuln/cmd/govulncheck

$(VAULT): tools/vault/go.mod tools/vault/go.sum
	@echo "building $@, once (many minutes)"
	@mkdir -p bin
	@cd tools/vault && $(GO) build -tags minimal -o ../../$@ github.com/hashicorp/vault

$(STEP_CA): tools/stepca/go.mod tools/stepca/go.sum
	@echo "building $@, once (minutes)"
	@mkdir -p bin
	@cd tools/stepca && $(GO) build -o ../../$@ github.com/smallstep/certificates/cmd/step-ca

$(VERSITYGW): tools/versitygw/go.mod tools/versitygw/go.sum
	@echo "building $@, once (about a minute)"
	@mkdir -p bin
	@cd tools/versitygw && $(GO) build -o ../../$@ github.com/versity/versitygw/cmd/versitygw

$(S5CMD): tools/s5cmd/go.mod tools/s5cmd/go.sum
	@echo "building $@, once"
	@mkdir -p bin
	@cd tools/s5cmd && $(GO) build -o ../../$@ github.com/peak/s5cmd/v2

$(PROMTOOL): tools/promtool/go.mod tools/promtool/go.sum
	@echo "building $@, once (about two minutes)"
	@mkdir -p bin
	@cd tools/promtool && $(GO) build -tags remove_all_sd -o ../../$@ github.com/prometheus/prometheus/cmd/promtool

$(PROMQL): tools/promtool/go.mod tools/promtool/go.sum tools/promtool/main.go
	@mkdir -p bin
	@cd tools/promtool && $(GO) build -o ../../$@ .

$(KEYCLOAK):
	@scripts/keycloak.sh $(KEYCLOAK_VERSION)
