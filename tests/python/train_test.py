"""Runs through the command line: stopped, killed and resumed anywhere, the trajectory is the same; and what a user, a
disk or another process can spoil ends with a message and loses nothing."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from conftest import digest_of, program, read_metrics


def start(*arguments, **options):
    return subprocess.Popen([program("samestep"), *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def test_threads_micro_batch_and_recompute_change_nothing(samestep, tiny_recipe, trained_run, tmp_path):
    digest = trained_run[1][-1]["digest"]
    variants = [["--threads", 1], ["--threads", 3, "--micro-batch", 1, "--hostile", 5],
                ["--micro-batch", 3, "--poison", "--set", "memory.recompute=layer"]]
    for i, extra in enumerate(variants):
        done = samestep("train", tiny_recipe, "--run", tmp_path / str(i), "--json", *extra)
        assert digest_of(done) == digest, extra


def test_metrics_hold_exact_values(trained_run):
    import struct
    run, metrics = trained_run
    assert [m["step"] for m in metrics] == list(range(1, 61))
    for m in metrics:
        assert struct.pack(">d", m["loss"]).hex() == m["loss_hex"]
        assert m["consumed_samples"] == 4 * m["step"]
    assert metrics[-1]["loss"] < metrics[0]["loss"] - 1
    assert [m["step"] for m in metrics if "evaluation_loss" in m] == [20, 40, 60]


def test_tensorboard_reads_the_events(trained_run):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator",
                                 reason="install it with: scripts/setup --python")
    run, metrics = trained_run
    events = loader.EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    values = {e.step: e.value for e in events.Scalars("train/loss")}
    assert len(values) == 60
    assert all(abs(values[m["step"]] - m["loss"]) < 1e-6 * m["loss"] for m in metrics)


def test_sigterm_saves_and_the_run_continues(samestep, tiny_recipe, trained_run, tmp_path):
    run = tmp_path / "run"
    process = start("train", tiny_recipe, "--run", run, "--set", "train.checkpoint_every=1000")
    assert "parameters" in process.stdout.readline()  # from here on signals are caught
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "stopped and saved" in out and "stopping after this step" in err
    done = samestep("train", "--run", run, "--resume", "--json")
    assert digest_of(done) == trained_run[1][-1]["digest"]
    assert read_metrics(run) == trained_run[1]


def kill_and_resume(recipe, run, kills, rng, longest):
    """SIGKILLs a run at random moments until `kills` have struck; returns its final digest."""
    struck = 0
    while True:
        process = start("train", recipe, "--run", run, "--resume", "--json", "--no-tensorboard",
                        "--threads", rng.choice([1, 2]), "--micro-batch", rng.choice([1, 2, 3, 4]))
        if struck < kills:
            try:
                process.wait(timeout=rng.uniform(0, longest))
            except subprocess.TimeoutExpired:
                process.kill()
                struck += 1
        out, err = process.communicate(timeout=120)
        if process.returncode == -signal.SIGKILL:
            continue
        assert process.returncode == 0, err
        if struck < kills:  # it finished before the last kills: begin again, the kills go on
            shutil.rmtree(run)
            continue
        return digest_of_text(out)


def digest_of_text(out):
    return json.loads(out.splitlines()[-1])["digest"]


def test_killed_at_fifty_random_moments(tiny_recipe, trained_run, tmp_path):
    rng = random.Random(2026)
    recipe = tmp_path / "r.toml"
    # A checkpoint after every step, so that many of the kills fall into one.
    recipe.write_text(pathlib.Path(tiny_recipe).read_text().replace("checkpoint_every = 5", "checkpoint_every = 1"))
    digest = kill_and_resume(recipe, tmp_path / "run", 50, rng, 0.5)
    assert digest == trained_run[1][-1]["digest"]
    assert read_metrics(tmp_path / "run") == trained_run[1]


def test_two_trainers_in_one_folder(samestep, tiny_recipe, tmp_path):
    run = tmp_path / "run"
    first = start("train", tiny_recipe, "--run", run, "--set", "train.steps=100000")
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.01)
    second = samestep("train", tiny_recipe, "--run", run, "--resume", status=2)
    assert f"process {first.pid}" in second.stderr
    first.kill()
    first.communicate()


def test_a_folder_with_a_run_is_not_overwritten(samestep, tiny_recipe, trained_run):
    done = samestep("train", tiny_recipe, "--run", trained_run[0], status=2)
    assert "--resume" in done.stderr


def bad_recipe(tmp_path, text, old, new):
    path = tmp_path / "bad.toml"
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("old, new, status, message", [
    ("hidden = 32", "hiden = 32", 3, "hidden"),
    ("hidden = 32", 'hidden = "x"', 3, "hidden"),
    ("heads = 4", "heads = 5", 3, "heads"),
    ("sequence = 48", "sequence = 100000", 2, "100001"),
    ("vocab = 257", "vocab = 100", 2, "tokenizer"),
    ('tokenizer = "bytes"', 'tokenizer = "bytes"\nunknown = 1', 3, "unknown"),
    ("lr = 1e-2", "lr = 1e-2\n[layout]\ncontext = 2", 3, "layout.context"),
    ("lr = 1e-2", "lr = 1e-2\n[layout]\ndata = 2", 3, "layout.data"),
    ("lr = 1e-2", "lr = -1", 3, "lr"),
])
def test_bad_recipes_are_refused_before_step_1(samestep, tiny_recipe, tmp_path, old, new, status, message):
    path = bad_recipe(tmp_path, pathlib.Path(tiny_recipe).read_text(), old, new)
    done = samestep("train", path, "--run", tmp_path / "run", status=status)
    assert message in done.stderr, done.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_missing_files(samestep, tiny_recipe, tmp_path):
    assert "missing.toml" in samestep("train", tmp_path / "missing.toml", "--run", tmp_path / "a", status=2).stderr
    recipe = bad_recipe(tmp_path, pathlib.Path(tiny_recipe).read_text(), 'split = "90,10,0"', "")
    text = recipe.read_text()
    line = next(l for l in text.splitlines() if l.startswith("path"))
    recipe.write_text(text.replace(line, 'path = "/nonexistent/corpus"'))
    assert "/nonexistent/corpus" in samestep("train", recipe, "--run", tmp_path / "b", status=2).stderr


def test_a_checkpoint_of_another_recipe(samestep, tiny_recipe, trained_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained_run[0], run)
    done = samestep("train", tiny_recipe, "--run", run, "--resume", "--set", "optimizer.lr=5e-3", status=3)
    assert "lr" in done.stderr and "another recipe" in done.stderr


def test_a_run_without_a_checkpoint_is_not_resumed_with_another_recipe(samestep, tiny_recipe, trained_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained_run[0], run)
    shutil.rmtree(run / "checkpoints")
    done = samestep("train", tiny_recipe, "--run", run, "--resume", "--set", "train.seed=5", status=3)
    assert "another recipe" in done.stderr
    assert "no checkpoint yet" in samestep("generate", run, status=2).stderr
    assert digest_of(samestep("train", tiny_recipe, "--run", run, "--resume", "--json")) == trained_run[1][-1]["digest"]


def test_a_truncated_checkpoint_is_named(samestep, trained_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained_run[0], run)
    newest = sorted((run / "checkpoints").iterdir())[-1] / "weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    done = samestep("train", "--run", run, "--resume", status=2)
    assert "weights.safetensors" in done.stderr and "older" in done.stderr
    older = sorted((run / "checkpoints").iterdir())[-2]
    done = samestep("train", "--run", run, "--resume", "--from", older, "--json")
    assert digest_of(done) == trained_run[1][-1]["digest"]


def test_going_back_drops_later_checkpoints_only_once_the_run_goes_on(samestep, tiny_recipe, trained_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained_run[0], run)
    before = sorted(p.name for p in (run / "checkpoints").iterdir())
    back = ("train", "--run", run, "--resume", "--from", run / "checkpoints" / before[0])
    samestep(*back, "--stop-after", 1, status=3)
    samestep(*back, env=dict(os.environ, SAMESTEP_TRACE=str(tmp_path / "t"), SAMESTEP_LEVEL="nonsense"), status=3)
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == before
    samestep(*back, "--stop-after", 56)
    assert digest_of(samestep("train", "--run", run, "--resume", "--json")) == trained_run[1][-1]["digest"]
    assert read_metrics(run) == trained_run[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs, which needs root")
def test_a_full_disk_loses_nothing(samestep, tiny_recipe, trained_run, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1600k", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr}")
    try:
        run = disk / "run"
        # The state is about 300 kB; with five checkpoints kept the disk fills up.
        done = samestep("train", tiny_recipe, "--run", run, "--no-tensorboard", "--set", "train.keep_checkpoints=9",
                        status=2)
        assert "space" in done.stderr.lower()
        kept = [p.name for p in (run / "checkpoints").iterdir()]
        assert kept and all("partial" not in name for name in kept)
        moved = tmp_path / "moved"
        shutil.copytree(run, moved)
        done = samestep("train", "--run", moved, "--resume", "--json")
        assert digest_of(done) == trained_run[1][-1]["digest"]
        (disk / "filler").write_bytes(b"")
        trace = dict(os.environ, SAMESTEP_TRACE=str(disk / "trace"), SAMESTEP_LEVEL="kernel")
        done = samestep("train", tiny_recipe, "--run", tmp_path / "traced", env=trace, status=2)
        assert "space" in done.stderr.lower()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_an_unreadable_folder(samestep, tiny_recipe, tmp_path):
    (tmp_path / "file").write_text("")
    done = samestep("train", tiny_recipe, "--run", tmp_path / "file" / "run", status=2)
    assert "file" in done.stderr


def test_usage_errors_exit_with_3(samestep, tiny_recipe, tmp_path):
    samestep("train", "--no-such-flag", status=3)
    samestep("train", tiny_recipe, status=3)
    samestep("no-such-command", status=3)
    assert "recipe" in samestep("train", "--run", tmp_path / "x", status=3).stderr


def test_not_finite_stops_before_the_update(samestep, tiny_recipe, tmp_path):
    # Each step multiplies the weights by 1 - 1000, so that they overflow after a dozen.
    done = samestep("train", tiny_recipe, "--run", tmp_path / "run", "--set", "optimizer.lr=1000", "--set",
                    "optimizer.weight_decay=1", "--set", "optimizer.max_norm=0", status=4)
    assert "must be finite" in done.stderr
    assert 5 <= len(read_metrics(tmp_path / "run")) < 30
