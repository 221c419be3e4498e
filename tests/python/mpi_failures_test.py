"""What happens to the processes of a training: each ends in bounded time with one message, leaves no process behind,
and goes on from its last checkpoint to the same digest."""

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import time

import pytest

import mpi_support as mpi
from conftest import digest_of, program

LAYOUTS = [(2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (1, 2, 2)]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="mounts something, which needs root")
BOUND = 30  # seconds from the death of a rank to the end of the job


@pytest.fixture(scope="module")
def recipe(corpus, tmp_path_factory):
    """12 steps with a checkpoint after each, so that many moments fall into one."""
    mpi.launcher()
    return mpi.write_recipe(tmp_path_factory.mktemp("recipe") / "recipe.toml", corpus, steps=12, checkpoint_every=1,
                            micro_batch=2)


@pytest.fixture(scope="module")
def straight(samestep, recipe, tmp_path_factory):
    """(digest, metrics) of the run that nothing happened to."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    done = samestep("train", recipe, "--run", folder, "--json", "--no-tensorboard")
    return digest_of(done), (folder / "metrics.jsonl").read_bytes()


def launch(layout, recipe, folder, *arguments, **variables):
    command = mpi.train_command(mpi.ranks_of(layout), recipe, "--run", folder, "--resume", "--json",
                                *mpi.layout_fields(layout), *arguments)
    return mpi.start(command, mpi.environment(**variables))


def assert_resumes(straight, recipe, folder, layout=(1, 1, 1)):
    assert digest_of(mpi.train(layout, recipe, folder, "--resume")) == straight[0]
    assert (folder / "metrics.jsonl").read_bytes() == straight[1]


def ranks_when_all_run(process, folder, count):
    return mpi.wait_until(lambda: (lambda found: found if len(found.keys() - {None}) == count else None)(
        mpi.processes_of(folder)), process) or {}


def wait_for_moment(rng, kind, process, folder):
    """Returns once the moment of a kill has come; whether it came before the end of the run."""
    if kind == "start":
        time.sleep(rng.uniform(0, 0.5))
    elif kind == "save":
        at = len(mpi.checkpoints(folder))
        mpi.wait_until(lambda: mpi.checkpoints(folder), process)
        mpi.wait_until(lambda: mpi.saves(folder), process)
    else:
        seen = max(mpi.checkpoints(folder), default=0)
        goal = min(11, seen + rng.randint(1, 4))
        mpi.wait_until(lambda: max(mpi.checkpoints(folder), default=0) >= goal, process)
        time.sleep(rng.uniform(0, 0.05))
    return process.poll() is None


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=mpi.slow)])
def test_a_killed_rank_ends_the_job_and_nothing_is_lost(recipe, straight, tmp_path, kills):
    rng = random.Random(kills)
    folder, struck = tmp_path / "run", 0
    while struck < kills:
        layout = rng.choice(LAYOUTS)
        process = launch(layout, recipe, folder)
        ranks = ranks_when_all_run(process, folder, mpi.ranks_of(layout))
        alive = wait_for_moment(rng, ["step", "save", "start"][struck % 3], process, folder)
        victim = ranks.get(rng.randrange(mpi.ranks_of(layout)))
        if alive and victim is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        since = time.monotonic()
        done = mpi.finish(process, status=None)
        if done.returncode == 0:  # it had finished before: begin again, the kills go on
            shutil.rmtree(folder)
            continue
        struck += 1
        assert time.monotonic() - since < BOUND
        if not done.launcher_hung:  # the launcher's message
            assert "signal 9" in done.stdout + done.stderr, done.stdout + done.stderr
        assert len(mpi.said(done)) <= 1, done.stderr
        mpi.assert_no_process_left(folder)
    assert_resumes(straight, recipe, folder, rng.choice(LAYOUTS))


def start_and_stop_rank_1(recipe, folder, **variables):
    """A job of two ranks, the second of which is stopped in the middle of it."""
    process = launch((1, 2, 1), recipe, folder, **variables)
    ranks = ranks_when_all_run(process, folder, 2)
    mpi.wait_until(lambda: mpi.checkpoints(folder), process)
    os.kill(ranks[1], signal.SIGSTOP)
    return process, ranks


def test_a_rank_that_is_stopped_for_5_s_does_no_harm(recipe, straight, tmp_path):
    process, ranks = start_and_stop_rank_1(recipe, tmp_path / "run")
    time.sleep(5)
    assert process.poll() is None
    os.kill(ranks[1], signal.SIGCONT)
    done = mpi.finish(process)
    assert digest_of(done) == straight[0] and mpi.said(done) == []
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == straight[1]


def test_a_silent_rank_ends_the_job_with_one_message(recipe, straight, tmp_path):
    process, _ = start_and_stop_rank_1(recipe, tmp_path / "run", SAMESTEP_TIMEOUT=5)
    done = mpi.finish(process, status=2)
    assert len(mpi.said(done)) == 1, done.stderr
    assert "rank 0: " in mpi.said(done)[0] and "waiting for rank 1" in mpi.said(done)[0]
    assert "SAMESTEP_TIMEOUT" in mpi.said(done)[0]
    mpi.assert_no_process_left(tmp_path / "run")
    assert_resumes(straight, recipe, tmp_path / "run")


@contextlib.contextmanager
def small_disk(path, kilobytes):
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", path], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def assert_says_once_that_the_disk_is_full(done):
    assert len(mpi.said(done)) == 1, done.stderr
    assert "rank " in mpi.said(done)[0] and "space" in mpi.said(done)[0].lower()


@ROOT_ONLY
def test_a_full_disk_loses_nothing(recipe, straight, tmp_path):
    # A checkpoint is 2 MB; with nine kept the disk fills up.
    with small_disk(tmp_path / "disk", 7000) as disk:
        done = mpi.train((2, 1, 1), recipe, disk / "run", "--set", "train.keep_checkpoints=9", status=2)
        assert_says_once_that_the_disk_is_full(done)
        kept = os.listdir(disk / "run/checkpoints")
        assert kept and not [name for name in kept if "partial" in name]
        shutil.copytree(disk / "run", tmp_path / "moved")
    assert_resumes(straight, recipe, tmp_path / "moved", (1, 2, 1))


@ROOT_ONLY
def test_a_full_disk_of_traces_ends_the_run(recipe, straight, tmp_path):
    with small_disk(tmp_path / "disk", 100) as disk:
        done = mpi.train((1, 2, 1), recipe, tmp_path / "run", status=2, SAMESTEP_TRACE=disk / "trace",
                         SAMESTEP_LEVEL="kernel")
        assert_says_once_that_the_disk_is_full(done)
    assert_resumes(straight, recipe, tmp_path / "run")


def two_programs(first, second):
    """One job of two ranks that were started differently."""
    return mpi.run([*mpi.launcher(), "-n", "1", *first, ":", "-n", "1", *second], status=None)


def train_arguments(recipe, folder, *more, name="samestep"):
    return [program(name), "train", recipe, "--run", folder, "--json", "--threads", "1", "--no-tensorboard", "--set",
            "layout.data=2", *more]


def assert_refused(done, folder, *words):
    assert done.returncode == 3, done.stderr
    assert len(mpi.said(done)) == 1, done.stderr
    for word in words:
        assert word in mpi.said(done)[0], mpi.said(done)[0]
    assert not folder.exists() or os.listdir(folder) == [".lock"]


def test_another_program_on_one_rank_is_refused(recipe, straight, tmp_path):
    folder = tmp_path / "run"
    done = two_programs(train_arguments(recipe, folder), train_arguments(recipe, folder, name="samestep-faulty"))
    assert_refused(done, folder, "rank 1 has another program", "--mixed-programs")
    allowed = ["--mixed-programs"]
    done = two_programs(train_arguments(recipe, folder, *allowed),
                        train_arguments(recipe, folder, *allowed, name="samestep-faulty"))
    assert done.returncode == 0 and digest_of(done) == straight[0], done.stderr


@pytest.mark.parametrize("options, words", [
    (["--set", "train.seed=4"], ["rank 1 has another recipe", "seed = 4", "seed = 3"]),
    (["--set", "layout.data=1", "--set", "layout.tensor=2"], ["rank 1 has another recipe", "data = 1", "data = 2"]),
    (["--set", "optimizer.lr=fast"], ["rank 1: ", "optimizer.lr"]),
    (["--run", "elsewhere"], ["rank 1 has another run folder", "elsewhere"]),
])
def test_another_recipe_on_one_rank_is_refused(recipe, tmp_path, options, words):
    folder = tmp_path / "run"
    second = train_arguments(recipe, folder)
    if options[0] == "--run":
        second[second.index("--run") + 1] = options[1]
        options = []
    assert_refused(two_programs(train_arguments(recipe, folder), [*second, *options]), folder, *words)


@ROOT_ONLY
def test_other_data_on_one_rank_is_refused(recipe, corpus, tmp_path):
    """The second rank sees another file under the same name, as on a machine with an older copy."""
    other = bytearray(open(f"{corpus}.bin", "rb").read())
    other[0] ^= 1
    (tmp_path / "other.bin").write_bytes(other)
    second = " ".join(shlex.quote(str(word)) for word in train_arguments(recipe, tmp_path / "run"))
    script = f"mount --bind {tmp_path}/other.bin {corpus}.bin && exec {second}"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("cannot make a mount namespace here")
    done = two_programs(train_arguments(recipe, tmp_path / "run"), ["unshare", "-m", "sh", "-c", script])
    assert_refused(done, tmp_path / "run", "rank 1 has another data digest", " against ")


@pytest.mark.parametrize("ranks, layout, words", [
    (2, (2, 2, 1), ["is not the number of processes that were started, 2", "data 2 x tensor 1 x pipeline 1"]),
    (2, (1, 1, 1), ["started, 2", "data 1 x tensor 2 x pipeline 1"]),
    (8, (1, 8, 1), ["layout.tensor 8 does not divide", "data 2 x tensor 4 x pipeline 1"]),
    (3, (3, 1, 1), ["layout.data 3 does not divide", "data 1 x tensor 1 x pipeline 3"]),
    (5, (5, 1, 1), ["no layout of 5 processes", "1, 2, 3, 4"]),
])
def test_a_layout_that_cannot_be_is_refused_with_those_that_can(recipe, tmp_path, ranks, layout, words):
    command = mpi.train_command(ranks, recipe, "--run", tmp_path / "run", *mpi.layout_fields(layout))
    assert_refused(mpi.run(command, status=None), tmp_path / "run", *words)


def test_one_process_cannot_have_a_layout_of_two(samestep, recipe, tmp_path):
    done = samestep("train", recipe, "--run", tmp_path / "run", "--set", "layout.data=2", status=3)
    assert "mpirun" in done.stderr or "number of processes that were started, 1" in done.stderr


def supervised(recipe, folder, *arguments):
    launch_with = shlex.join([*mpi.launcher(), "-n", "2"])
    command = [program("samestep"), "train", recipe, "--run", folder, "--restarts", 3, "--launch", launch_with, "--json",
               "--threads", 1, "--no-tensorboard", "--set", "layout.tensor=2", *arguments]
    return mpi.start(command)


def test_restarts_go_on_after_a_death(recipe, straight, tmp_path):
    process = supervised(recipe, tmp_path / "run")
    ranks = ranks_when_all_run(process, tmp_path / "run", 2)
    mpi.wait_until(lambda: mpi.checkpoints(tmp_path / "run"), process)
    os.kill(ranks[0], signal.SIGKILL)
    done = mpi.finish(process)
    assert json.loads(done.stdout.splitlines()[-1])["digest"] == straight[0]
    assert len(mpi.said(done)) == 1 and "beginning again" in mpi.said(done)[0], done.stderr
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == straight[1]


def test_sigterm_to_the_one_that_restarts_saves_and_ends(recipe, straight, tmp_path):
    process = supervised(recipe, tmp_path / "run")
    ranks_when_all_run(process, tmp_path / "run", 2)
    mpi.wait_until(lambda: mpi.checkpoints(tmp_path / "run"), process)
    process.send_signal(signal.SIGTERM)
    done = mpi.finish(process)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["stopped"] or result["digest"] == straight[0]
    mpi.assert_no_process_left(tmp_path / "run")
    assert_resumes(straight, recipe, tmp_path / "run")


def test_what_restarts_is_not_started_by_a_launcher(recipe, tmp_path):
    command = mpi.train_command(2, recipe, "--run", tmp_path / "run", "--restarts", 2)
    assert_refused(mpi.run(command, status=None), tmp_path / "run", "--launch", "rank 0 of 2")
