# Needs make and a Python >= 3.10 with venv; everything else goes into .venv.
# Another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
FRAMEWORKS := .venv/.frameworks
DOCS := .venv/.docs
FUZZ := .venv/.fuzz
# Tests wait twice as long as they compute: three processes for each of two cores (make test WORKERS=12).
WORKERS ?= 6
# Examples of Hypothesis that no run has had; other targets draw the same ones each time.
FRESH := --hypothesis-profile=fresh
# Of the long tests: make test-long CASES=first
CASES ?= all
BENCHMARKS := $(filter-out benchmarks/gpu.py benchmarks/plan_predictions.py,$(wildcard benchmarks/*.py))
DIGITS := examples/digits

# Of one target, or of each after the other: make fuzz TARGETS=yaml_document SECONDS=60
TARGETS ?= yaml_document wire_frame control_message event_line job_document partition_file checkpoint_manifest \
  endpoint_http
SECONDS ?= 300

# A worker of pytest writes down what it has compiled, for the next run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test bare test-long test-full lowest frameworks smoke containers-smoke coverage matrix soak fuzz check docs mutants size same bench gpu
.DEFAULT_GOAL := help

help:
	@echo "make demo       train on handwritten digits, with 2 data hosts and 2 train hosts, on this machine"
	@echo "make test       run the tests (minutes)"
	@echo "make bare       run demo and test in a clone with nothing but Python, make and git; by root as nobody too"
	@echo "make test-long  run the longer tests: whole examples, notebooks, installations"
	@echo "                CASES=first: the first case of each; CASES=few: the first of each file"
	@echo "make test-full  run all tests, the slow and the destructive ones too"
	@echo "                LIB=awscli: the tests of one library (pyproject.toml has the list) in its own environment"
	@echo "make lowest     run the tests with the lowest versions of what Launcher needs"
	@echo "make frameworks run the tests with Lightning, Accelerate and Hugging Face's Trainer (installs them)"
	@echo "make smoke      run jobs of TensorFlow, JAX and Ray (installs them into .venv-smoke)"
	@echo "make containers-smoke  run one job in containers (installs Podman, as root)"
	@echo "make coverage   run the tests and report the lines and branches that they reach, by room"
	@echo "make matrix     ruff, mypy and the tests on each Python 3.10 to 3.13 that this machine has"
	@echo "make soak       a job and an endpoint under load for 20 minutes: nothing of their processes grows"
	@echo "make fuzz       search for inputs that break a reader of bytes from outside: 5 minutes each"
	@echo "                TARGETS=yaml_document SECONDS=60: this one, for a minute"
	@echo "make check      formatting, lint, types, import layers"
	@echo "make docs       build the documentation site into site/; a broken link is an error"
	@echo "make mutants    the mutation score of ten parts (hours of one CPU)"
	@echo "                PARTS=\"rules jobs\": these parts; SAMPLE=40: so many mutants of each"
	@echo "make size       lines, files, functions and names shown to users, by room"
	@echo "make same OLD=commit  what that commit's tree makes otherwise of the same inputs (nothing: no difference)"
	@echo "                PARTS=bad,requests,diagnosis: a minute of the five parts; ROWS=regex: these inputs alone"
	@echo "make bench      run the benchmarks"
	@echo "make gpu        measure what is claimed on NVIDIA GPUs; PYTHON has torch >= 2.8, nothing is installed"
	@echo "                ROWS=overhead,copies: these rows alone"

demo: $(READY)
	$(BIN)/python $(DIGITS)/prepare.py
	$(BIN)/launcher run $(DIGITS)/job.yaml --local

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

bare:
	PYTHON=$(PYTHON) WORKERS=$(WORKERS) TESTS="$(TESTS)" tests/bare.sh

test-long: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not slow" --cases $(CASES) $(TESTS)

# With LIB=name: that library's tests alone, in an environment of their own.
test-full: $(READY)
ifdef LIB
	$(BIN)/python tests/library_run.py $(LIB)
else
	@failed=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone" $(FRESH) || failed=1; \
	$(BIN)/python -m pytest -m alone $(FRESH) || failed=1; exit $$failed
endif

# The packages of .venv, but for those that pyproject.toml bounds below: boto3, click, rich, ...
lowest: $(READY)
	$(BIN)/python tests/lowest_versions.py -n $(WORKERS) --dist worksteal $(TESTS)

frameworks: $(FRAMEWORKS)
	$(BIN)/python -m pytest -n 2 tests/frameworks

smoke: $(READY)
	$(BIN)/python tests/library_run.py smoke -n 2 --durations=0

containers-smoke: $(READY)
	$(BIN)/python tests/library_run.py containers-smoke --durations=0

coverage: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report= $(TESTS)
	$(BIN)/python tests/coverage_by_room.py

# PYTHONS="3.10 3.13" takes some; TESTS="tests/spec" takes some tests.
matrix:
	tests/matrix.sh

soak: $(READY)
	$(BIN)/python tests/soak.py

# libFuzzer ends a target with its report; what was found is in fuzz-findings/.
fuzz: $(FUZZ)
	@mkdir -p fuzz-findings
	@for target in $(TARGETS); do echo "== $$target"; \
	  $(BIN)/python tests/fuzz/run_fuzzer.py $$target --seconds $(SECONDS) || exit 1; done

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The variable silences a notice about a later release of mkdocs, which is not installed.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site/index.html is the first page; $(BIN)/python -m mkdocs serve shows it while you write."

mutants: $(READY)
	$(BIN)/python tests/mutation_score.py $(PARTS) $(if $(SAMPLE),--sample $(SAMPLE))

size: $(READY)
	@$(BIN)/python tests/size.py $(if $(JSON),--json) $(if $(LIST),--list)

same: $(READY)
	@$(BIN)/python tests/same.py $(OLD) $(if $(PARTS),--parts $(PARTS)) $(if $(ROWS),--rows "$(ROWS)")

bench: $(READY)
	@missed=0; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script || missed=1; done; exit $$missed

# The environment is set up once, and again when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
	  { echo "There is no '$(PYTHON)' here. Install Python 3.10 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Python 3.10 or newer is needed, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' has no venv (Debian and Ubuntu pack it apart): sudo apt-get install python3-venv, then run make again." >&2; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) -V 2>&1): once, a few minutes (PyTorch is large)." >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -c constraints.txt -e '.[torch,examples,test,dev]'
	@touch $(READY)

# Apart from the rest, because they are 200 MB that a user of `make demo` does not need.
$(FRAMEWORKS): $(READY)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -c constraints.txt -e '.[torch,examples,frameworks,test,dev]'
	@touch $(FRAMEWORKS)

$(DOCS): $(READY)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -c constraints.txt -e '.[torch,examples,docs,test,dev]'
	@touch $(DOCS)

$(FUZZ): $(READY)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check \
	  -c constraints.txt -e '.[torch,examples,test,dev,fuzz]'
	@touch $(FUZZ)

gpu:
	$(PYTHON) benchmarks/gpu.py $(if $(ROWS),--rows $(ROWS))
