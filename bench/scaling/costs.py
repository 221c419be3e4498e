"""What a move or a computation takes: the alpha-beta model of two kinds of link, and rates of a rank.

    machine = Machine(node_ranks=8)
    links = DataLinks(machine, layout, training, "flat")
    links.exchange(pipeline=0, tensor=0, data=0, parameter=p).seconds

A move of bytes between the ranks of a group takes: latency + messages * overhead + the larger of the times on the
two kinds of link; on a link, the larger of what the rank sends and receives, divided by its bandwidth.
"""

from dataclasses import dataclass
from functools import lru_cache

from shapes import part_of, shard_of

FLOAT = 4


@dataclass(frozen=True)
class Machine:
    node_ranks: int = 8
    cores: int = 16  # of a rank
    gflops: float = 75.0  # of a core, in matrix products
    memory_gbs: float = 50.0  # of a rank, in passes over memory, GB/s
    memory_gb: float = 64.0  # of a rank
    within_gbs: float = 25.0  # between ranks of a node, of each rank and direction, GB/s
    between_gbit: float = 400.0  # between nodes, of each rank and direction, Gbit/s
    within_us: float = 1.0
    between_us: float = 5.0
    overhead_us: float = 0.5  # of the processor, a message

    rate = property(lambda self: self.cores * self.gflops * 1e9)
    between_gbs = property(lambda self: self.between_gbit / 8)

    def node(self, rank):
        return rank // self.node_ranks

    def latency(self, within):
        return (self.within_us if within else self.between_us) * 1e-6

    def move(self, messages, within, between):
        """Seconds of so many messages and bytes; latency is the caller's."""
        return messages * self.overhead_us * 1e-6 + max(within / (self.within_gbs * 1e9),
                                                        between / (self.between_gbs * 1e9))

    def passes(self, size):
        return size / (self.memory_gbs * 1e9)

    def sum_over_all(self, ranks, size):
        """Integers over all ranks: a tree up and down, whatever the library does."""
        if ranks == 1:
            return 0.0
        return 2 * (ranks - 1).bit_length() * (self.latency(False) + self.move(1, 0, size))


@dataclass(frozen=True)
class Exchange:
    """One rank's part of a move in its group."""

    seconds: float  # on the rank's ports
    latency: float
    messages: int
    sent: int
    sent_between: int
    summed: int = 0  # bytes read and written by the sums afterwards
    messages_between: int = 0


def node_mates(machine, ranks):
    """For each member of a group (ranks ascending): [first, end) of the members on its node."""
    mates, first = [], 0
    for i in range(len(ranks) + 1):
        if i == len(ranks) or machine.node(ranks[i]) != machine.node(ranks[first]):
            mates += [(first, i)] * (i - first)
            first = i
    return mates


def slices(machine, rows, row_bytes, members, mates, me):
    """Slices of rows from each member to each; the way back (owners to all) takes as long and sends `own` to all."""
    _, own = part_of(rows, members, me)
    first, end = mates[me]
    start, stop = part_of(rows, members, first)[0], sum(part_of(rows, members, end - 1))
    near, far = end - first - 1, members - (end - first)
    out_near, out_far = stop - start - own, rows - (stop - start)
    seconds = machine.move(members - 1, max(out_near, own * near) * row_bytes, max(out_far, own * far) * row_bytes)
    return Exchange(seconds, machine.latency(far == 0) if members > 1 else 0.0, members - 1, (rows - own) * row_bytes,
                    out_far * row_bytes, (members + 1) * own * row_bytes if members > 1 else 0, far)


def unit_of(machine, layout):
    """Data ranks that one node can sum for all: the largest power of two that divides the data ranks and whose blocks
    each lie on one node. Such a block is a whole subtree."""
    unit = 1
    while layout.data % (2 * unit) == 0 and _blocks_on_nodes(machine, layout, 2 * unit):
        unit *= 2
    return unit


def _blocks_on_nodes(machine, layout, unit):
    for pipeline in range(layout.pipeline):
        for first in range(0, layout.data, unit):
            if machine.node(layout.rank(pipeline, first, 0)) != machine.node(
                    layout.rank(pipeline, first + unit - 1, layout.tensor - 1)):
                return False
    return True


