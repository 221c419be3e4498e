"""Checkpoints hold logical tensors: saved in one layout, resumed in another, on more or fewer processes, and killed on
the way, a training ends with the same digest and the same metrics."""

import contextlib
import os
import random
import shutil
import signal
import time

import pytest

import mpi_support as mpi
from conftest import digest_of

STEPS = 10
LAYOUTS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 2, 2), (4, 1, 1), (1, 4, 1), (2, 2, 1), (1, 2, 2, 2), (2, 1, 2)]
SLOW_LAYOUTS = LAYOUTS + [(1, 1, 4), (2, 2, 2), (2, 2, 2, 2), (4, 2, 1), (1, 4, 2)]


class Straight:
    def __init__(self, samestep, folder, corpus, text):
        self.recipe = mpi.write_recipe(folder / "recipe.toml", corpus, text, steps=STEPS, checkpoint_every=2)
        self.digest = digest_of(samestep("train", self.recipe, "--run", folder / "run", "--json", "--no-tensorboard"))
        self.metrics = (folder / "run/metrics.jsonl").read_bytes()

    def assert_same(self, done, folder):
        assert digest_of(done) == self.digest
        assert (folder / "metrics.jsonl").read_bytes() == self.metrics


@pytest.fixture(scope="module")
def llama(samestep, corpus, tmp_path_factory):
    mpi.launcher()
    return Straight(samestep, tmp_path_factory.mktemp("llama"), corpus, mpi.LLAMA)


@pytest.fixture(scope="module")
def gpt2(samestep, corpus, tmp_path_factory):
    mpi.launcher()
    return Straight(samestep, tmp_path_factory.mktemp("gpt2"), corpus, mpi.GPT2)


def chain(straight, folder, layouts):
    """One step or more in each layout, each time from the checkpoint of the one before."""
    for i, layout in enumerate(layouts[:-1]):
        mpi.train(layout, straight.recipe, folder, "--resume", "--stop-after", 1 + i * (STEPS - 1) // len(layouts))
    straight.assert_same(mpi.train(layouts[-1], straight.recipe, folder, "--resume"), folder)


def test_one_layout_after_another(llama, tmp_path):
    chain(llama, tmp_path / "run", [(4, 1, 1), (1, 2, 1), (1, 1, 1), (1, 1, 2, 2), (2, 2, 1)])


def test_tied_weights_in_one_layout_after_another(gpt2, tmp_path):
    chain(gpt2, tmp_path / "run", [(1, 2, 2), (1, 1, 1), (2, 1, 2)])


@mpi.slow
def test_every_layout_goes_on_from_every_other(llama, tmp_path):
    for first in SLOW_LAYOUTS:
        mpi.train(first, llama.recipe, tmp_path / "first", "--stop-after", 5)
        for second in SLOW_LAYOUTS:
            shutil.copytree(tmp_path / "first", tmp_path / "second")
            llama.assert_same(mpi.train(second, llama.recipe, tmp_path / "second", "--resume"), tmp_path / "second")
            shutil.rmtree(tmp_path / "second")
        shutil.rmtree(tmp_path / "first")


def kill_one_rank(rng, process, folder, ranks):
    """SIGKILLs a random rank once a random step is saved, or earlier; the run may have ended before."""
    seen = max(mpi.checkpoints(folder), default=0)
    goal = rng.choice([seen, seen, min(STEPS - 2, seen + 2), min(STEPS - 2, seen + 4)])
    found = mpi.wait_until(lambda: (lambda p: p if len(p.keys() - {None}) == ranks else None)(mpi.processes_of(folder)), process)
    mpi.wait_until(lambda: max(mpi.checkpoints(folder), default=0) >= goal, process)
    time.sleep(rng.uniform(0, 0.3))
    if found and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[rng.randrange(ranks)], signal.SIGKILL)


def random_sequence(straight, folder, seed, layouts, lengths=(2, 4)):
    """Layout after layout, each stopped somewhere or killed; the last runs to the end."""
    rng = random.Random(seed)
    for _ in range(rng.randint(*lengths)):
        layout = rng.choice(layouts)
        command = mpi.train_command(mpi.ranks_of(layout), straight.recipe, "--run", folder, "--resume", "--json",
                                    *mpi.layout_fields(layout))
        process = mpi.start(command)
        if mpi.ranks_of(layout) > 1:
            kill_one_rank(rng, process, folder, mpi.ranks_of(layout))
        mpi.finish(process, status=None)
        mpi.assert_no_process_left(folder)
    straight.assert_same(mpi.train(rng.choice(layouts), straight.recipe, folder, "--resume"), folder)


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=mpi.slow) for seed in range(2, 11)]])
def test_random_layouts_and_kills(llama, gpt2, tmp_path, seed):
    straight, layouts = (gpt2 if seed % 2 == 0 else llama), (SLOW_LAYOUTS if mpi.SLOW else LAYOUTS)
    random_sequence(straight, tmp_path / "run", seed, layouts, (3, 6) if mpi.SLOW else (2, 2))
