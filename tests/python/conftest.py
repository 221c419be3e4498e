"""What the Python tests share: where the programs and the test data are, and how to run a command."""

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
        assert done.returncode == status, f"{done.args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
