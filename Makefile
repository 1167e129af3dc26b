# Handoff: the verbs of the project. `make help` lists them.
# Needs Go, a C compiler, make and Python 3.11+; `make bench` also a C++ compiler.

PYTHON ?= python3
GO ?= go
FUZZTIME ?= 60s
SOAK ?= 60s

export GO

VENV := .venv
PY := $(VENV)/bin/python
BUILD := build
EXT := $(BUILD)/ext

# What the installed package and the example extensions are built from.
GO_SRC := $(shell find dlpack cai memview stream device pathfinder launch python internal \
	-name '*.go' -not -name '*_test.go' -o -name '*.[ch]' -o -name '*.map' -o -name 'go.mod' 2>/dev/null)
CMD_SRC := $(shell find cmd conformance -type f -not -name '*_test.go' -not -name '*.pyc' 2>/dev/null)
EXT_SRC := $(shell find examples bench -name '*.go' -not -name '*_test.go' -o -name '*.[ch]' -o -name 'go.mod' 2>/dev/null)
PY_SRC := $(shell find python -name '*.py' -not -path '*/build/*' -o -name '*.pyi' -o -name 'pyproject.toml' 2>/dev/null)
TOOL_NAMES := staticcheck gofumpt govulncheck benchstat

.PHONY: help demo test check check-rest bench fuzz soak wheel gpu-bundle generate fmt tools venv clean

help:
	@echo 'make demo        arrays of several Python libraries, changed in place by Go, and back'
	@echo 'make test        go vet, all Go tests, all Python tests'
	@echo 'make check       make test, linters, cross builds, race detector, sanitizers'
	@echo 'make bench       the benchmark table, ours and the peers; writes build/bench.json'
	@echo 'make fuzz        every fuzz target for FUZZTIME ($(FUZZTIME))'
	@echo 'make soak        exchanges of all kinds with faults for SOAK ($(SOAK)); fails on a wrong value or a leak'
	@echo 'make wheel       the wheel of the Python package, into dist/'
	@echo 'make gpu-bundle  build/gpu/, to be run on a machine with a GPU (run.sh in it)'
	@echo 'make fmt         format Go and Python'
	@echo 'make generate    run the generators'

# --- what the targets need -------------------------------------------------

$(VENV)/.base: requirements.txt scripts/venv
	@echo 'handoff: setting up $(VENV) (numpy, jax, pyarrow, tvm-ffi, ...)'
	@scripts/venv '$(PYTHON)' $(VENV) requirements.txt
	@touch $@

$(VENV)/.test: $(VENV)/.base requirements-test.txt
	@echo 'handoff: installing what the tests need'
	@scripts/venv '$(PYTHON)' $(VENV) requirements.txt requirements-test.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.test requirements-dev.txt
	@scripts/venv '$(PYTHON)' $(VENV) requirements.txt requirements-test.txt requirements-dev.txt
	@touch $@

# Our own package, from the working tree. setuptools is in the environment, so
# nothing is fetched.
$(VENV)/.handoff: $(VENV)/.base $(GO_SRC) $(PY_SRC)
	@echo 'handoff: pip install ./python'
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./python
	@touch $@

venv: $(VENV)/.handoff

$(BUILD)/handoff: $(GO_SRC) $(CMD_SRC)
	$(GO) build -C cmd -o ../$@ ./handoff

$(BUILD)/tools/.stamp: tools/go.mod tools/go.sum
	@mkdir -p $(BUILD)/tools
	$(GO) build -C tools -o ../$(BUILD)/tools/ tool
	@touch $@

tools: $(BUILD)/tools/.stamp

# The example modules and the one that is measured: Go packages built as shared
# objects. Each stands alone, so Python loads one of them in a process.
define extension
	$(GO) build -C $(1) -buildmode=c-shared -o $(CURDIR)/$(EXT)/$(2).so .
	@rm -f $(EXT)/$(2).h
	@touch $(EXT)/$(2).so
endef

$(EXT)/godemo.so: $(GO_SRC) $(EXT_SRC)
	$(call extension,examples/demo,godemo)

$(EXT)/gobench.so: $(GO_SRC) $(EXT_SRC)
	$(call extension,bench/gobench,gobench)

$(EXT)/.stamp: $(EXT)/godemo.so $(EXT)/gobench.so $(GO_SRC) $(EXT_SRC)
	$(call extension,examples/quickstart,gomath)
	$(call extension,examples/loader,goloader)
	$(call extension,examples/images,goimages)
	$(call extension,examples/arrow,goarrow)
	$(call extension,examples/torch_saxpy,gosaxpy)
	@touch $@

$(BUILD)/peers/.stamp: $(VENV)/.dev $(wildcard bench/peers/*)
	$(PY) bench/peers/build.py $(BUILD)/peers
	@touch $@

$(BUILD)/bench/dlpack.test: $(GO_SRC)
	$(GO) test -c -o $@ ./dlpack

# --- the verbs --------------------------------------------------------------

demo: $(VENV)/.handoff $(EXT)/godemo.so
	@$(PY) examples/demo/demo.py

test: $(VENV)/.test $(VENV)/.handoff $(BUILD)/handoff $(EXT)/.stamp
	@$(PY) scripts/suites.py test

check: test check-rest

check-rest: $(VENV)/.dev $(VENV)/.handoff $(BUILD)/tools/.stamp $(BUILD)/handoff $(EXT)/.stamp
	@$(PY) scripts/suites.py check

bench: $(VENV)/.dev $(VENV)/.handoff $(EXT)/gobench.so $(BUILD)/peers/.stamp $(BUILD)/bench/dlpack.test
	@$(PY) bench/bench.py --out $(BUILD)/bench.json

soak: $(VENV)/.handoff $(EXT)/gobench.so
	@$(PY) bench/soak.py $(SOAK)

gpu-bundle: $(VENV)/.dev $(EXT)/.stamp $(BUILD)/peers/.stamp
	@scripts/gpu-bundle

fuzz:
	@scripts/fuzz $(FUZZTIME)

wheel: $(VENV)/.base
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist ./python
	@ls -l dist

generate: $(VENV)/.test
	PATH='$(CURDIR)/$(VENV)/bin':"$$PATH" $(GO) generate ./...
	$(PY) scripts/readme.py

fmt: $(BUILD)/tools/.stamp $(VENV)/.dev
	$(BUILD)/tools/gofumpt -w $$(git ls-files '*.go')
	$(PY) -m ruff format .

clean:
	rm -rf $(BUILD) dist
