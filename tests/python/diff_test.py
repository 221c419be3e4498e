"""Traces of real runs, compared through the command line: sound runs are the same in any layout, a planted fault is
named, and what cannot be judged says so."""
import json
import os
import shutil
import sqlite3
import subprocess

import pytest
from conftest import ROOT, program

RECIPE = ROOT / "tests/golden/llama.toml"
FAULT = "kernel=linear.forward,module=layers.1.mlp.down_proj,iteration=7,kind=chain-order"


def record(folder, name, *arguments, level="kernel", capture="", fault="", environment=None, recipe=RECIPE):
    """Trains with a trace; returns the trace's folder."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("SAMESTEP_")}
    variables |= {"SAMESTEP_TRACE": str(folder / f"trace-{name}"), "SAMESTEP_LEVEL": level}
    if capture:
        variables["SAMESTEP_CAPTURE"] = capture
    command = [program("samestep-faulty"), "--fault", fault] if fault else [program("samestep")]
    done = subprocess.run([*command, "train", str(recipe), "--run", str(folder / name), "--no-tensorboard",
                           *map(str, arguments)], env=variables | (environment or {}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if fault:
        assert "PLANTED FAULT" in done.stderr
    return folder / f"trace-{name}"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    return {
        "a": record(folder, "a", capture="kernel=linear.forward,iteration=7"),
        "b": record(folder, "b", "--threads", 3, "--hostile", 9),
        "micro": record(folder, "micro", "--micro-batch", 2),
        "recompute": record(folder, "recompute", "--set", "memory.recompute=layer"),
        "reread": record(folder, "reread", level="kernel-reread"),
        "module": record(folder, "module", level="module"),
        "fault": record(folder, "fault", capture="kernel=linear.forward,iteration=7", fault=FAULT),
        "fault_micro": record(folder, "fault_micro", "--micro-batch", 1, fault=FAULT),
        "backward": record(folder, "backward", fault="kernel=attention.backward,iteration=5,kind=bit-flip"),
        "optimizer": record(folder, "optimizer", fault="kernel=adamw,iteration=4,kind=bit-flip"),
        "seed": record(folder, "seed", "--set", "train.seed=99"),
    }


def diff(samestep, a, b, status):
    return json.loads(samestep("diff", a, b, "--json", status=status).stdout)


@pytest.mark.parametrize("other", ["b", "micro", "recompute", "reread"])
def test_sound_runs_are_the_same(samestep, traces, other):
    result = diff(samestep, traces["a"], traces[other], 0)
    assert result["strength"] in ("fingerprints", "bytes")


def test_levels_compare_by_what_both_have(samestep, traces):
    done = samestep("diff", traces["a"], traces["module"], "--json", status=None)
    assert done.returncode in (0, 2)  # judged at the coarser level, or refused: never "diverged"


def test_the_planted_kernel_is_named(samestep, traces):
    text = samestep("diff", traces["a"], traces["fault"], status=1).stdout
    assert "iteration 7" in text.splitlines()[0]
    assert "forward" in text and "model.layers.1.mlp.down_proj" in text and "linear.forward" in text
    assert "ULP" in text  # the bytes of the call were captured in both


@pytest.mark.parametrize("name, iteration, kernel, phase", [
    ("fault_micro", 7, "linear.forward", "forward"),
    ("backward", 5, "attention.backward", "backward"),
    ("optimizer", 4, "adamw", "optimizer"),
])
def test_faults_in_every_phase_and_layout(samestep, traces, name, iteration, kernel, phase):
    text = samestep("diff", traces["a"], traces[name], status=1).stdout
    assert f"iteration {iteration}" in text.splitlines()[0], text
    origin = next(line for line in text.splitlines() if "origin" in line)
    assert kernel in origin and phase in origin, text


def test_another_seed_is_another_recipe(samestep, traces):
    done = samestep("diff", traces["a"], traces["seed"], status=2)
    assert "recipe" in done.stdout + done.stderr


def test_a_resumed_run_compares_with_a_straight_one(samestep, traces, tmp_path):
    folder = record(tmp_path, "r", "--stop-after", 8, "--set", "train.checkpoint_every=3")
    shutil.rmtree(sorted((tmp_path / "r/checkpoints").iterdir())[-1])  # back to step 6: 7 and 8 are done again
    record(tmp_path, "r", "--resume", "--set", "train.checkpoint_every=3")
    diff(samestep, traces["a"], folder, 0)


def test_a_run_that_ends_early_is_not_called_the_same(samestep, traces, tmp_path):
    folder = record(tmp_path, "r", "--stop-after", 8)
    done = samestep("diff", traces["a"], folder, status=None)
    assert done.returncode in (1, 2)
    assert "8" in done.stdout + done.stderr


def test_truncated_and_foreign_traces_exit_with_2(samestep, traces, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(traces["b"], cut)
    stream = next(cut.glob("*.trace"))
    stream.write_bytes(stream.read_bytes()[:-1000])
    done = samestep("diff", traces["a"], cut, status=2)
    assert "truncated" in (done.stdout + done.stderr).lower() or "whole" in done.stdout + done.stderr
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / stream.name).write_text("not a trace")
    samestep("diff", traces["a"], foreign, status=2)
    samestep("diff", traces["a"], tmp_path / "missing", status=2)
    samestep("diff", traces["a"], status=3)


def test_chosen_iterations_do_not_hide_damage(samestep, traces, tmp_path):
    killed = tmp_path / "killed"
    shutil.copytree(traces["b"], killed)
    stream = next(killed.glob("*.trace"))
    data = bytearray(stream.read_bytes()[:-32])  # without its last block
    stream.write_bytes(data)
    samestep("diff", traces["a"], killed, status=2)
    assert "checksums of all" in samestep("diff", traces["a"], killed, "--iterations", "1-12", status=0).stdout
    data[len(data) // 2] ^= 1
    stream.write_bytes(data)
    for option in ([], ["--verify"]):
        text = samestep("diff", traces["a"], killed, "--iterations", "1-12", *option, status=2).stdout
        assert "damaged" in text


def test_roll_ups_of_another_run_are_not_believed(samestep, traces, tmp_path):
    mixed = tmp_path / "mixed"
    shutil.copytree(traces["fault"], mixed)
    for side in traces["a"].glob("*.rollup"):
        shutil.copy(side, mixed / side.name)
    for options in ([], ["--iterations", "7"], ["--iterations", "7", "--no-verify"]):
        assert "iteration 7" in samestep("diff", traces["a"], mixed, *options, status=1).stdout


def test_info_dump_and_export(samestep, traces, tmp_path):
    assert "level kernel" in samestep("trace", "info", traces["a"]).stdout
    assert "linear.forward" in samestep("trace", "dump", traces["a"]).stdout
    samestep("trace", "export", traces["a"], "--sqlite", "-o", tmp_path / "t.db")
    samestep("trace", "export", traces["a"], "--jsonl", "-o", tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert len(lines) > 1000
    with sqlite3.connect(tmp_path / "t.db") as database:
        tables = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]
    assert tables


def test_a_capture_that_matches_nothing_is_told(samestep, tmp_path):
    variables = dict(os.environ, SAMESTEP_TRACE=str(tmp_path / "t"), SAMESTEP_CAPTURE="kernel=linear.forwad")
    arguments = ("train", RECIPE, "--no-tensorboard", "--stop-after", 1)
    assert "matched no call" in samestep(*arguments, "--run", tmp_path / "a", env=variables).stderr
    variables |= {"SAMESTEP_TRACE": str(tmp_path / "u"), "SAMESTEP_CAPTURE": "kernel=linear.forward"}
    assert "matched no call" not in samestep(*arguments, "--run", tmp_path / "b", env=variables).stderr
