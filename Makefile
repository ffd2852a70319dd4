# Each target says what it does when it runs; `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# JupyterLab runs as root, as in a container, only if it is told so.
JUPYTERLAB = $(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root)
OUT ?= results
# What install.py says where $(PYTHON) is too old: the same command with another Python.
export LAB_COMMAND = make $(strip $(MAKECMDGOALS) $(filter-out PYTHON=%,$(MAKEOVERRIDES)) PYTHON=python3.12)
export TORCH VENV
UNIT_TESTS = $(BIN)/python -m pytest tests --ignore=tests/conformance --ignore=tests/browser -n 2 --dist loadfile --no-loadscope-reorder
export TRT_LAB_ENGINE := $(or $(ENGINE),$(TRT_LAB_ENGINE),auto)

# Every target is a command, not a file.
.PHONY: $(shell sed -n "s/^\([a-z][a-z-]*\):.*/\1/p" $(firstword $(MAKEFILE_LIST)))

help:
	@echo "make jupyter       open the notebooks of labs/ and solutions/ in JupyterLab"
	@echo "make lab           run the whole pipeline on the embedded data, quick settings  → $(OUT)/report.html"
	@echo "make run           the same with full settings"
	@echo "make setup         install into $(VENV) only; the other targets do it by themselves"
	@echo "make release       pack what students get  → dist/trt-lab-student.zip (STRICT=1: refuse outdated outputs)"
	@echo "make grade         collect and grade downloaded/ and submitted/, write feedback  → grades.csv, class.html"
	@echo "                   JOBS=2 submissions at a time, AGAIN=1 all again, SEED=7 the inputs of an earlier run, WAIT=1 for another run,"
	@echo "                   REBUILD=1 only the tables from the records, UNSAFE=1 without a sandbox if none works"
	@echo "make formgrader    open nbgrader's formgrader: submissions, written answers, comments"
	@echo "make solutions     execute the solution notebooks (STEP=02_fp16: only that one; KEEP=1: also replace solutions/)  → $(OUT)/solutions/"
	@echo "make labs          make the students' notebooks from the solutions  → labs/"
	@echo "make step          start a new optional step (NAME=17_padding)  → solutions/17_padding/"
	@echo "make site          build solutions, hand-out and docs as static pages  → $(OUT)/site/index.html"
	@echo "make test          lint, unit tests and the conformance suite"
	@echo "make browser-test  JupyterLab, formgrader and the site in Chromium  → results/browser/*.png"
	@echo "make clean         remove $(OUT)/, build/, dist/ and the leftovers of tests; never your work in labs/"
	@echo "ENGINE=tensorrt|cpu chooses the engine, OUT=folder the results folder, TORCH=cpu|cuda the build of PyTorch"
	@echo "CONTRIBUTING.md lists the other targets: more tests, benchmarks, measured tables"

# What a target needs installed: the lab alone, what grades it, what develops it, what makes the site.
.PHONY: .lab .grade .dev .site
.lab .grade .dev .site:
	@for python in $(PYTHON) $(BIN)/python; do ! $$python -c "" 2>/dev/null || exec $$python install.py $(filter-out lab,$(subst .,,$@)); done; \
	  echo "error: $(PYTHON) cannot be run; name a Python that can: $(LAB_COMMAND)" >&2; exit 1

setup: .grade

jupyter: .lab
	@echo "JupyterLab; end it with Ctrl-C"
	@$(JUPYTERLAB) --LabApp.default_url=/lab/tree/labs/00_start.ipynb

solutions: .grade
	@echo "Executing the solution notebooks$(if $(STEP),: $(STEP), from clean)"
	@$(BIN)/python -m solutions.grading.solve $(if $(STEP),--step $(STEP)) $(if $(KEEP),--keep)

charts: .dev
	@echo "Executing the solution notebooks: which labels of their charts overlap$(if $(STEP),: $(STEP))"
	@$(BIN)/python -m tests.tools.charts $(STEP)

labs: .grade
	@echo "Making the students' notebooks"
	@$(BIN)/python -m solutions.grading.labs write

step: .grade
	@echo "Laying out a step"
	@$(BIN)/python -m solutions.grading.new_step "$(NAME)"

release: .grade
	@echo "Packing what students get"
	@$(BIN)/python -m solutions.grading.labs pack $(if $(STRICT),--strict)

