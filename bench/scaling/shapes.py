"""What a rank holds and computes: models, layouts and the parameters of a shard, as src/parallel/layout.cc,
src/model/ and src/plan/work.cc have them.

    layout = Layout(data=152, tensor=8, pipeline=2)
    shard = shard_of(MODELS["llama-7b"], layout, pipeline=0, tensor=0)
    shard.parameters, shard.layer_multiply_adds(tokens=4096)

tests/python/scaling_test.py compares the layouts, the layers of a chunk and the bytes sent with the C++ code.
"""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Model:
    vocab: int
    vocab_padded: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    sequence: int
    gpt2: bool  # LayerNorm, learned positions, biases, fused q, k, v, GELU; else as Llama

    tied = property(lambda self: self.gpt2)
    query_width = property(lambda self: self.heads * self.head_size)
    key_width = property(lambda self: self.kv_heads * self.head_size)
    qkv_width = property(lambda self: self.query_width + 2 * self.key_width)
    up_width = property(lambda self: self.intermediate * (1 if self.gpt2 else 2))

    def layer_cost(self):
        """Multiply-adds of a token in one layer, forward: what chunks are balanced by."""
        products = self.hidden * (self.qkv_width + self.query_width + self.up_width + self.intermediate)
        return products + self.sequence * self.query_width

    def elements(self):
        return sum(p.rows * p.width for p in shard_of(self, Layout(), 0, 0).parameters)


MODELS = {
    "gpt2-124m": Model(50257, 50304, 768, 12, 12, 12, 64, 3072, 1024, gpt2=True),
    "llama-7b": Model(32000, 32000, 4096, 32, 32, 32, 128, 11008, 4096, gpt2=False),
    # Small enough for `samestep plan` and for the quickest tests.
    "tiny-llama": Model(257, 264, 64, 8, 8, 4, 8, 96, 64, gpt2=False),
    "tiny-gpt2": Model(257, 264, 64, 8, 8, 8, 8, 256, 64, gpt2=True),
}


@dataclass(frozen=True)
class Layout:
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    chunks: int = 1

    ranks = property(lambda self: self.data * self.tensor * self.pipeline)
    stages = property(lambda self: self.pipeline * self.chunks)

    def rank(self, pipeline, data, tensor):
        return (pipeline * self.data + data) * self.tensor + tensor

    def __str__(self):
        text = f"{self.data} x {self.tensor} x {self.pipeline}"
        return text + (f" ({self.chunks} chunks)" if self.chunks > 1 else "")


