"""The simulator of bench/scaling/: the order of every sum, its negative controls, and that it schedules, shares out and sends
what the engine does."""

import json
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "bench/scaling"
sys.path.insert(0, str(FOLDER))

from schedule import schedule_of  # noqa: E402
from shapes import MODELS, Layout, Training, layers_of, whole_subtrees  # noqa: E402

# Small enough that the quickest tests have every kind of sum: several lanes a rank, token lanes, replicas, a tied weight.
SMALL = ["--model", "tiny-gpt2", "--global-batch", "16", "--context-lanes", "2"]


def simulate(*arguments, status=0):
    done = subprocess.run([sys.executable, FOLDER / "simulate.py", *map(str, arguments)], text=True, capture_output=True)
    assert done.returncode == status, f"{done.args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if status != 3 else done.stderr


def layout_arguments(data, tensor=1, pipeline=1, chunks=1):
    return ["--data", data, "--tensor", tensor, "--pipeline", pipeline, "--chunks", chunks]


@pytest.mark.parametrize("layout", [(1,), (2, 2, 2), (4, 4, 1), (1, 4, 4), (2, 2, 2, 2), (4, 1, 4, 2)])
@pytest.mark.parametrize("reduction", ["flat", "hierarchical"])
def test_every_order_is_the_trees(layout, reduction):
    result = json.loads(simulate(*SMALL, *layout_arguments(*layout), "--reduction", reduction, "--json"))
    assert result["wrong"] == {}
    assert result["sums_checked"] > 0


@pytest.mark.parametrize("data", [19, 38, 76, 152, 304])
def test_widths_that_are_no_powers_of_two(data):
    printed = simulate("--model", "tiny-llama", "--global-batch", 304, "--micro-batch", 4, "--data", data, "--reduction",
                       "hierarchical")
    assert "all the tree's" in printed


@pytest.mark.parametrize("layout, reduction", [((2432,), "hierarchical"), ((304, 4, 2), "flat"), ((152, 4, 4), "flat")])
def test_2432_ranks(layout, reduction):
    result = json.loads(simulate("--model", "tiny-llama", "--global-batch", 2432, "--micro-batch", 4,
                                 *layout_arguments(*layout), "--reduction", reduction, "--json"))
    assert result["ranks"] == 2432 and result["wrong"] == {} and result["sums_checked"] > 2432


@pytest.mark.parametrize("layout", [(4,), (1, 4), (2, 2, 2)])
def test_a_ring_is_reported_as_another_order(layout):
    printed = simulate(*SMALL, *layout_arguments(*layout), "--order", "ring", status=1)
    assert "NOT the tree's" in printed


def test_a_unit_that_is_no_subtree_is_reported():
    arguments = ["--model", "tiny-llama", "--global-batch", 38, "--data", 38]
    assert "NOT the tree's" in simulate(*arguments, "--unit", 19, status=1)
    assert "all the tree's" in simulate(*arguments, "--unit", 2)


def test_layouts_without_whole_subtrees_are_refused():
    assert "no whole subtrees" in simulate("--model", "tiny-llama", "--global-batch", 12, "--data", 4, status=3)
    assert "does not divide" in simulate("--model", "tiny-llama", "--global-batch", 8, "--data", 8, "--unit", 3, status=3)


