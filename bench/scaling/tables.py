"""The tables of docs/design/scaling.md; simulate.py --markdown prints them.

Determinism: binary64 arithmetic without a mathematical library, printed to three digits.
"""

import dataclasses

from formula import TERMS, best_layout, step_terms
from shapes import MODELS, Layout, Training, shard_of
from simulate import HELP, seconds, size
from simulation import Simulation

RANKS = [1, 19, 38, 76, 152, 304, 608, 1216, 2432]
DEVICES = {"cores": 1, "gflops": 40000.0, "memory_gbs": 2500.0, "memory_gb": 80.0, "within_gbs": 450.0}


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |\n"


def head(*cells):
    return row(*cells) + row(*(["---"] + ["---:"] * (len(cells) - 1)))


def training_for(model, batch):
    return Training(batch, 1, batch, {"gpt2-124m": 4, "llama-7b": 8}[model], 1)


def machine_table(machine):
    units = {"gbs": "GB/s", "gb": "GB", "gbit": "Gbit/s", "us": "us", "gflops": "GFLOP/s"}
    text = head("figure", "value", "what")
    for field in dataclasses.fields(machine):
        text += row("`--" + field.name.replace("_", "-") + "`",
                    f"{getattr(machine, field.name):g} {units.get(field.name.split('_')[-1], '')}".strip(), HELP[field.name].split(";")[0])
    return text


def operations(model):
    """Of one sample, forward and backward."""
    shard = shard_of(model, Layout(), 0, 0)
    linear, attention = shard.layer_multiply_adds(model.sequence)
    return 2 * (3 * (model.layers * linear + shard.head_multiply_adds(model.sequence)) + 7 * model.layers * attention)


def formula_table(model, machine, batches, reduction="flat"):
    """One line a number of ranks: the best allowed layout, its terms, and what part of the step the products of the model
    would take if the ranks shared them evenly."""
    text = head("ranks", "data x tensor x pipeline", "samples", "step", *TERMS, "tokens/s", "products")
    for ranks in RANKS:
        training = training_for(model, batches(ranks))
        best = best_layout(MODELS[model], training, machine, ranks, reduction)
        if best is None:
            text += row(ranks, "none fits", training.global_batch, *[""] * (len(TERMS) + 3))
            continue
        layout, terms = best
        total = sum(terms.values())
        speed = training.global_batch * MODELS[model].sequence / total
        products = training.global_batch * operations(MODELS[model]) / machine.rate / ranks
        text += row(ranks, layout, training.global_batch, seconds(total), *[seconds(terms[t]) for t in TERMS],
                    f"{speed:.3g}", f"{100 * products / total:.0f} %")
    return text


SIMULATED = [
    ("gpt2-124m", 2432, Layout(2432), "flat"),
    ("gpt2-124m", 2432, Layout(2432), "hierarchical"),
    ("gpt2-124m", 2432, Layout(608, 1, 4), "flat"),
    ("llama-7b", 304, Layout(76, 8, 4), "flat"),
    ("llama-7b", 304, Layout(76, 8, 4, 2), "flat"),
]


def simulated_table(machine):
    text = head("model", "data x tensor x pipeline", "reduction", "samples", "step", "formula", "pipeline wait",
                "sent by a rank", "between nodes", "messages of a rank", "sums checked")
    for name, batch, layout, reduction in SIMULATED:
        training = training_for(name, batch)
        step = Simulation(MODELS[name], layout, training, machine, reduction).run()
        formula = sum(step_terms(MODELS[name], layout, training, machine, reduction).values())
        sent = max(sum(ranks) for ranks in zip(*step.sent.values()))
        messages = max(sum(ranks) for ranks in zip(*step.messages.values()))
        verdict = f"{step.sums_checked}, all the tree's" if not step.wrong else f"{sum(step.wrong.values())} NOT the tree's"
        text += row(name, layout, reduction, batch, seconds(step.seconds), seconds(formula),
                    seconds(step.phases["pipeline wait"]), size(sent), size(max(step.between)), messages, verdict)
    return text


def sections(machine):
    devices = dataclasses.replace(machine, **DEVICES)
    yield "Figures", lambda: machine_table(machine)
    yield "GPT-2 124M, 2,432 samples of 1,024 tokens a step, by the formula", \
        lambda: formula_table("gpt2-124m", machine, lambda ranks: 2432)
    yield "The same, the reduction hierarchical by node", \
        lambda: formula_table("gpt2-124m", machine, lambda ranks: 2432, "hierarchical")
    yield "GPT-2 124M, 8 samples of each rank (weak scaling)", \
        lambda: formula_table("gpt2-124m", machine, lambda ranks: 8 * ranks)
    yield "7B Llama, 1,216 samples of 4,096 tokens a step", \
        lambda: formula_table("llama-7b", machine, lambda ranks: 1216)
    yield "7B Llama, one sample of each rank (weak scaling)", \
        lambda: formula_table("llama-7b", machine, lambda ranks: ranks)
    yield "GPT-2 124M on faster ranks (40 TFLOP/s, 2,500 GB/s of memory, 450 GB/s within a node), flat", \
        lambda: formula_table("gpt2-124m", devices, lambda ranks: 2432)
    yield "The same, hierarchical", \
        lambda: formula_table("gpt2-124m", devices, lambda ranks: 2432, "hierarchical")
    yield "7B Llama on faster ranks", \
        lambda: formula_table("llama-7b", devices, lambda ranks: 1216)
    yield "Steps of 2,432 ranks, simulated", lambda: simulated_table(machine)


def markdown(machine):
    return "\n".join(f"### {title}\n\n{table()}" for title, table in sections(machine))