@dataclass(frozen=True)
class Training:
    """What a recipe says besides the model."""

    global_batch: int
    micro_batch: int = 1
    data_lanes: int = 1
    tensor_lanes: int = 1
    context_lanes: int = 1

    def micro_batches(self, layout):
        return -(-part_of(self.global_batch, layout.data, 0)[1] // self.micro_batch)


def part_of(total, parts, index):
    """(first, count) of part `index` of [0, total); the larger parts come first."""
    least, larger = divmod(total, parts)
    return index * least + min(index, larger), least + (index < larger)


def whole_subtrees(lanes, parts):
    """Whether `parts` ranks that share `lanes` in order own one whole subtree of the balanced tree each."""
    each = lanes // parts
    return parts == 1 or (lanes % parts == 0 and each & (each - 1) == 0)


def forbidden(layout, model, training):
    """Why the widths forbid a layout; empty if they do not."""
    t = training
    if t.global_batch % t.data_lanes:
        return f"{t.data_lanes} data lanes do not divide {t.global_batch} samples"
    for name, size in [("heads", model.heads), ("kv_heads", model.kv_heads), ("intermediate", model.intermediate),
                       ("padded vocabulary", model.vocab_padded), ("sequence", model.sequence)]:
        if size % t.tensor_lanes:
            return f"{t.tensor_lanes} tensor lanes do not divide {name} {size}"
    if not whole_subtrees(t.data_lanes, layout.data):
        return f"data {layout.data} leaves no whole subtrees of {t.data_lanes} data lanes"
    if not whole_subtrees(t.tensor_lanes, layout.tensor):
        return f"tensor {layout.tensor} leaves no whole subtrees of {t.tensor_lanes} tensor lanes"
    if not whole_subtrees(t.context_lanes * t.tensor_lanes, layout.tensor):
        return f"tensor {layout.tensor} leaves no whole subtrees of {t.context_lanes} x {t.tensor_lanes} token lanes"
    if layout.stages > model.layers:
        return f"{layout.stages} chunks are more than {model.layers} layers"
    if layout.chunks > 1 and layout.pipeline == 1:
        return "chunks need a pipeline"
    if layout.chunks > 1 and t.micro_batches(layout) % layout.pipeline:
        return f"{t.micro_batches(layout)} micro-batches are no multiple of pipeline {layout.pipeline}"
    return ""


def layers_of(layout, pipeline, chunk, model):
    """(first, count) of the layers of a chunk: costs as even as whole layers allow, the output head counted."""
    chunks, layer = layout.stages, model.layer_cost()
    total = float(model.layers) * float(layer) + float(model.vocab_padded * model.hidden)

    def end_of(k):
        if k == chunks - 1:
            return model.layers
        nearest = int(total * float(k + 1) / float(chunks) / float(layer) + 0.5)
        return min(max(nearest, k + 1), model.layers - (chunks - 1 - k))

    index = chunk * layout.pipeline + pipeline
    first = 0 if index == 0 else end_of(index - 1)
    return first, end_of(index) - first


@dataclass(frozen=True)
class Parameter:
    kind: str  # "layer", "embedding", "tied copy", "head" or "norm" (the final one)
    rows: int  # of the shard
    width: int
    replicated: bool = False  # over tensor ranks
    sums: int = 1  # a tied weight that stands on one stage has two gradients
    layer: int = -1


@lru_cache(maxsize=None)
def shard_of(model, layout, pipeline, tensor):
    return Shard(model, layout, pipeline, tensor)


class Shard:
    """What a rank holds and computes."""

    def __init__(self, model, layout, pipeline, tensor):
        self.model, self.layout, self.pipeline = model, layout, pipeline
        self.first_stage, self.last_stage = pipeline == 0, pipeline == layout.pipeline - 1
        size = model.vocab_padded // layout.tensor
        self.vocab = min(model.vocab, (tensor + 1) * size) - min(model.vocab, tensor * size)
        self.chunk_layers = [layers_of(layout, pipeline, c, model) for c in range(layout.chunks)]
        self.layer_parameters = self._layer()
        self.parameters = self._edges() + [
            Parameter("layer", p.rows, p.width, p.replicated, 1, first + i)
            for first, count in self.chunk_layers for i in range(count) for p in self.layer_parameters]
        self.layers = sum(count for _, count in self.chunk_layers)

    def _layer(self):
        m, n = self.model, self.layout.tensor
        split = [m.qkv_width] if m.gpt2 else [m.query_width, m.key_width, m.key_width]
        split += [m.intermediate] if m.gpt2 else [m.intermediate, m.intermediate]
        vectors = 4 if m.gpt2 else 2
        found = [Parameter("layer", m.hidden, 1, n > 1)] * vectors
        for outputs in split:
            found.append(Parameter("layer", outputs // n, m.hidden))
            if m.gpt2:
                found.append(Parameter("layer", outputs // n, 1))
        for inputs in [m.query_width, m.intermediate]:
            found.append(Parameter("layer", m.hidden, inputs // n))
            if m.gpt2:
                found.append(Parameter("layer", m.hidden, 1, n > 1))
        return found

    def _edges(self):
        m, n = self.model, self.layout.tensor
        found = []
        if self.first_stage:
            both = m.tied and self.last_stage
            found.append(Parameter("embedding", self.vocab, m.hidden, sums=2 if both else 1))
            if m.gpt2:
                found.append(Parameter("embedding", m.sequence // n, m.hidden))
        elif m.tied and self.last_stage:
            found.append(Parameter("tied copy", self.vocab, m.hidden))
        if self.last_stage:
            found += [Parameter("norm", m.hidden, 1, n > 1)] * (2 if m.gpt2 else 1)
            if not m.tied:
                found.append(Parameter("head", self.vocab, m.hidden))
        return found

    def layer_multiply_adds(self, tokens):
        """(linear, attention) of one layer, forward: a query sees the keys up to its own."""
        m, n = self.model, self.layout.tensor
        linear = tokens * m.hidden * (m.qkv_width + m.query_width + m.up_width + m.intermediate) // n
        return linear, tokens * (m.sequence + 1) // 2 * m.query_width // n

    def head_multiply_adds(self, tokens):
        return tokens * self.model.hidden * self.vocab

    def kept_features(self):
        """Features that a layer keeps of a token for its backward pass."""
        m, n = self.model, self.layout.tensor
        return 4 * m.hidden + (m.qkv_width + m.query_width + m.up_width + m.intermediate) // n
