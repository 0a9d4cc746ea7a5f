# Every target builds .venv when it is missing or out of date; a second call installs nothing.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
CORE := $(VENV)/.core
DEV := $(VENV)/.dev

.PHONY: help pendulum test test-slow bench bench-growth learn learn-check learn-table faults doctor-check sweep report notebooks bench-sweeps bench-reading oracle lint lock clean

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

pendulum: $(CORE)  ## Train the first experiment (about half a minute)
	$(RUN) -m acx.main --gin_file=experiments/pendulum.gin

test: $(DEV) lint  ## Lint, type-check and run the tests
	$(RUN) -m pytest -n 2

test-slow: $(DEV)  ## Run the tests that take minutes, on Ray and submitit too
	$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,ray,slurm]'
	$(RUN) -m pytest -m slow

learn: $(DEV)  ## Train what is missing: make learn EXPERIMENTS=hopper,ant SEEDS=5
	$(RUN) -m benchmarks.learning $(if $(EXPERIMENTS),--experiments=$(EXPERIMENTS)) $(if $(SEEDS),--seeds=$(SEEDS))

learn-check: $(DEV)  ## Train anew what the README's table shows, over all seeds (hours)
	$(RUN) -m benchmarks.learning --fresh

bench: $(DEV) .venv-peers/sb3/.done .venv-peers/tf_agents/.done $(if $(CLEANRL),.venv-peers/cleanrl/.done) $(if $(PUREJAXRL),.venv-peers/purejaxrl/.done)  ## Time acx beside peers; CLEANRL=, PUREJAXRL= name copies
	$(RUN) -m benchmarks.throughput $(if $(CLEANRL),--cleanrl=$(CLEANRL)) $(if $(PUREJAXRL),--purejaxrl=$(PUREJAXRL))
	$(RUN) -m benchmarks.solving

bench-growth: $(DEV)  ## Time one iteration's parts, and how cost grows
	$(RUN) -m benchmarks.iteration
	$(RUN) -m benchmarks.scaling

# What each peer of the benchmark needs; TF-Agents' TensorFlow ends at Python 3.11. Of CleanRL and
# PureJaxRL these are only the imports: they are measured from a copy of yours.
PEERS := sb3 cleanrl tf_agents purejaxrl
PEER_sb3 := 'stable-baselines3==2.9.*' 'torch==2.13.*' 'gymnasium[classic-control,mujoco]==1.4.*'
PEER_cleanrl := 'torch==2.13.*' 'gymnasium[classic-control,mujoco]==1.4.*' tensorboard tyro
PEER_tf_agents := 'tf-agents==0.19.*' 'tensorflow==2.15.*' 'tf-keras==2.15.*'
PEER_purejaxrl := 'jax==0.10.*' 'flax==0.12.*' 'optax==0.2.*' 'distrax==0.1.*' gymnax==0.0.9

peers: $(PEERS:%=.venv-peers/%/.done)  ## Install the benchmark's peers, each in its own environment

.venv-peers/%/.done: | $(VENV)/bin/python
	$(PYTHON) -m venv .venv-peers/$*
	.venv-peers/$*/bin/pip install --quiet $(PEER_$*)
	touch $@

learn-table: $(DEV)  ## Print the learning goals beside the committed results
	$(RUN) -m benchmarks.learning_table

faults: $(DEV)  ## Break runs on purpose and count what held (an hour on 2 cores)
	$(RUN) -m benchmarks.faults

doctor-check: $(DEV)  ## Make experiments sick, count right diagnoses and cures (hours)
	$(RUN) -m benchmarks.sickness

sweep: $(CORE)  ## Sweep gamma, reward scale and clip norm on Pendulum (ten minutes)
	$(RUN) -m sweeps.run --sweep=sweeps/pendulum_grid.gin

LOGDIR ?= runs
report: $(DEV)  ## Write report.html about LOGDIR (default: runs)
	$(RUN) -m analysis.report --logdir=$(LOGDIR) --out=report.html

notebooks: $(DEV)  ## Execute the notebooks on synthetic runs, into .ipynb files
	$(RUN) -m analysis.notebooks.demo_data runs/demo
	$(VENV)/bin/jupytext --to ipynb --execute analysis/notebooks/0*.py

bench-sweeps: $(DEV)  ## Time a sweep beside Ray Tune (half an hour)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements.lock 'ray[tune]>=2.40'
	$(RUN) -m benchmarks.sweep_launchers

bench-reading: $(DEV)  ## Read a million scalars beside tbparse and EventAccumulator
	$(RUN) benchmarks/event_reading.py

oracle: $(DEV)  ## Renew the statistics' oracle values from rliable
	$(RUN) benchmarks/statistics_oracle.py

lint: $(DEV)  ## Run ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

lock:  ## Resolve requirements.lock anew from setup.cfg
	uv pip compile setup.cfg --extra dev --universal --python-version 3.11 --no-annotate --no-header -o requirements.lock

clean:  ## Remove the environment
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else f"acx needs Python 3.11 to 3.13; {sys.executable} is {v.major}.{v.minor}. Name another one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(CORE): setup.cfg requirements.lock | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements.lock -e .
	touch $@

$(DEV): setup.cfg requirements.lock | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	touch $@ $(CORE)