gradescope: .grade
	@echo "Packing Gradescope's autograder of a step"
	@$(BIN)/python -m solutions.grading.gradescope pack $(STEP)

# SAMPLE=12 SEED=7: 12 of each step, drawn from the seed, a third of them right.
submissions: .dev
	@echo "The bank of submissions: none accepted that is wrong, none rejected that is right"
	@$(BIN)/python -m tests.submissions --out $(OUT)/submissions.json $(if $(STEP),--step $(STEP)) \
	  $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(SANDBOX),--sandbox) $(if $(SANDBOX)$(SAMPLE),,--messages labs/messages)

mutants: .dev
	@echo "Mutants of the solutions: a claim is lost for each; rewrites lose none"
	@$(BIN)/python -m tests.mutants $(if $(ALL),--all) $(if $(STEP),--step $(STEP)) --out $(OUT)/mutants.json

CASES ?= 10000
fuzz: .dev
	@echo "Codec, replies, records, plans, notebooks, HTML, archives: $(CASES) cases of each kind"
	@$(BIN)/python -m pytest tests/fuzz --fuzz-cases=$(CASES) --durations=0

# A seed that was decided rightly is not run again.
SEEDS ?= 20
seeds: .dev
	@echo "The quick part of the bank with $(SEEDS) seeds"
	@mkdir -p $(OUT)/seeds
	@for seed in $$(seq $(SEEDS)); do done=$(OUT)/seeds/$$seed.json; test -f $$done || { \
	  echo "Seed $$seed of $(SEEDS)"; \
	  $(BIN)/python -m tests.submissions --quick --seed $$seed --out $$done.part && mv $$done.part $$done; } || exit 1; done

faults: .dev
	@echo "Faults: grading ends with the same grades, or says one line and touches none"
	@$(BIN)/python -m tests.faults --out $(OUT)/faults.json $(if $(ONLY),--only "$(ONLY)")

# ONLY=dask: one part. QUICK=1: the part beside, with eight who hand in little. A part that is done, with the code as it is, is not done again.
class-test: .dev
	@echo "A generated class of 40 graded every way: the same points, and how fast"
	@$(BIN)/python -m tests.whole_class $(foreach name,class$(if $(QUICK),-quick),--out $(OUT)/$(name).json --folder $(OUT)/$(name)) \
	  $(if $(QUICK),--students 9 --short --only beside,$(if $(ONLY),--only $(ONLY)))

grade: .grade
	@echo "Grading submitted/"
	@$(BIN)/python -m solutions.grading $(if $(AGAIN),--again) $(if $(JOBS),--jobs $(JOBS)) $(if $(WAIT),--wait) $(if $(UNSAFE),--unsafe-no-sandbox) $(if $(REBUILD),--rebuild) $(if $(SEED),--seed $(SEED))

formgrader: .grade
	@echo "Formgrader; end it with Ctrl-C"
	@$(JUPYTERLAB) --LabApp.default_url=/formgrader

lab: .lab
	@echo "Running the lab's pipeline, quick settings"
	@$(BIN)/trtlab run --quick --out $(OUT)
	@echo "Report: $(abspath $(OUT))/report.html"

run: .lab
	@$(BIN)/trtlab run --out $(OUT)

test: check conformance

# In the folders' order: xdist would put the files with few, long tests last.
check: .dev
	@echo "Lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/python -m solutions.grading.labs check
	@echo "Unit tests"
	@$(UNIT_TESTS) -m "not slow"

slow-test: .dev
	@echo "The longest unit tests: classes graded, whole runs of the pipeline, a part of the bank, full-size networks, installations"
	@$(UNIT_TESTS) -m slow

conformance: .dev
	@echo "Conformance: one behavioural suite for every engine; on the CPU engine a column for each of TensorRT's APIs"
	@$(BIN)/python -m tests.conformance.columns

browser-test: .dev chromium
	@echo "A real browser: JupyterLab, Validate, formgrader, every page of the site, light and dark"
	@$(BIN)/python -m pytest tests/browser

# Debian's browser; CHROMIUM=path names another.
chromium:
	@test -n "$(CHROMIUM)" || command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 || { echo "Chromium is missing: run  sudo apt-get install chromium fonts-liberation" >&2; exit 1; }; \
	  echo "Installing Chromium from Debian's packages"; \
	  apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null; }

