# Every target sets up what it needs: a fresh machine with Python 3.11, 3.12 or 3.13, make and git
# needs only `make run-local`. PYTHON= chooses the interpreter; the default is the one that .venv
# has, or else the newest that works.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
PYTHONS := $(if $(PYTHON),'$(PYTHON)',$(BIN)/python python3.13 python3.12 python3.11)
# Of what a run needs, of what tests and checks need besides, and of the benchmarks' rivals.
READY := $(VENV)/.ready
TOOLS := $(VENV)/.ready-dev
RIVALS := $(VENV)/.ready-bench
ALONE := build/vertex-local
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps
WORKLOAD ?= mnist
MODEL ?= fast
CLUSTER ?=
IMAGE ?=
BASE ?= debian:bookworm-slim
ACCELERATOR ?= cpu
NOTEBOOKS ?=
PROJECT ?=
LOCATION ?= us-central1
IMAGE_OPTIONS = --accelerator $(ACCELERATOR) $(if $(PROJECT),--project '$(PROJECT)')
TAG ?= latest
LOCK := $(BIN)/uv pip compile setup.py vertex_local/pyproject.toml --extra pipelines --extra tuning --extra buckets --universal --generate-hashes --python-version 3.11 --no-annotate --custom-compile-command "make lock"
# As the service that `trainyard run` starts (pipelines/places/local_service.py): imported in the
# background while the page is served already, 5 s of CPU and 0.5 GB, so that runs start at once.
# TensorFlow reads TF_ENABLE_ONEDNN_OPTS then: before `trainer` can set it.
PRELOAD := kfp.local,kfp.dsl.executor_main tensorflow
# GNU make 3.81 and BSD tools, which macOS has, run every target but `bench`.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL = -n $(WORKERS) --dist worksteal
SHORT := -m 'not long and not docker'
BENCHMARKS := $(filter-out __init__ cifar10_curve,$(basename $(notdir $(wildcard benchmarks/*.py))))

.DEFAULT_GOAL := help
.PHONY: help setup run-local test test-long test-counts test-containers test-portable test-alone test-sdk test-newest soak lint format compile submit upload image push wheels bench train-cifar10 pictures schedule record flows notebooks console lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv from requirements.lock, or mend it (the other targets create it themselves)
	@$(BIN)/pip install --quiet --disable-pip-version-check --dry-run --no-deps --no-index -r requirements.lock 2>/dev/null \
		|| { echo '$(VENV) is not what requirements.lock says: mending it.'; rm -f $(READY) $(TOOLS) $(RIVALS); $(MAKE) --no-print-directory $(READY); }

ifneq ($(and $(PYTHON),$(wildcard $(BIN)/python)),)
ifneq ($(shell '$(PYTHON)' --version 2>&1),$(shell $(BIN)/python --version 2>&1))
.PHONY: $(READY)
endif
endif

$(READY): requirements.lock setup.py vertex_local/pyproject.toml
	@# Each is run, not only looked up: a pyenv shim is on PATH but fails if its version is not active,
	@# and Debian's Python has no ensurepip without the package python3-venv.
	@for python in $(PYTHONS) ''; do \
		"$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && break; \
	done; \
	if [ -z "$$python" ]; then \
		echo 'Trainyard needs Python 3.11, 3.12 or 3.13 with its venv module (Debian: python3-venv): none of' $(PYTHONS) 'is one. Name yours: make PYTHON=/path/to/python3.12'; \
		exit 1; \
	fi; \
	had=$$($(BIN)/python --version 2>/dev/null); has=$$("$$python" --version); \
	if [ -n "$$had" ] && [ "$$had" != "$$has" ]; then \
		echo "$(VENV) has $$had, PYTHON=$(PYTHON) is $$has: making it again."; \
		rm -rf $(VENV); \
	fi; \
	echo "Making $(VENV) with $$has from requirements.lock; this takes a minute or more, once."; \
	"$$python" -m venv $(VENV)
	@# The locks name every package. Without --no-deps an older pip looks for newer ones than they do.
	@$(INSTALL) -r requirements.lock
	@# compat: on sys.path, so that the clone, as an empty folder trainyard in the current one, hides nothing.
	@for folder in vertex_local '. --config-settings editable_mode=compat'; do \
		$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e $$folder || exit 1; \
	done
	@touch $@

$(TOOLS): $(READY) requirements-dev.lock
	@echo 'Adding what tests and checks need.'
	@$(INSTALL) -r requirements-dev.lock
	@touch $@

# Apart, where only the benchmarks look: Keras imports all of scikit-learn and matplotlib that it finds.
$(RIVALS): $(TOOLS) requirements-bench.lock
	@echo 'Adding what benchmarks compare with.'
	@$(INSTALL) --upgrade --target $(VENV)/bench -r requirements-bench.lock
	@touch $@

run-local: $(READY) ## the whole pipeline on this machine (WORKLOAD=mnist, CLUSTER=FILE, ARGS="--no-cache")
	$(BIN)/trainyard run $(WORKLOAD) $(if $(CLUSTER),--cluster $(CLUSTER)) $(ARGS)

test: $(RIVALS) ## run every test but those of test-long (ARGS="-m fast": a minute)
	$(BIN)/pytest $(PARALLEL) $(SHORT) $(ARGS)

test-long: test-counts test-containers test-portable test-alone test-sdk test-newest flows $(if $(NOTEBOOKS),notebooks) soak ## run what counts, soaks, waits for the clock, or needs another environment (hours)

test-counts: $(RIVALS) # the tests that count, soak or wait for the clock
	$(BIN)/pytest $(PARALLEL) -m long -o timeout=3600 $(ARGS)

test-containers: $(RIVALS) # needs `make image`; .ci/engine starts an engine
	$(BIN)/pytest -m docker $(ARGS)

test-portable: $(RIVALS) ## run the tests without the interfaces that only Linux has, as on macOS (ARGS=…)
	TRAINYARD_PORTABLE=1 PYTHONPATH='$(CURDIR)/vertex_local/tests/support/portable' $(BIN)/pytest $(PARALLEL) $(SHORT) -o timeout=600 $(ARGS)

# The service's tests where nothing of Trainyard is installed.
$(ALONE)/.ready: $(TOOLS)
	$(BIN)/python -m venv $(ALONE)
	sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\).*/\1/p' requirements.lock requirements-dev.lock > $(ALONE)/versions
	$(ALONE)/bin/pip install --quiet --disable-pip-version-check --constraint $(ALONE)/versions --editable 'vertex_local[pipelines,tuning,buckets,test]'
	$(ALONE)/bin/python -c 'import importlib.util as u; assert not any(map(u.find_spec, ("tensorflow", "apache_beam")))'
	@touch $@

test-alone: $(ALONE)/.ready # in an environment without Trainyard, TensorFlow and Beam
	$(ALONE)/bin/pytest -q $(PARALLEL) -c vertex_local/pyproject.toml $(SHORT) $(or $(ARGS),vertex_local/tests)

test-sdk: $(ALONE)/.ready # under the next major version of Google's SDK, whose pipelines, jobs and models are the same
	$(BIN)/python -m venv build/sdk
	build/sdk/bin/pip install --quiet --disable-pip-version-check google-cloud-aiplatform==2.7.0 PyYAML
	VERTEX_LOCAL_SDK_PYTHON=build/sdk/bin/python $(ALONE)/bin/pytest -q -c vertex_local/pyproject.toml vertex_local/tests/test_exec.py

NEWEST := kfp google-cloud-pipeline-components google-cloud-aiplatform google-cloud-storage
test-newest: $(TOOLS) # with the newest versions of Google's packages that pip finds for each other
	$(BIN)/python -m venv build/newest
	build/newest/bin/pip install --quiet --disable-pip-version-check --upgrade $(NEWEST)
	build/newest/bin/pip install --quiet --disable-pip-version-check --editable 'vertex_local[tuning,buckets]' \
		numpy pytest pytest-randomly pytest-timeout pytest-xdist
	build/newest/bin/pip list | grep -E '^(kfp|google-cloud-(a|p|s)[a-z-]*) '
	build/newest/bin/pytest -q $(PARALLEL) -c vertex_local/pyproject.toml $(SHORT) $(or $(ARGS),vertex_local/tests)

soak: $(RIVALS) # kills, full disks (as root), damaged files, hostile requests, three weeks: each prints its count
	for name in service_kills random_kills bad_day three_weeks hostile_requests damaged_files interrupted_commands planned_edits $(if $(filter 0,$(shell id -u)),full_disks); do \
		$(BIN)/python -m tools.soak.$$name || exit 1; done

lint: $(TOOLS) ## check format, style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(TOOLS) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

compile: $(READY) ## write a package for each workload to dist/ (IMAGE=…)
	$(BIN)/trainyard compile $(if $(IMAGE),--image $(IMAGE)) $(ARGS)

submit: $(READY) ## start a run (WORKLOAD=mnist, ARGS="--wait" or "--on vertex …")
	$(BIN)/trainyard submit $(WORKLOAD) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(IMAGE),--image $(IMAGE)) $(ARGS)

upload: $(READY) ## put a package into a registry (REPOSITORY=https://…, TAG=latest, IMAGE=…)
	$(BIN)/trainyard upload $(WORKLOAD) $(if $(REPOSITORY),--repository $(REPOSITORY)) --tag $(TAG) $(if $(IMAGE),--image $(IMAGE))

image: $(READY) ## build the image of this source, and of PROJECT=FOLDER on it (ACCELERATOR=gpu, BASE=a Debian image)
	@docker version >/dev/null 2>&1 || { echo 'make image needs a Docker engine that runs and that you may use: install docker.io and start it, or build where one runs (docs/containers.md). Runs on this machine need no image without --containers.'; exit 1; }
	docker build --build-arg BASE=$(BASE) --build-arg ACCELERATOR=$(ACCELERATOR) $(ARGS) \
		--tag $$($(BIN)/trainyard image --accelerator $(ACCELERATOR)) .
	$(if $(PROJECT),$(BIN)/trainyard image --accelerator $(ACCELERATOR) --project '$(PROJECT)' --build)

push: $(READY) ## build the image and push it (REPOSITORY=LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/trainyard)
	@test -n '$(REPOSITORY)' || { echo 'Say where: make push REPOSITORY=LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/trainyard'; exit 2; }
	@$(MAKE) --no-print-directory image
	@image=$$($(BIN)/trainyard image --repository $(REPOSITORY) $(IMAGE_OPTIONS)) \
		&& docker tag $$($(BIN)/trainyard image $(IMAGE_OPTIONS)) $$image \
		&& docker push $$image && echo "For trainyard submit and compile: --image $$image"

wheels: $(READY) ## build the wheels of trainyard-pipelines and vertex-local in dist/, the same bytes each time (ARGS="--url …")
	@$(BIN)/python -m tools.wheels $(ARGS)

schedule: $(READY) ## make schedules equal to configs/schedules (ARGS="--dry-run", "--on vertex …")
	$(BIN)/trainyard schedule apply $(ARGS)

record: $(TOOLS) ## send requests to a real project and keep its answers (PROJECT=P, LOCATION=us-central1); says the cost, asks
	@test -n '$(PROJECT)' || { echo 'Say which project of yours: make record PROJECT=P'; exit 2; }
	$(BIN)/python -m tools.record_requests --project '$(PROJECT)' --location '$(LOCATION)'

flows: $(TOOLS) ## count the calls of Google's SDK that are right here (NOTEBOOKS=a clone of vertex-ai-samples weighs them)
	$(BIN)/python -m tools.flows $(if $(NOTEBOOKS),--samples '$(NOTEBOOKS)')

notebooks: $(TOOLS) ## run twelve of Google's notebooks, unedited (NOTEBOOKS=a clone of vertex-ai-samples, ARGS="--public DIR")
	@test -n '$(NOTEBOOKS)' || { echo 'Say where: make notebooks NOTEBOOKS=/path/to/vertex-ai-samples'; exit 2; }
	@# In an environment of its own: what they install is not for the others.
	@$(BIN)/python -m venv build/notebooks
	VIRTUAL_ENV=build/notebooks $(BIN)/uv pip install --quiet pip --editable './vertex_local[pipelines,tuning,buckets]' \
		--requirement tools/notebooks/requirements.txt
	build/notebooks/bin/python -m tools.notebooks '$(NOTEBOOKS)' $(ARGS)

console: $(READY) ## serve the local Vertex AI and its page until Ctrl-C
	TF_ENABLE_ONEDNN_OPTS=1 $(BIN)/vertex-local serve --root .trainyard/vertex --buckets .trainyard/buckets $(addprefix --preload=,$(PRELOAD))

bench: $(RIVALS) ## run every benchmark; one JSON object a line
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

train-cifar10: $(RIVALS) ## train CIFAR-10 to its end and draw the curve (MODEL=fast, resnet20)
	$(BIN)/python -m benchmarks.cifar10_curve --model $(MODEL) $(ARGS)

pictures: $(TOOLS) ## run the pages' commands and draw the README's pictures again (PAGES="docs/choosing.md": its outputs only)
	$(BIN)/python -m tools.pictures $(PAGES)

clean: ## remove what was built and run; downloads and .venv stay
	-[ ! -x $(BIN)/vertex-local ] || $(BIN)/vertex-local stop --root .trainyard/vertex
	rm -rf dist build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	rm -rf .trainyard/runs .trainyard/vertex .trainyard/packages

lock: $(TOOLS) ## pin the newest versions that setup.py allows, with hashes
	$(LOCK) --upgrade --output-file requirements.lock
	for extra in dev gpu bench; do $(LOCK) --extra $$extra --constraint requirements.lock --output-file requirements-$$extra.lock \
		$$(sed -n 's/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p' requirements.lock) || exit 1; done
