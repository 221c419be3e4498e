"""What the Python tests share: where the programs and the test data are, and how to run a command."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARIES = pathlib.Path(os.environ.get("SAMESTEP_BINARIES", ROOT / "build/release/bin"))

# The tests use no network: what would download fails at once instead of hanging.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def program(name):
    path = BINARIES / name
    if not path.exists():
        pytest.fail(f"{path} is missing: build it with scripts/test, or name its folder in SAMESTEP_BINARIES")
    return str(path)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def samestep():
    """Runs the command line: samestep("train", recipe, ...) returns the finished process."""

    def run(*arguments, status=0, **options):
        done = subprocess.run([program("samestep"), *map(str, arguments)], text=True, capture_output=True, **options)
        assert status is None or done.returncode == status, f"{done.args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


TINY = """
[model]
family = "llama"
vocab = 257
hidden = 32
layers = 2
heads = 4
kv_heads = 2
intermediate = 48
sequence = 48

[data]
path = "{corpus}"
split = "90,10,0"
tokenizer = "bytes"

[train]
steps = 60
global_batch = 4
micro_batch = 2
evaluate_every = 20
evaluate_samples = 4
checkpoint_every = 5
log_every = 10

[optimizer]
lr = 1e-2
"""


@pytest.fixture(scope="session")
def corpus(samestep, tmp_path_factory):
    """A packed text of 25 kB."""
    prefix = tmp_path_factory.mktemp("corpus") / "genesis"
    samestep("data", "pack", ROOT / "tests/golden/genesis.txt", "-o", prefix, "--tokenizer", "bytes",
             "--documents", "lines")
    return f"{prefix}_text_document"


@pytest.fixture(scope="session")
def tiny_recipe(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(TINY.format(corpus=corpus))
    return path


@pytest.fixture(scope="session")
def trained_run(samestep, tiny_recipe, tmp_path_factory):
    """(folder, metrics) of a finished run of tiny_recipe."""
    run = tmp_path_factory.mktemp("runs") / "straight"
    samestep("train", tiny_recipe, "--run", run)
    return run, read_metrics(run)


def read_metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def digest_of(done):
    return json.loads(done.stdout.splitlines()[-1])["digest"]
