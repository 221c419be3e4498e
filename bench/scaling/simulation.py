"""One training step of all ranks on a virtual clock, with every sum as an expression.

    step = Simulation(model, layout, training, machine, reduction="flat").run()
    step.seconds, step.phases["gradient slices"], step.sums_checked, step.wrong

What is simulated is what src/train/trainer.cc does in a step, move by move: parallel/exchange.cc, model/decoder.cc,
model/block.cc, model/output_head.cc, model/gradient_sum.cc, model/gradient_reducer.cc, optimizer/optimizer.cc. The ranks of a
tensor group meet several times a layer, so they share a clock; all others have their own.
"""

from collections import defaultdict
from functools import lru_cache

from costs import FLOAT, DataLinks, PassCosts, TensorLinks
from orders import Orders, Stack
from schedule import schedule_of
from shapes import Layout, part_of, shard_of

PHASES = ["computing", "pipeline wait", "tensor exchanges", "gradient slices", "optimizer", "weights", "integers"]
EXACT_SUM_BYTES = 8 * (2 * 10 + 3)


class Gradient:
    """The sum over tokens of one kind of parameter on the ranks of one tensor group."""

    def __init__(self, sim, data, replicated):
        self.sim, self.replicated = sim, replicated
        lanes = sim.t.data_lanes // sim.layout.data
        self.lanes = (data * lanes, lanes)
        # Parts of a data lane: ranks hold one sum each, or a part of the token lanes each.
        self.parts = sim.layout.tensor if replicated else 1
        self.finished, self.accumulators = [], {}

    def token_lanes(self, part):
        each = self.sim.token_lanes(self.replicated) // self.parts
        return part * each, each

    def accumulate(self, samples):
        orders, per_lane = self.sim.orders, self.sim.t.global_batch // self.sim.t.data_lanes
        for sample in samples:
            for token_lane in range(self.sim.token_lanes(self.replicated)):
                before = self.accumulators.get(token_lane)
                if before is None:
                    before = orders.leaf("lane", sample // per_lane, token_lane)
                self.accumulators[token_lane] = orders.extend(before, sample)
            if (sample + 1) % per_lane == 0:
                self._finish_lane()

    def _finish_lane(self):
        sums = []
        for part in range(self.parts):
            first, count = self.token_lanes(part)
            sums.append(self.sim.orders.tree(self.accumulators[lane] for lane in range(first, first + count)))
        self.finished.append(sums)
        self.accumulators = {}

    def finish(self):
        """The partial of this rank: over its data lanes. Replicas are completed between the tensor ranks, slice by slice."""
        totals = set()
        for owner in range(self.parts):
            stack = Stack(self.sim.orders)
            for sums in self.finished:
                stack.push(self.sim.sum(sums, owner))
            totals.add(stack.finish())
        first, count = self.lanes
        wanted = self.sim.orders.expected(first, count, self.sim.lane_order(self.replicated))
        for total in totals:
            self.sim.check(total, wanted, "a gradient over the lanes of a rank", self.parts)
        return totals.pop()


class Simulation:
    def __init__(self, model, layout, training, machine, reduction="flat", order="tree", unit=0):
        self.model, self.layout, self.t, self.machine, self.order = model, layout, training, machine, order
        self.orders, self.links = Orders(), DataLinks(machine, layout, reduction, unit)
        self.costs = [PassCosts(machine, model, layout, training, p) for p in range(layout.pipeline)]
        self.clock = {(p, d): 0.0 for p in range(layout.pipeline) for d in range(layout.data)}
        self.spent = dict.fromkeys(PHASES, 0.0)  # summed over tensor groups
        self.sent = defaultdict(lambda: [0] * layout.ranks)
        self.messages = defaultdict(lambda: [0] * layout.ranks)
        self.between = [0] * layout.ranks
        self.of_group = defaultdict(lambda: [0, 0])
        self.sums_checked, self.wrong = 0, defaultdict(int)
        self.gradients, self.started = {}, defaultdict(list)
        self.lane_order = lru_cache(maxsize=None)(self._lane_order)
        self.tensor_links = {key: TensorLinks(machine, layout, layout.rank(*key, 0)) for key in self.clock}
        self.arrivals = {}
        # What each tensor rank's product over its own lanes is, and what their sum must be.
        each, lanes = training.tensor_lanes // layout.tensor, range(training.tensor_lanes)
        leaves = [self.orders.leaf("tensor lane", lane) for lane in lanes]
        self.lane_trees = [self.orders.tree(leaves[t * each:t * each + each]) for t in range(layout.tensor)]
        self.whole_lanes = self.orders.expected(0, len(leaves), leaves.__getitem__)

    # --- the order of sums

    def token_lanes(self, replicated):
        return self.t.context_lanes * (self.t.tensor_lanes if replicated else 1)

    def _lane_order(self, replicated):
        """The sum of a data lane, by the numerics page: over its samples in each token lane, then the token lanes' tree."""
        per_lane, orders = self.t.global_batch // self.t.data_lanes, self.orders

        def token_lane(lane, index):
            accumulator = orders.leaf("lane", lane, index)
            for sample in range(lane * per_lane, (lane + 1) * per_lane):
                accumulator = orders.extend(accumulator, sample)
            return accumulator

        def lane_sum(lane):
            return orders.expected(0, self.token_lanes(replicated), lambda index: token_lane(lane, index))

        return lru_cache(maxsize=None)(lane_sum)

    def sum(self, parts, owner):
        """What the owner of a slice makes of the parts that came from the ranks 0, 1, ... of its group."""
        if len(parts) == 1:
            return parts[0]
        return self.orders.ring(parts, owner) if self.order == "ring" else self.orders.tree(parts)

    def check(self, total, wanted, what, count=1):
        self.sums_checked += count
        if total != wanted:
            self.wrong[what] += count

    # --- time and bytes

    def spend(self, group, phase, seconds):
        self.clock[group] += seconds
        self.spent[phase] += seconds

    def wait_until(self, group, phase, time):
        self.spend(group, phase, max(0.0, time - self.clock[group]))

    def count(self, purpose, rank, sent, messages, between=0):
        self.sent[purpose][rank] += sent
        self.messages[purpose][rank] += messages
        self.between[rank] += between

    def exchange(self, group, purpose, to_each, messages=1, own_bytes=None):
        """All ranks of a tensor group send so much to each other."""
        links = self.tensor_links[group]
        if links.members == 1:
            return
        self.spend(group, "tensor exchanges", links.seconds(to_each, messages))
        if own_bytes is None:
            total = self.of_group[purpose, group]
            total[0] += to_each
            total[1] += messages
            return
        for t in range(links.members):
            self.count(purpose, self.layout.rank(*group, t), own_bytes[t] * (links.members - 1),
                       messages * (links.members - 1), own_bytes[t] * links.far)

    def count_groups(self):
        """What all ranks of a tensor group sent alike."""
        for (purpose, group), (to_each, messages) in self.of_group.items():
            peers, far = self.layout.tensor - 1, self.tensor_links[group].far
            for t in range(self.layout.tensor):
                self.count(purpose, self.layout.rank(*group, t), to_each * peers, messages * peers, to_each * far)

    def reduce_tokens(self, group, samples, what):
        """Each rank's partial of all tokens -> the sum of its own tokens."""
        n = self.layout.tensor
        if n == 1:
            return
        costs = self.costs[group[0]]
        self.exchange(group, "partial sums", costs.own_bytes(samples), samples)
        self.spend(group, "tensor exchanges", costs.reduction_sum(samples))
        # (what, slice, order) as each rank sends them, and as each receives them.
        sent = [[(what, s, order) for s in range(n)] for order in self.lane_trees]
        for rank, received in enumerate(zip(*sent)):
            of, slices, orders = zip(*received)
            assert of == (what,) * n and slices == (rank,) * n, "a slice has gone astray"
            self.check(self.sum(orders, rank), self.whole_lanes, "partial sums of a tensor group")

    def gather_tokens(self, group, samples):
        self.exchange(group, "tokens gathered", self.costs[group[0]].own_bytes(samples), samples)

    def world_sum(self, size):
        """All ranks meet."""
        end = max(self.clock.values())
        for group in self.clock:
            self.wait_until(group, "pipeline wait", end)
            self.spend(group, "integers", self.machine.sum_over_all(self.layout.ranks, size))

    # --- passes

    def gradient(self, group, kind, replicated=False):
        key = group, kind, replicated
        if key not in self.gradients:
            self.gradients[key] = Gradient(self, group[1], replicated)
        return self.gradients[key]

    def layer(self, group, samples, backward, what):
        """Two gathers and two reductions, in each direction."""
        self.spend(group, "computing", self.costs[group[0]].layer(samples, backward))
        for half in range(2):
            self.gather_tokens(group, samples)
            self.reduce_tokens(group, samples, (*what, half))

    def embed(self, group, samples):
        """Ranks send the rows that they hold to those whose tokens chose them; each token is taken as equally frequent."""
        n, m = self.layout.tensor, self.model
        own_tokens = samples * (m.sequence // n)
        shards = [shard_of(m, self.layout, 0, t).vocab for t in range(n)] if n > 1 else []
        to_each = [own_tokens * m.hidden * FLOAT * vocab // m.vocab for vocab in shards]
        self.exchange(group, "embedding rows", max(to_each, default=0), 1, to_each)

    def head(self, group, samples, what):
        costs = self.costs[group[0]]
        self.gather_tokens(group, len(samples))
        self.spend(group, "computing", costs.head(len(samples)))
        for _ in range(3):  # the maximum, the sum, the target's logit of each row
            self.exchange(group, "rows of the loss", len(samples) * self.model.sequence * FLOAT)
        self.reduce_tokens(group, len(samples), (*what, "head"))
        self.gradient(group, "head").accumulate(samples)

    def send_activations(self, group, samples, key, to_pipeline):
        """To the neighbour in the pipeline; the sender goes on."""
        size, layout = self.costs[group[0]].own_bytes(samples), self.layout
        first, second = layout.rank(*group, 0), layout.rank(to_pipeline, group[1], 0)
        within = self.machine.node(first) == self.machine.node(second)
        ports = self.machine.move(1, size if within else 0, 0 if within else size)
        self.arrivals[key] = self.clock[group] + self.machine.latency(within) + ports
        for t in range(layout.tensor):
            self.count("activations" if key[0] else "their gradients", layout.rank(*group, t), size, 1,
                       0 if within else size)

    def forward(self, group, chunk, samples, micro_batch):
        p, stage, n = group[0], chunk * self.layout.pipeline + group[0], len(samples)
        if stage == 0:
            self.embed(group, n)
        else:
            self.wait_until(group, "pipeline wait", self.arrivals[True, stage, group[1], micro_batch])
        first, count = self.costs[p].shard.chunk_layers[chunk]
        for layer in range(first, first + count):
            self.layer(group, n, False, (True, layer, micro_batch))
        if stage < self.layout.stages - 1:
            self.send_activations(group, n, (True, stage + 1, group[1], micro_batch), (stage + 1) % self.layout.pipeline)
        else:
            self.head(group, samples, (True, micro_batch))

    def backward(self, group, chunk, samples, micro_batch, last):
        p, stage, n = group[0], chunk * self.layout.pipeline + group[0], len(samples)
        if stage == self.layout.stages - 1:
            self.gradient(group, "norm", self.layout.tensor > 1).accumulate(samples)
        else:
            self.wait_until(group, "pipeline wait", self.arrivals[False, stage, group[1], micro_batch])
        first, count = self.costs[p].shard.chunk_layers[chunk]
        self.gradient(group, ("layer", chunk)).accumulate(samples)
        if self.layout.tensor > 1:
            self.gradient(group, ("layer", chunk), True).accumulate(samples)
        for layer in reversed(range(first, first + count)):
            self.layer(group, n, True, (False, layer, micro_batch))
            if last:
                self.start_sums(group, self.costs[p].shard.layer_parameters)
        if stage > 0:
            self.send_activations(group, n, (False, stage - 1, group[1], micro_batch), (stage - 1) % self.layout.pipeline)
        else:
            self.gather_tokens(group, n)
            self.gradient(group, "embedding").accumulate(samples)

    def run_pipeline(self, data):
        """All stages of one data rank; each pass waits for its neighbour's bytes."""
        layout, t = self.layout, self.t
        first, count = part_of(t.global_batch, layout.data, data)
        batches = [range(i, min(i + t.micro_batch, first + count)) for i in range(first, first + count, t.micro_batch)]
        steps = [schedule_of(layout.pipeline, layout.chunks, p, len(batches)) for p in range(layout.pipeline)]
        at, moved = [0] * layout.pipeline, True
        while moved:
            moved = False
            for p in range(layout.pipeline):
                while at[p] < len(steps[p]):
                    forward, chunk, batch = steps[p][at[p]]
                    stage = chunk * layout.pipeline + p
                    edge = stage == (0 if forward else layout.stages - 1)
                    if not edge and (forward, stage, data, batch) not in self.arrivals:
                        break
                    if forward:
                        self.forward((p, data), chunk, batches[batch], batch)
                    else:
                        self.backward((p, data), chunk, batches[batch], batch, batch == len(batches) - 1)
                    at[p] += 1
                    moved = True
        assert at == [len(s) for s in steps], "a rank waits for ever"
        for p in range(layout.pipeline):
            for parameter in self.costs[p].shard.parameters:
                if parameter.kind != "layer":
                    self.start_sums((p, data), [parameter] * parameter.sums)
        self.arrivals.clear()

    # --- gradients and weights

    def start_sums(self, group, parameters):
        """A replica's gradient is completed between tensor ranks first; then its slices leave for their owners."""
        for parameter in parameters:
            if parameter.replicated:
                self.complete_replica(group, parameter)
        self.started[group].append((self.clock[group], parameters))

    def complete_replica(self, group, parameter):
        row, n, links = parameter.width * FLOAT, self.layout.tensor, self.tensor_links[group]
        lanes = self.t.data_lanes // self.layout.data
        rows = [part_of(parameter.rows, n, r)[1] for r in range(n)]
        self.spend(group, "tensor exchanges", (lanes + 1) * links.seconds(rows[0] * row))
        for r in range(n):
            moved = (parameter.rows - rows[r]) * row * lanes + rows[r] * row * (n - 1)
            self.count("gradients of replicas", self.layout.rank(*group, r), moved, (lanes + 1) * (n - 1),
                       moved * links.far // (n - 1))

    def rows_of(self, parameter, tensor, pipeline):
        """Vocabulary shards differ."""
        if parameter.width == self.model.hidden and parameter.kind in ("embedding", "tied copy", "head") \
                and parameter.rows == self.costs[pipeline].shard.vocab:
            return shard_of(self.model, self.layout, pipeline, tensor).vocab
        return parameter.rows

    def move_all(self, pipeline, tensor, parameters, starts, purpose, back):
        """The moves of many parameters in one data group, one after another on each rank's ports: when all are done, and the
        bytes that each rank sums."""
        layout, shapes = self.layout, {}
        latest = [max(column) for column in zip(*starts)]  # a slice waits for the last rank's
        ports, latency = [0.0] * layout.data, 0.0
        for parameter, start in zip(parameters, latest):
            key = self.rows_of(parameter, tensor, pipeline), parameter.width * FLOAT
            if key not in shapes:
                moves = [self.links.exchange(pipeline, tensor, d, *key, back) for d in range(layout.data)]
                shapes[key] = moves, [m.seconds for m in moves], []
            moves, seconds, uses = shapes[key]
            uses.append(parameter)
            ports = [(port if port > start else start) + taken for port, taken in zip(ports, seconds)]
            latency = moves[0].latency
        summed = [0] * layout.data
        for moves, _, uses in shapes.values():
            for d, move in enumerate(moves):
                summed[d] += move.summed * len(uses)
                self.count(purpose, layout.rank(pipeline, d, tensor), move.sent * len(uses), move.messages * len(uses),
                           move.sent_between * len(uses))
        return max(ports) + latency, summed

    def reduce_gradients(self):
        layout = self.layout
        if layout.data > 1:
            for p in range(layout.pipeline):
                parameters = [q for _, started in self.started[p, 0] for q in started]
                starts = [[time for time, started in self.started[p, d] for _ in started] for d in range(layout.data)]
                done = [self.move_all(p, t, parameters, starts, "gradient slices", False) for t in range(layout.tensor)]
                for d in range(layout.data):
                    self.wait_until((p, d), "gradient slices", max(end for end, _ in done))
                    self.spend((p, d), "gradient slices", self.machine.passes(max(s[d] for _, s in done)))
        self.sum_gradients()
        if self.model.tied and layout.pipeline > 1:
            self.pass_tied("gradient slices", layout.pipeline - 1, 0)

    def sum_gradients(self):
        """All slices, in every data group, of every kind of parameter."""
        layout, owned = self.layout, {}
        keys = sorted({(group[0], kind, replicated) for group, kind, replicated in self.gradients}, key=str)
        for p, kind, replicated in keys:
            partials = [self.gradients[(p, d), kind, replicated].finish() for d in range(layout.data)]
            wanted = self.orders.expected(0, self.t.data_lanes, self.lane_order(replicated))
            for _ in range(layout.tensor):
                owned[kind] = self.sum_slices(partials)
                for order in owned[kind]:
                    self.check(order, wanted, "gradients over the data ranks")
        if self.model.tied:
            wanted = self.orders.expected(0, self.t.data_lanes, self.lane_order(False))
            for output, embedding in zip(owned["head"], owned["embedding"]):
                self.check(self.orders.add(output, embedding), self.orders.add(wanted, wanted), "a tied weight",
                           layout.tensor)

    def sum_slices(self, partials):
        """The order of each owner's sum."""
        u, n = self.links.unit, self.links.units
        inner = []  # of each rank: its unit's sum of slice `index`
        for unit in range(n):
            inner += self.all_to_all_sum(partials[unit * u:unit * u + u])
        orders = [0] * len(partials)
        for index in range(u):
            for unit, order in enumerate(self.all_to_all_sum(inner[index::u])):
                orders[unit * u + index] = order
        return orders

    def all_to_all_sum(self, partials):
        if len(partials) == 1:
            return partials
        sent = [[order] * len(partials) for order in partials]  # the slices of each
        return [self.sum(received, owner) for owner, received in enumerate(zip(*sent))]

    def owned_rows(self, parameter, data):
        u, n = self.links.unit, self.links.units
        return part_of(part_of(parameter.rows, u, data % u)[1], n, data // u)[1]

    def pass_tied(self, phase, sender, receiver):
        """Owned rows of a tied weight between the first stage and the last."""
        layout = self.layout
        for d in range(layout.data):
            group = (sender, d)
            parameter = next(q for q in self.costs[sender].shard.parameters if q.kind in ("embedding", "tied copy"))
            size = self.owned_rows(parameter, d) * parameter.width * FLOAT
            within = self.machine.node(layout.rank(*group, 0)) == self.machine.node(layout.rank(receiver, d, 0))
            seconds = self.machine.latency(within) + self.machine.move(1, size * within, size * (not within))
            self.spend(group, phase, seconds)
            self.wait_until((receiver, d), phase, self.clock[group])
            for t in range(layout.tensor):
                rows = shard_of(self.model, layout, sender, t).vocab
                own = part_of(part_of(rows, self.links.unit, d % self.links.unit)[1], self.links.units,
                              d // self.links.unit)[1] * parameter.width * FLOAT
                self.count("the tied weight", layout.rank(*group, t), own, 1, 0 if within else own)

    def update(self):
        layout = self.layout
        for p in range(layout.pipeline):
            parameters = [q for q in self.costs[p].shard.parameters if q.kind != "tied copy"]
            begin = self.clock[p, 0]
            for d in range(layout.data):
                elements = sum(self.owned_rows(q, d) * q.width for q in parameters)
                self.spend((p, d), "optimizer", self.machine.passes(elements * FLOAT * 7))
            if layout.data > 1:
                self.gather_weights(p, parameters, begin)
        if self.model.tied and layout.pipeline > 1:
            self.pass_tied("weights", 0, layout.pipeline - 1)
            last = layout.pipeline - 1
            if layout.data > 1:
                copies = [q for q in self.costs[last].shard.parameters if q.kind == "tied copy"]
                self.gather_weights(last, copies, self.clock[last, 0])

    def gather_weights(self, pipeline, parameters, begin):
        starts = [[begin] * len(parameters)] * self.layout.data
        done = [self.move_all(pipeline, t, parameters, starts, "updated weights", True)
                for t in range(self.layout.tensor)]
        for d in range(self.layout.data):
            self.wait_until((pipeline, d), "weights", max(end for end, _ in done))

    def run(self):
        layout = self.layout
        self.world_sum(16)  # targets
        for data in range(layout.data):
            self.run_pipeline(data)
        self.reduce_gradients()
        self.world_sum(EXACT_SUM_BYTES)  # loss
        self.world_sum(EXACT_SUM_BYTES)  # norm
        self.update()
        self.world_sum(16 * len(shard_of(self.model, Layout(), 0, 0).parameters))  # fingerprints
        if layout.tensor > 1:
            self.world_sum(16 * layout.ranks)  # digests of replicas
        self.count_groups()
        self.seconds = max(self.clock.values())
        self.phases = {phase: spent / len(self.clock) for phase, spent in self.spent.items()}
        return self
