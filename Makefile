# Needs only make and Python 3.11 or newer with venv. Everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where `make demo` runs: local, container, slurm (on a login node, in a folder that the nodes share) or kubernetes. In
# containers it uses an image made here, of Debian packages: python or busybox-python.
ENGINE ?= local
IMAGE ?= python
# The CPU build of PyTorch; other pins may bring several GB of CUDA packages.
TORCH ?= torch==2.13.0

# Tests at the same time: two a core of the machine that CI has, as many wait for processes, disks and grace periods.
WORKERS ?= 4

PYTEST = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -n $(WORKERS) --dist worksteal --rerun-failed --durations=20

# Byte code is kept: every kedge that a test starts would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-local demo-container demo-slurm demo-kubernetes test test-containers test-zoo test-slurm test-kubernetes
.PHONY: test-benchmarks lint types
.PHONY: check coverage floors docs soak clean

demo: demo-$(ENGINE)

demo-local: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" kedge run examples/digits.yaml

demo-container: $(VENV)/.demo
	@examples/images/build $(IMAGE)
	@$(BIN)/kedge run --engine container -p image=localhost/kedge/$(IMAGE):1 examples/digits.yaml

# Tasks run with the login node's PATH, so they find the Python in .venv.
demo-slurm: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" kedge run --engine slurm examples/digits.yaml

# On a cluster that is started for it and ended again.
demo-kubernetes: $(VENV)/.test
	tests/kubernetes/build
	@examples/images/build $(IMAGE)
	@$(BIN)/python -m tests.kubernetes.demo localhost/kedge/$(IMAGE):1 examples/digits.yaml

test: lint types check

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Beside mypy, which uses one core, the tests are compiled: in a fresh clone every worker would compile them.
types: $(VENV)/.test
	@$(BIN)/pytest --collect-only -qq >/dev/null & $(BIN)/mypy; code=$$?; wait; exit $$code

check: $(VENV)/.test
	$(PYTEST) -m 'not (containers or zoo or slurm or kubernetes or benchmarks)' $(ARGS)

# The tests that `make test` leaves out, because they take long and need tools of the system (tests/conftest.py marks
# them): jobs in containers; programs that really fail, with PyTorch, MPI and compilers; jobs on
# a Slurm cluster that they start; the scripts in benchmarks/.
test-containers test-zoo test-slurm test-benchmarks: $(VENV)/.test
	$(PYTEST) -m $(@:test-%=%) $(ARGS)

# The same for jobs on a Kubernetes cluster, whose programs are built once (tests/kubernetes/build), or which KUBECONFIG
# names.
test-kubernetes: $(VENV)/.test
	tests/kubernetes/build
	$(PYTEST) -m kubernetes $(ARGS)

# Only what tests call in their own process is measured, in about two minutes: runtime/, the engines and the commands run
# in processes of their own, which start with a clean environment and without site-packages.
coverage: $(VENV)/.test
	$(BIN)/pytest --cov -q -n $(WORKERS) --rerun-failed $(addprefix tests/,cli diagnose engines/controller plan plugins policy resolve runs settings spec)

# Warns of what has become slower than the project's goals allow; takes two minutes on an idle machine.
floors: $(VENV)/.test
	$(BIN)/python benchmarks/floors.py

# The pages in docs/ as a site: build/site/index.html. Warnings and internal links that lead nowhere are errors.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build --nitpicky --fail-on-warning --keep-going --quiet -c docs -d build/doctrees . build/site

.PHONY: dist-check test-pythons hooks runtime-image
# The image of the runtime as a file in the cache, for nodes of a test cluster and for podman; its path is printed.
runtime-image: $(VENV)/.test
	@$(BIN)/python -m tests.runtime_image

# The sdist and the wheel, built, installed in a clean environment, and tried. They are left in dist/.
dist-check: $(VENV)/.test
	.ci/dist-check

# A part of the tests with each of Python 3.11 to 3.14 that this machine has.
test-pythons:
	.ci/test-pythons

# Checks before each commit (.pre-commit-config.yaml).
hooks: $(VENV)/.test
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type commit-msg

# Random attacks on real runs, for as long as ROUNDS or SECONDS say (docs/reliability.md). SEED repeats one.
soak: $(VENV)/.test
	@$(BIN)/python -m tests.faults $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(ATTACK),--attack '$(ATTACK)') $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(FUZZ),--fuzz $(FUZZ))

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[examples]'
	@touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# Compiling all of torch would take longer than compiling what the tests import.
$(VENV)/.test: $(VENV)/.venv pyproject.toml
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check '$(TORCH)' -e '.[dev,examples,torch]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .pytest_cache build dist
