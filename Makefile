# `make help` lists what there is.
GO      ?= go
TOOL     = $(GO) tool -modfile=.tools/go.mod
PROTOS   = symbio/v1/join.proto symbio/v1/peer.proto symbio/v1/trust.proto symbio/v1/gossip.proto symbio/v1/control.proto
TARGETS  = linux/amd64 linux/arm64 darwin/arm64 windows/amd64

SCRIPTS ?= 1000000
N       ?= 200000
SEED    ?= 1
COUNT   ?= 150

.PHONY: help generate module catalog build test system oracle lint bench soak fuzz-shell fuzz-rules mutate demo recording cross release image

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

generate: ## write the Go code of the .proto files
	cd .tools && $(GO) run ./protogen ../proto ../proto $(PROTOS)

module: ## give the module another name, so that others can import it (NAME=example.org/you/symbio)
	cd .tools && $(GO) run ./module "$(NAME)"
	$(MAKE) generate

catalog: ## write the table of models, their windows and prices
	cd .tools && $(GO) run ./modelcatalog > ../internal/agent/llm/catalog/models.tsv.new && mv ../internal/agent/llm/catalog/models.tsv.new ../internal/agent/llm/catalog/models.tsv

build: ## the binary, ./symbio (static, no C compiler)
	CGO_ENABLED=0 $(GO) build -trimpath -o symbio ./cmd/symbio

test: ## first tier: what needs Go alone and no clock, in two minutes
	$(GO) test ./...

system: ## second tier: real processes, LANs of namespaces, kill -9, a browser, tmux, other people's programs (PKG=lan for one)
	@.ci/needs || true
	$(GO) test -tags system -count 1 ./cmd/symbio/systemtest/$(or $(PKG),...)

oracle: ## our clients of models' servers against the providers' own
	cd .oracle && CGO_ENABLED=0 $(GO) test ./...

lint: ## gofmt, vet, staticcheck, and the tests' own module in order
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags system ./cmd/symbio/systemtest/...
	$(TOOL) staticcheck -tags system ./...
	cd .oracle && $(GO) mod tidy -diff

bench: ## every figure, as a ratio to a floor measured in the same run
	$(GO) test -run '^$$' -bench . -benchtime 1s ./...
	SYMBIO_FIGURES=1 $(GO) test -tags system -run 'LAN|TwoNodes|Frozen|AtOnce|Outlive' -parallel 1 -count 1 -v ./cmd/symbio/systemtest/lan ./cmd/symbio/systemtest/work

soak: ## ten minutes of six nodes under load, of which one after another is killed, frozen or cut off (NODES=24 SPAN=3m)
	SYMBIO_SOAK=$(or $(SPAN),10m) SYMBIO_SOAK_NODES=$(or $(NODES),6) $(GO) test -run '^TestNodesUnderLoadAndFaults$$' -count 1 -timeout 1h -v -tags system ./cmd/symbio/systemtest/soak

scale: ## clusters of 12, 24, 40 and 80 real nodes: time to be whole, idle traffic, memory, kill -9 (SIZES=12,24)
	SYMBIO_SCALE=$(or $(SIZES),12,24,40,80) $(GO) test -tags system -run '^TestLargeClusters$$' -count 1 -timeout 60m -v ./cmd/symbio/systemtest/scale

simulate: ## gossip of 12, 50, 200 and 1000 nodes in virtual time: convergence, verdicts, traffic, memory (SIZES=12,50)
	SYMBIO_SIMULATED=$(or $(SIZES),12,50,200,1000) $(GO) test -run '^TestSimulatedClusters$$' -count 1 -timeout 3h -v ./transport/grpcpeer/internal/gossip

fuzz-shell: ## run random bash programs in the look box, and look whether one has an effect (N=200000 SEED=n)
	$(GO) test -tags system -run '^TestScriptsHaveNoEffect$$' -count 1 -timeout 0 -v ./cmd/symbio/systemtest/sandbox/fuzzshell -scripts $(N) -seed $(if $(filter command line environment,$(origin SEED)),$(SEED),$$(date +%s))

fuzz-rules: ## run what the rules allow in the real bash, a million random scripts (SCRIPTS=n)
	SYMBIO_FUZZ_SEED=$${SYMBIO_FUZZ_SEED:-$$(date +%s)} SYMBIO_FUZZ_SCRIPTS=$(SCRIPTS) $(GO) test -run TestBashRunsNothingThatWasNotAllowed -count 1 -timeout 0 -v ./security/permission

mutate: ## change the code at random places, one at a time, and list the changes that no test notices (SEED=n COUNT=n)
	@cd .tools && $(GO) run ./mutate -seed $(SEED) -count $(COUNT)

demo: ## two nodes, one community, a survey of this directory
	$(GO) run ./cmd/symbio demo

recording: ## the picture of the terminal in README.md, of what the demo prints now
	$(GO) run ./cmd/symbio demo 2>&1 | (cd .tools && $(GO) run ./recording) > cmd/symbio/docs/demo.svg.new && mv cmd/symbio/docs/demo.svg.new cmd/symbio/docs/demo.svg

cross: ## check that it builds for every system
	@for t in $(TARGETS); do echo $$t; CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/symbio || exit 1; done

release: ## write dist/: binaries for every system, .deb and .rpm, manual, completions, bills of materials, SHA256SUMS; equal wherever it is run
	@TARGETS="$(TARGETS)" .release/build

image: ## the container image localhost/symbio, of this machine's certificates and the binary alone; without a registry (BUILD=podman)
	@.release/image
