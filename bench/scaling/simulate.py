#!/usr/bin/env python3
"""Time per step against ranks, by a formula and by a simulation that checks the order of every sum.

    bench/scaling/simulate.py --model llama-7b --data 152 --tensor 8 --pipeline 2        one step of 2,432 ranks
    bench/scaling/simulate.py --model gpt2-124m --data 2432 --reduction hierarchical
    bench/scaling/simulate.py --data 152 --tensor 4 --pipeline 4 --order ring            must fail: exit status 1
    bench/scaling/simulate.py --markdown                                                 the tables of docs/design/scaling.md

Figures of the machine are arguments (--help); none is measured by this program. Exit status: 0 all sums had the tree's
order, 1 some had another, 3 used wrongly.
"""

import argparse
import dataclasses
import json
import sys

from costs import Machine
from shapes import MODELS, Layout, Training, forbidden
from simulation import PHASES, Simulation

GLOBAL_BATCH = {"gpt2-124m": 2432, "llama-7b": 1216, "tiny-llama": 8, "tiny-gpt2": 8}
TENSOR_LANES = {"gpt2-124m": 4, "llama-7b": 8, "tiny-llama": 4, "tiny-gpt2": 4}
HELP = {
    "node_ranks": "ranks of a node", "cores": "of a rank",
    "gflops": "of a core in matrix products; measure yours with scripts/bench gemm or samestep plan",
    "memory_gbs": "of a rank in passes over memory", "memory_gb": "of a rank",
    "within_gbs": "of a rank to the others on its node", "between_gbit": "of a rank to other nodes",
    "within_us": "latency within a node", "between_us": "latency between nodes",
    "overhead_us": "of the processor, for each message"}


def seconds(value):
    if value >= 100:
        return f"{value:.0f} s"
    if value >= 0.9995:
        return f"{value:.3g} s"
    if value >= 0.9995e-3:
        return f"{value * 1e3:.3g} ms"
    return f"{value * 1e6:.0f} us"


def size(value):
    for unit, factor in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)]:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.error = lambda message: (print(f"simulate: error: {message}", file=sys.stderr), sys.exit(3))
    p.add_argument("--model", choices=MODELS, default="gpt2-124m")
    for axis in ["data", "tensor", "pipeline", "chunks"]:
        p.add_argument(f"--{axis}", type=int, default=1)
    p.add_argument("--global-batch", type=int, help="samples of a step")
    p.add_argument("--micro-batch", type=int, default=1)
    p.add_argument("--data-lanes", type=int, help="default: the global batch")
    p.add_argument("--tensor-lanes", type=int)
    p.add_argument("--context-lanes", type=int, default=1)
    p.add_argument("--reduction", choices=["flat", "hierarchical"], default="flat",
                   help="of gradients; the engine has the flat one")
    p.add_argument("--order", choices=["tree", "ring"], default="tree", help="ring: a negative control")
    p.add_argument("--unit", type=int, default=0, help="data ranks that sum for each other first; one that is no "
                   "power of two is a negative control")
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true", help="the tables of docs/design/scaling.md")
    for field in dataclasses.fields(Machine):
        p.add_argument("--" + field.name.replace("_", "-"), type=field.type, default=field.default,
                       help=f"{HELP[field.name]} (default {field.default})")
    return p


def machine_of(arguments):
    return Machine(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Machine)})


def training_of(arguments):
    batch = arguments.global_batch or GLOBAL_BATCH[arguments.model]
    return Training(batch, arguments.micro_batch, arguments.data_lanes or batch,
                    arguments.tensor_lanes or TENSOR_LANES[arguments.model], arguments.context_lanes)


def report(step):
    busiest = {purpose: max(sent) for purpose, sent in sorted(step.sent.items())}
    totals = [sum(ranks) for ranks in zip(*step.sent.values())] or [0]
    messages = [sum(ranks) for ranks in zip(*step.messages.values())] or [0]
    return {"ranks": step.layout.ranks, "seconds": step.seconds, "phases": step.phases,
            "bubble": step.phases["pipeline wait"] / step.seconds, "bytes_of_the_busiest_rank": max(totals),
            "bytes_by_purpose_busiest": busiest, "bytes_between_nodes_of_the_busiest_rank": max(step.between),
            "messages_of_the_busiest_rank": max(messages), "messages": sum(messages), "bytes": sum(totals),
            "sums_checked": step.sums_checked, "wrong": dict(step.wrong), "unit": step.links.unit}


def print_report(step, r):
    print(f"{step.layout} = {r['ranks']} ranks, step of {seconds(r['seconds'])}")
    for phase in PHASES:
        print(f"  {phase:<20}{seconds(r['phases'][phase]):>10}{100 * r['phases'][phase] / r['seconds']:>8.1f} %")
    print(f"sent by the busiest rank: {size(r['bytes_of_the_busiest_rank'])} in {r['messages_of_the_busiest_rank']} "
          f"messages, {size(r['bytes_between_nodes_of_the_busiest_rank'])} of them between nodes")
    for purpose, most in r["bytes_by_purpose_busiest"].items():
        print(f"  {purpose:<20}{size(most):>10}")
    print(f"sent by all: {size(r['bytes'])} in {r['messages']} messages")
    print(verdict(r))


def verdict(r):
    if not r["wrong"]:
        return f"order of {r['sums_checked']} sums checked: all the tree's"
    wrong = ", ".join(f"{count} {what}" for what, count in sorted(r["wrong"].items()))
    return f"order of {r['sums_checked']} sums checked: {sum(r['wrong'].values())} are NOT the tree's ({wrong})"


def main():
    p = parser()
    arguments = p.parse_args()
    if arguments.markdown:
        from tables import markdown
        print(markdown(machine_of(arguments)), end="")
        return 0
    model, training = MODELS[arguments.model], training_of(arguments)
    layout = Layout(arguments.data, arguments.tensor, arguments.pipeline, arguments.chunks)
    reason = forbidden(layout, model, training)
    if reason:
        p.error(f"{reason}; take another layout, or other --data-lanes and --tensor-lanes")
    if arguments.unit and layout.data % arguments.unit:
        p.error(f"--unit {arguments.unit} does not divide data {layout.data}")
    step = Simulation(model, layout, training, machine_of(arguments), arguments.reduction, arguments.order,
                      arguments.unit).run()
    result = report(step)
    print(json.dumps(result)) if arguments.json else print_report(step, result)
    return 1 if step.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
