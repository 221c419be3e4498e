"""One training over several processes has the bits of one process, in every layout that the widths allow; its traces
compare with those of one process; and what breaks that is found and named."""

import json

import pytest

import mpi_support as mpi
from conftest import digest_of

# (data, tensor, pipeline[, chunks])
LLAMA_LAYOUTS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 2, 2), (4, 1, 1), (1, 4, 1), (2, 2, 1), (1, 2, 2, 2),
                 (2, 1, 2), (2, 2, 2)]
GPT2_LAYOUTS = [(2, 1, 1), (1, 2, 2), (2, 1, 2, 2), (2, 2, 2)]
SLOW_LAYOUTS = [(1, 1, 4), (1, 2, 2), (2, 1, 2, 2), (4, 2, 1), (2, 4, 1), (4, 1, 2), (1, 4, 2, 2), (1, 2, 4), (2, 2, 2, 2),
                (2, 1, 4)]
TRACED = {"SAMESTEP_LEVEL": "kernel", "SAMESTEP_ITERATIONS": "1-2"}


def cases():
    for family, layouts in [("llama", LLAMA_LAYOUTS), ("gpt2", GPT2_LAYOUTS)]:
        for layout in layouts:
            yield pytest.param(family, layout, id=f"{family}-{'x'.join(map(str, layout))}")
        for layout in [layout for layout in SLOW_LAYOUTS if layout not in layouts]:
            yield pytest.param(family, layout, id=f"{family}-{'x'.join(map(str, layout))}", marks=mpi.slow)


class Alone:
    """The run of one process: its recipe, digest, metrics and trace."""

    def __init__(self, folder, corpus, text):
        self.recipe = mpi.write_recipe(folder / "recipe.toml", corpus, text)
        self.folder, self.trace = folder / "alone", folder / "alone-trace"
        command = [mpi.program("samestep"), "train", self.recipe, "--run", self.folder, "--json", "--no-tensorboard"]
        done = mpi.run(command, env=mpi.environment(SAMESTEP_TRACE=self.trace, **TRACED))
        self.digest = digest_of(done)
        self.metrics = (self.folder / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    mpi.launcher()
    made = {}

    def of(family):
        if family not in made:
            made[family] = Alone(tmp_path_factory.mktemp(family), corpus, mpi.GPT2 if family == "gpt2" else mpi.LLAMA)
        return made[family]

    return of


@pytest.mark.parametrize("family, layout", list(cases()))
def test_every_layout_has_the_bits_of_one_process(samestep, alone, tmp_path, family, layout):
    one = alone(family)
    done = mpi.train(layout, one.recipe, tmp_path / "run", SAMESTEP_TRACE=tmp_path / "trace", **TRACED)
    assert digest_of(done) == one.digest
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == one.metrics
    assert len(list((tmp_path / "trace").glob("*.trace"))) == mpi.ranks_of(layout)
    compared = samestep("diff", one.trace, tmp_path / "trace", "--json", status=None)
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert json.loads(compared.stdout)["strength"] == "fingerprints"


def test_two_layouts_compare_with_each_other(samestep, alone, tmp_path):
    for name, layout in [("a", (4, 1, 1)), ("b", (1, 2, 2))]:
        mpi.train(layout, alone("llama").recipe, tmp_path / name, "--stop-after", 2,
                  SAMESTEP_TRACE=tmp_path / f"{name}-trace", **TRACED)
    samestep("diff", tmp_path / "a-trace", tmp_path / "b-trace", status=0)


def faulty(alone, tmp_path, layout, fault, status=0):
    """A run with a planted fault, two steps long, with its trace in tmp_path/trace."""
    return mpi.train(layout, alone("llama").recipe, tmp_path / "run", "--stop-after", 2, fault=fault, status=status,
                     SAMESTEP_TRACE=tmp_path / "trace", **TRACED)


def test_a_float_reduction_of_mpi_is_found(samestep, alone, tmp_path):
    module = "model.layers.1.mlp.down_proj.weight"
    done = faulty(alone, tmp_path, (4, 1, 1), f"kernel=sum.tree,module={module},iteration=2,kind=mpi-sum")
    assert done.stderr.count("struck at iteration 2") == 4, done.stderr
    metrics = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[1])
    sound = json.loads(alone("llama").metrics.decode().splitlines()[1])
    assert metrics["digest"] != sound["digest"]
    sound_trace = tmp_path / "sound-trace"
    mpi.train((4, 1, 1), alone("llama").recipe, tmp_path / "sound", "--stop-after", 2, SAMESTEP_TRACE=sound_trace, **TRACED)
    for other in (sound_trace, alone("llama").trace):  # in the same layout, and across layouts
        text = samestep("diff", other, tmp_path / "trace", "--iterations", "1-2", status=1).stdout
        assert "iteration 2" in text.splitlines()[0], text
        origin = next(line for line in text.splitlines() if "origin" in line)
        assert "sum.tree" in origin and module in origin, text