def test_hierarchical_sends_the_same_bytes_and_fewer_between_nodes():
    arguments = ["--model", "tiny-llama", "--global-batch", 64, "--data", 64, "--json"]
    flat, tree = (json.loads(simulate(*arguments, "--reduction", r)) for r in ["flat", "hierarchical"])
    assert tree["unit"] == 8
    assert tree["bytes"] == flat["bytes"]
    assert tree["messages"] * 63 == flat["messages"] * 14  # 7 within the node and 7 between nodes
    assert tree["bytes_between_nodes_of_the_busiest_rank"] * 7 < flat["bytes_between_nodes_of_the_busiest_rank"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """What the engine's own code decides, by lines: {key: words}."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("dump") / "dump_layouts"
    sources = [FOLDER / "dump_layouts.cc", *(ROOT / "src" / s for s in [
        "parallel/layout.cc", "parallel/pipeline_schedule.cc", "base/check.cc"])]
    subprocess.run([compiler, "-std=c++20", f"-I{ROOT / 'src'}", *sources, "-lfmt", "-o", program], check=True)
    lines = subprocess.run([program], check=True, text=True, capture_output=True).stdout.splitlines()
    return {key: words.split() for key, _, words in (line.partition(":") for line in lines)}


def of_kind(engine, kind):
    found = {tuple(map(int, key.split()[1:])): words for key, words in engine.items() if key.startswith(kind)}
    assert found
    return found


def test_schedules_are_the_engines(engine):
    for (pipeline, chunks, rank, micro_batches), steps in of_kind(engine, "schedule").items():
        assert [f"{'f' if forward else 'b'}{chunk}.{batch}"
                for forward, chunk, batch in schedule_of(pipeline, chunks, rank, micro_batches)] == steps


class TwelveLayers:
    layers, hidden = 12, 1

    def __init__(self, head):
        self.vocab_padded = head

    def layer_cost(self):
        return 100


def test_chunks_have_the_engines_layers(engine):
    for (pipeline, chunks, rank, chunk, head), layers in of_kind(engine, "layers").items():
        layout = Layout(pipeline=pipeline, chunks=chunks)
        assert list(layers_of(layout, rank, chunk, TwelveLayers(head))) == list(map(int, layers))


def test_subtrees_are_the_engines(engine):
    for (lanes,), allowed in of_kind(engine, "lanes").items():
        assert [data for data in range(1, lanes + 1) if whole_subtrees(lanes, data)] == list(map(int, allowed))


PURPOSES = {"gathers": "tokens gathered", "reductions": "partial sums", "vocabulary": "rows of the loss",
            "replicas": "gradients of replicas", "gradients": "gradient slices", "weights": "updated weights",
            "activations": "activations", "activation_gradients": "their gradients", "tied_weight": "the tied weight"}


def recipe(model, training, layout, corpus):
    m = MODELS[model]
    return f"""
[model]
family = "{'gpt2' if m.gpt2 else 'llama'}"
vocab = {m.vocab}
vocab_padded = {m.vocab_padded}
hidden = {m.hidden}
layers = {m.layers}
heads = {m.heads}
kv_heads = {m.kv_heads}
intermediate = {m.intermediate}
sequence = {m.sequence}
[data]
path = "{corpus}"
tokenizer = "bytes"
[train]
steps = 1
global_batch = {training.global_batch}
micro_batch = {training.micro_batch}
[optimizer]
lr = 1e-3
[invariance]
data_lanes = {training.data_lanes}
tensor_lanes = {training.tensor_lanes}
context_lanes = {training.context_lanes}
[layout]
data = {layout.data}
tensor = {layout.tensor}
pipeline = {layout.pipeline}
chunks = {layout.chunks}
"""


@pytest.mark.parametrize("model, layout", [("tiny-llama", Layout(4, 2, 1)), ("tiny-llama", Layout(2, 2, 2, 2)),
                                           ("tiny-gpt2", Layout(2, 2, 2)), ("tiny-gpt2", Layout(8, 1, 1)),
                                           ("tiny-gpt2", Layout(1, 4, 2))])
def test_every_rank_sends_the_bytes_of_the_plan(samestep, corpus, tmp_path, model, layout):
    """`samestep plan` is held against the bytes that real trainings send (src/train/plan_layout_test.cc)."""
    from costs import Machine
    from simulation import Simulation
    training = Training(8, 1, 8, 4, 2)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe(model, training, layout, corpus))
    plan = json.loads(samestep("plan", path, "--processes", layout.ranks, "--no-measure", "--json").stdout)
    step = Simulation(MODELS[model], layout, training, Machine()).run()
    for rank in plan["ranks"]:
        for item in rank["network"]:
            if item["purpose"] in PURPOSES:  # embedding rows depend on the tokens
                sent = step.sent[PURPOSES[item["purpose"]]][rank["rank"]]
                assert sent == item["bytes"], f"rank {rank['rank']}, {item['purpose']}"


def test_the_page_has_the_tables_that_the_simulator_prints():
    page = (ROOT / "docs/design/scaling.md").read_text(encoding="utf-8")
    tables = page.partition("<!-- tables -->\n")[2].partition("<!-- end of tables -->")[0]
    assert tables.strip() == simulate("--markdown").strip(), "run bench/scaling/simulate.py --markdown"
