"""The time of a step by formula (docs/design/scaling.md): the same costs as the simulation, without a clock.

    terms = step_terms(model, layout, training, machine, "flat")
    sum(terms.values())
    best_layout(model, training, machine, ranks=2432, reduction="flat")
"""

from costs import FLOAT, DataLinks, PassCosts, TensorLinks
from shapes import Layout, forbidden, part_of, shard_of

TERMS = ["computing", "bubble", "tensor", "gradients", "weights", "integers"]


def chunk_seconds(costs, links, samples):
    """(computing, tensor exchanges) of a micro-batch through all chunks of a rank, there and back."""
    shard, own = costs.shard, costs.own_bytes(samples)
    computing = shard.layers * (costs.layer(samples, False) + costs.layer(samples, True))
    gather = links.seconds(own, samples)
    reduction = gather + costs.reduction_sum(samples)
    tensor = 4 * shard.layers * (gather + reduction)
    if shard.last_stage:
        computing += costs.head(samples)
        tensor += gather + reduction + 3 * links.seconds(samples * costs.model.sequence * FLOAT)
    if shard.first_stage:
        tensor += gather + links.seconds(own // max(1, links.members))
    return computing, tensor


def replica_seconds(shard, links, lanes):
    return sum((lanes + 1) * links.seconds(part_of(p.rows, links.members, 0)[1] * p.width * FLOAT)
               for p in shard.parameters if p.replicated)


def data_seconds(data, shard, machine, back):
    """(of the layers, of what stands around them): ports, and the sums after them; the first data rank owns most."""
    layers = edges = 0.0
    for p in shard.parameters:
        if back and p.kind == "tied copy":
            continue
        e = data.exchange(shard.pipeline, 0, 0, p.rows, p.width * FLOAT, back)
        taken = e.seconds + (0 if back else machine.passes(e.summed))
        if p.kind == "layer":
            layers += taken
        else:
            edges += taken * (1 if back else p.sums)
    return layers, edges


def step_terms(model, layout, training, machine, reduction):
    m, samples = training.micro_batches(layout), training.micro_batch
    samples = min(samples, part_of(training.global_batch, layout.data, 0)[1])
    stages = []
    for p in range(layout.pipeline):
        costs = PassCosts(machine, model, layout, training, p)
        stages.append((costs, *chunk_seconds(costs, TensorLinks(machine, layout, layout.rank(p, 0, 0)), samples)))
    busiest = max(stages, key=lambda s: s[1] + s[2])
    costs, computing, tensor = busiest
    hop = machine.latency(False) + machine.move(1, 0, costs.own_bytes(samples))
    others = sum(s[1] + s[2] for s in stages) - computing - tensor
    terms = {"computing": m * computing, "tensor": m * tensor,
             "bubble": others / layout.chunks + 2 * (layout.stages - 1) * hop if layout.pipeline > 1 else 0.0}
    links = TensorLinks(machine, layout, layout.rank(costs.shard.pipeline, 0, 0))
    terms["tensor"] += replica_seconds(costs.shard, links, training.data_lanes // layout.data)
    data, edge_costs = DataLinks(machine, layout, reduction), stages[0][0]
    layers, edges = data_seconds(data, edge_costs.shard, machine, False) if layout.data > 1 else (0.0, 0.0)
    # Slices of a layer travel while the layers before it go backward, for the last micro-batch.
    shard = edge_costs.shard
    hidden = (shard.layers - 1) * edge_costs.layer(samples, True)
    terms["gradients"] = edges + max(layers - hidden, layers / max(1, shard.layers))
    owned = sum(p.rows * p.width for p in shard.parameters) / layout.data * FLOAT * 7
    back = sum(data_seconds(data, shard, machine, True)) if layout.data > 1 else 0.0
    terms["weights"] = max(back, machine.passes(owned))
    parameters = len(shard_of(model, Layout(), 0, 0).parameters)
    sums = [16, 184, 184, 16 * parameters] + ([16 * layout.ranks] if layout.tensor > 1 else [])
    terms["integers"] = sum(machine.sum_over_all(layout.ranks, size) for size in sums)
    return terms


def memory(model, layout, training):
    """Bytes of the first stage's rank, roughly: weights, gradients of its lanes' tree, slices of others and their sum,
    moments, activations of the micro-batches in flight. `samestep plan` has it exactly."""
    shard = shard_of(model, layout, 0, 0)
    elements = sum(p.rows * p.width for p in shard.parameters)
    lanes = max(1, training.data_lanes // layout.data)
    buffers = 1 + (lanes - 1).bit_length()
    tokens = training.micro_batch * model.sequence
    in_flight = min(layout.pipeline, training.micro_batches(layout)) * (2 if layout.chunks > 1 else 1)
    kept = shard.kept_features() * shard.layers / layout.chunks * tokens * in_flight
    return FLOAT * (elements * (1 + buffers + (1 if layout.data > 1 else 0) + 3 / layout.data) + kept)


def best_layout(model, training, machine, ranks, reduction):
    """(layout, terms) with the least time by the formula among those that widths and memory allow; None if none is."""
    best = None
    for pipeline in [d for d in range(1, min(ranks, model.layers) + 1) if ranks % d == 0]:
        for tensor in [d for d in range(1, training.tensor_lanes + 1) if ranks // pipeline % d == 0]:
            for chunks in (1, 2):
                layout = Layout(ranks // pipeline // tensor, tensor, pipeline, chunks)
                if forbidden(layout, model, training) or memory(model, layout, training) > machine.memory_gb * 1e9:
                    continue
                terms = step_terms(model, layout, training, machine, reduction)
                if best is None or sum(terms.values()) < sum(best[1].values()):
                    best = layout, terms
    return best