def test_the_sum_of_mpi_says_where_it_cannot_be_planted(alone, tmp_path):
    fault = "kernel=sum.tree,module=model.layers.1.mlp.down_proj.weight,iteration=2,kind=mpi-sum"
    done = faulty(alone, tmp_path, (2, 2, 1), fault, status=None)
    assert done.returncode != 0 and "layout with data ranks only" in done.stderr


@pytest.mark.parametrize("layout", [(2, 2, 1), (1, 2, 2)])
def test_a_wrong_bit_of_one_rank_is_named(samestep, alone, tmp_path, layout):
    module = "model.layers.0.mlp.down_proj"
    done = faulty(alone, tmp_path, layout, f"kernel=linear.forward,module={module},iteration=2,kind=bit-flip,bit=20,rank=1",
                  status=None)
    assert "rank 1: struck at iteration 2" in done.stderr
    text = samestep("diff", alone("llama").trace, tmp_path / "trace", "--iterations", "1-2", status=1).stdout
    origin = next(line for line in text.splitlines() if "origin" in line)
    assert "linear.forward" in origin and module in origin, text


def test_a_wrong_bit_in_what_others_compute_too_ends_in_that_step(alone, tmp_path):
    tensor = "model.layers.0.input_layernorm.weight"
    fault = f"kernel=adamw,module={tensor},iteration=2,kind=bit-flip,bit=0,rank=1"
    done = faulty(alone, tmp_path / "four", (1, 4, 1), fault, status=None)
    assert len(mpi.said(done)) == 1, done.stderr
    assert "step 2: rank 1 computed other bits of" in mpi.said(done)[0] and tensor in mpi.said(done)[0]
    assert "ranks 0, 2 and 3" in mpi.said(done)[0]
    assert done.returncode == 1, done.stderr
    done = faulty(alone, tmp_path / "two", (1, 2, 1), fault, status=None)
    assert len(mpi.said(done)) == 1 and "either may be wrong" in mpi.said(done)[0], done.stderr
    assert "rank 1 computed other bits" in mpi.said(done)[0] and "than rank 0," in mpi.said(done)[0]
    assert done.returncode == 1, done.stderr


def test_bytes_on_the_network_are_those_of_the_plan(samestep, alone, tmp_path):
    """Counted by a library between the program and MPI. Only how many rows of the embedding travel depends on the
    tokens: their bound is in the plan."""
    layout, recipe, counts = (2, 2, 1), alone("llama").recipe, tmp_path / "counts.jsonl"
    done = mpi.train(layout, recipe, tmp_path / "run", "--stop-after", "1", "--set", "train.evaluate_every=0",
                     preload=mpi.guard(), SAMESTEP_MPI_COUNTS=counts)
    assert json.loads(done.stdout)["step"] == 1
    plan = json.loads(samestep("plan", recipe, *mpi.layout_fields(layout), "--no-measure", "--json").stdout)
    sent = {line["rank"]: line["p2p_bytes"] for line in map(json.loads, counts.read_text().splitlines())}
    assert len(sent) == len(plan["ranks"]) == 4
    for rank in plan["ranks"]:
        rows = sum(item["bytes"] for item in rank["network"] if item["purpose"] == "embedding_rows")
        assert rank["bytes_sent"] - rows <= sent[rank["rank"]] <= rank["bytes_sent"], (rank, sent)
        assert rows < rank["bytes_sent"] / 10


def test_no_float_is_reduced_by_mpi(alone, tmp_path):
    """The guard ends a job that asks MPI for a sum of anything but integers."""
    guard = mpi.guard()
    done = mpi.train((2, 2, 1), alone("llama").recipe, tmp_path / "sound", preload=guard)
    assert digest_of(done) == alone("llama").digest
    fault = "kernel=sum.tree,module=model.layers.1.mlp.down_proj.weight,iteration=2,kind=mpi-sum"
    done = mpi.train((4, 1, 1), alone("llama").recipe, tmp_path / "faulty", preload=guard, fault=fault, status=None)
    assert done.returncode != 0 and "MPI_Reduce_scatter reduces a type" in done.stderr, done.stderr
