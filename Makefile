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
GO_SRC := $(shell find dlpack cai memview stream device pathfinder launch python internal examples bench \
	-name '*.go' -o -name '*.c' -o -name '*.h' -o -name 'go.mod' 2>/dev/null)
PY_SRC := $(shell find python -name '*.py' -not -path '*/build/*' -o -name '*.pyi' -o -name 'pyproject.toml' 2>/dev/null)
TOOL_NAMES := staticcheck gofumpt govulncheck benchstat

.PHONY: help demo test check check-rest bench fuzz soak wheel gpu-bundle generate fmt tools venv clean

help:
	@echo 'make demo        arrays of several Python libraries, changed in place by Go, and back'
	@echo 'make test        go vet, all Go tests, all Python tests'
	@echo 'make check       make test, linters, cross builds, race detector, sanitizers'
	@echo 'make bench       the benchmark table, ours and the peers; writes build/bench.json'
	@echo 'make fuzz        every fuzz target for FUZZTIME ($(FUZZTIME))'
	@echo 'make soak        exchanges of all kinds for SOAK ($(SOAK)); fails on a leak'
	@echo 'make wheel       the wheel of the Python package, into dist/'
	@echo 'make gpu-bundle  build/gpu/, to be run on a machine with a GPU (run.sh in it)'
	@echo 'make fmt         format Go and Python'
	@echo 'make generate    run the generators'

# --- what the targets need -------------------------------------------------

$(VENV)/.base: requirements.txt scripts/venv
	@echo 'handoff: setting up $(VENV) (numpy, jax, pyarrow, tvm-ffi, ...)'
	@scripts/venv '$(PYTHON)' $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements-dev.txt
	@scripts/venv '$(PYTHON)' $(VENV) requirements.txt requirements-dev.txt
	@touch $@

# Our own package, from the working tree. setuptools is in the environment, so
# nothing is fetched.
$(VENV)/.handoff: $(VENV)/.base $(GO_SRC) $(PY_SRC)
	@echo 'handoff: pip install ./python'
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./python
	@touch $@

venv: $(VENV)/.handoff

$(BUILD)/handoff: $(GO_SRC) $(shell find cmd -type f 2>/dev/null)
	$(GO) build -C cmd -o ../$@ ./handoff

$(BUILD)/tools/.stamp: tools/go.mod tools/go.sum
	@mkdir -p $(BUILD)/tools
	$(GO) build -C tools -o ../$(BUILD)/tools/ tool
	@touch $@

tools: $(BUILD)/tools/.stamp

# --- the verbs --------------------------------------------------------------

test: $(VENV)/.handoff $(BUILD)/handoff $(EXT)/.stamp
	@$(PY) scripts/suites.py test

check: test check-rest

check-rest: $(VENV)/.dev $(VENV)/.handoff $(BUILD)/tools/.stamp $(BUILD)/handoff $(EXT)/.stamp
	@$(PY) scripts/suites.py check

fuzz:
	@scripts/fuzz $(FUZZTIME)

wheel: $(VENV)/.base
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist ./python
	@ls -l dist

generate:
	$(GO) generate ./...

fmt: $(BUILD)/tools/.stamp $(VENV)/.dev
	$(BUILD)/tools/gofumpt -w $$(git ls-files '*.go')
	$(PY) -m ruff format .

clean:
	rm -rf $(BUILD) dist
