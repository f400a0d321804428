# make install   .venv with the program and its development tools, from nothing but python3
# make demo      the program at its main job, in ten minutes of an idle machine; installs first what is missing
# make test      lint, types and all tests
# make fuzz      2,000 spoilt models, checkpoints, texts, settings and options (CASES=10000 SEED=2 for others)
# make bench     time and memory against BPE, in training and decoding, in small: two minutes on an idle machine
# make docs      what is generated in docs/: the reference of settings, the notebook's outputs
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint types check fuzz bench docs clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@echo "Installing into .venv: some minutes, 1.3 GB or more (PyTorch)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/ssmt demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

check: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test: lint types check

CASES ?= 2000
SEED ?= 1
fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.runner --cases $(CASES) --seed $(SEED)

bench: install
	$(BIN)/python benchmarks/training.py --presets small --repetitions 3
	$(BIN)/python benchmarks/decoding.py --presets small --searches marginal --beams 5 --repetitions 2

docs: install
	$(BIN)/python docs/configuration.py
	$(BIN)/jupyter execute --inplace docs/quickstart.ipynb

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