bench: .dev
	@echo "Benchmarks: ratios measured in one run, interleaved; the tables in the documents come from this file"
	@$(BIN)/python -m tests.benchmarks --out docs/results/bench.json

offline: .dev
	@echo "ResNet-50, batches by streams, with and without CUDA graphs; the tables of docs/throughput.md come from this"
	@$(BIN)/python -m tests.benchmarks.bench_offline

explicit: .dev
	@echo "ResNet-50 in INT8, implicit, explicit and naive; the tables of docs/explicit-quantisation.md come from this"
	@$(BIN)/python -m tests.benchmarks.bench_explicit

models: .dev
	@echo "A dozen models of many kinds through every stage; the table of docs/models.md comes from this"
	@$(BIN)/python -m tests.tools.model_table >/dev/null
	@echo "Models that packages of the index carry; the table of docs/real-models.md comes from this"
	@$(BIN)/python -m tests.others.real_models --folder $(OUT)/real_models --page docs/real-models.md $(if $(ONLY),--only $(ONLY))

onnx-tests: .dev
	@echo "onnx's own tests of operators on the CPU engine, each in a process of its own"
	@$(BIN)/python -W ignore -m tests.others.onnx_nodes --page docs/onnx-operators.md $(if $(ONLY),--only $(ONLY))

polygraphy: .dev
	@echo "NVIDIA's Polygraphy, two releases as they are on the package index, on the CPU engine"
	@$(BIN)/python -m tests.others.polygraphy --page docs/polygraphy.md

# ONLY=files: one group of attacks, or one attack. QUICK=1: the first of each group. It needs a machine on which user namespaces can be made.
hostile: .dev
	@echo "Attacks on the grader: with the guard off, and with all guards on in both sandboxes"
	@$(BIN)/python -m tests.hostile --out $(OUT)/hostile.json $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

wheels: .dev
	@echo "The pinned versions, for each Python and platform"
	@$(BIN)/python -m tests.tools.pins

constraints: .dev
	@echo "Resolving constraints.txt; what is pinned stays where it still can be had"
	@$(BIN)/python -m tests.tools.pins --resolve

colab: .dev
	@echo "Steps 1 and 2 with Colab's versions of the packages, from an empty folder"
	@$(BIN)/python -m tests.tools.colab

# VERSIONS="3.12 3.13" tries only these.
pythons: .dev
	@echo "The lab under each Python on this machine"
	@$(BIN)/python -m tests.tools.pythons $(VERSIONS)

# PYTHON_GPU may name a Python that has torch, tensorrt and pycuda or cuda-python already; else .venv gets the [gpu] extra.
PYTHON_GPU ?= $(BIN)/python
gpu-test conformance-cuda: export TRT_LAB_ENGINE = tensorrt
gpu-test:
	@echo "Real TensorRT: conformance suite, pipeline, fidelity"
	@test "$(PYTHON_GPU)" != "$(BIN)/python" || $(PYTHON) install.py dev gpu
	$(PYTHON_GPU) -m pytest tests/conformance --record $(OUT)/conformance-tensorrt.json
	$(PYTHON_GPU) -m pytest tests/gpu -s
	$(PYTHON_GPU) -m trtlab run --quick --out $(OUT)

# Needs a Python that has tensorrt, pycuda and cuda-python: PYTHON_GPU.
conformance-cuda:
	@echo "Memory and stream cases through pycuda and through cuda-python → docs/results/h200/cuda.json"
	@$(PYTHON_GPU) -m tests.conformance --out docs/results/h200/cuda.json

# NVIDIA's wheels of TensorRT-RTX, in an environment of their own; installed once, again when their versions change.
RTX = .venv-rtx
$(RTX)/.installed: tests/tools/rtx.txt | .dev
	@echo "Setting up $(RTX)"
	@test -x $(RTX)/bin/pip || $(BIN)/python -m venv $(RTX)
	@$(RTX)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/tools/rtx.txt
	@touch $@

rtx: $(RTX)/.installed
	@echo "Models with Q/DQ and casts, parsed and built by TensorRT-RTX"
	@$(BIN)/python -m tests.tools.rtx --python $(RTX)/bin/python --out $(OUT)/rtx.json

site: .site
	@echo "Building the site: solutions as they were executed, hand-out, docs"
	@$(BIN)/python -m website --out $(OUT)/site

clean:
	rm -rf $(OUT) build dist trtcpu.egg-info .pytest_cache .ruff_cache