class DataLinks:
    """The moves in the data groups: flat, or hierarchical by node."""

    def __init__(self, machine, layout, reduction, unit=0):
        self.machine, self.layout = machine, layout
        self.unit = unit or (unit_of(machine, layout) if reduction == "hierarchical" else 1)
        self.units = layout.data // self.unit
        self.exchange = lru_cache(maxsize=None)(self._exchange)
        self._mates = lru_cache(maxsize=None)(self._mates_of)

    def _mates_of(self, pipeline, tensor, members):
        return node_mates(self.machine, [self.layout.rank(pipeline, d, tensor) for d in members])

    def _exchange(self, pipeline, tensor, data, rows, row_bytes, back=False):
        """Gradient slices of one parameter to their owners; with `back`, the updated rows to all."""
        m, u, n = self.machine, self.unit, self.units
        unit, index = divmod(data, u)
        inner_members = range(unit * u, unit * u + u)
        outer_members = range(index, self.layout.data, u)
        own = part_of(rows, u, index)[1]
        inner = slices(m, rows, row_bytes, u, self._mates(pipeline, tensor, inner_members), index)
        outer = slices(m, own, row_bytes, n, self._mates(pipeline, tensor, outer_members), unit)
        sent, between = inner.sent + outer.sent, inner.sent_between + outer.sent_between
        if back:
            # The owner sends its rows to the same place in the other units, and then all of them within its own.
            mine = part_of(own, n, unit)[1]
            sent = (mine * (n - 1) + own * (u - 1)) * row_bytes
            between = (mine * outer.messages_between + own * inner.messages_between) * row_bytes
        return Exchange(inner.seconds + outer.seconds, inner.latency + outer.latency, inner.messages + outer.messages,
                        sent, between, inner.summed + outer.summed, inner.messages_between + outer.messages_between)


class TensorLinks:
    """The moves in one tensor group, whose ranks are neighbours: all of one length for all members."""

    def __init__(self, machine, layout, first_rank):
        self.machine, self.members = machine, layout.tensor
        mates = node_mates(machine, list(range(first_rank, first_rank + layout.tensor)))
        self.near = min(end - first for first, end in mates) - 1  # of the member that has fewest on its node
        self.far = layout.tensor - 1 - self.near

    def seconds(self, to_each, messages=1):
        """So many bytes from each member to each other."""
        if self.members == 1:
            return 0.0
        return self.machine.latency(self.far == 0) + self.machine.move(
            messages * (self.members - 1), self.near * to_each, self.far * to_each)


class PassCosts:
    """Seconds of a micro-batch's passes through a chunk, and the tensor group's part of them."""

    def __init__(self, machine, model, layout, training, pipeline):
        self.machine, self.model, self.layout, self.t = machine, model, layout, training
        self.shard = shard_of(model, layout, pipeline, 0)
        self.layer = lru_cache(maxsize=None)(self._layer)
        self.head = lru_cache(maxsize=None)(self._head)

    def own_bytes(self, samples):
        """Of the tokens of one tensor rank, [samples, sequence / tensor, hidden]."""
        return samples * (self.model.sequence // self.layout.tensor) * self.model.hidden * FLOAT

    def _layer(self, samples, backward):
        """Seconds of computing in one layer; a backward pass is two products for each of the forward pass."""
        tokens = samples * self.model.sequence
        linear, attention = self.shard.layer_multiply_adds(tokens)
        passes = tokens * self.shard.kept_features() * FLOAT * 8 / 3
        accumulators = 2 * FLOAT * sum(p.rows * p.width for p in self.shard.layer_parameters)
        times = 2 if backward else 1
        products = 2 * (linear * times + attention * (5 if backward else 2)) / self.machine.rate
        return products + self.machine.passes(passes * times + (accumulators if backward else 0))

    def _head(self, samples):
        """The output head does its backward pass at once."""
        tokens = samples * self.model.sequence
        weights = self.shard.vocab * self.model.hidden
        return 2 * 3 * self.shard.head_multiply_adds(tokens) / self.machine.rate + self.machine.passes(
            2 * FLOAT * weights)

    def reduction_sum(self, samples):
        if self.layout.tensor == 1:
            return 0.0
        return self.machine.passes((self.layout.tensor + 1) * self.own_bytes(samples))
