"""Writes tests/data/megatron_order.json: sample orders by an independent program, with NumPy.

    pip install numpy && python tests/python/make_megatron_order.py

Follows Megatron Core step by step (document, sample and shuffle index as arrays, RandomState, Python's
round), where src/data/sample_order.cc takes short cuts.
"""

import json
import math
import pathlib

import numpy as np


def fnv(values):
    """64-bit FNV-1a over whole numbers, one round each."""
    digest = 0xCBF29CE484222325
    for value in values:
        digest = ((digest ^ int(value)) * 0x100000001B3) % 2**64
    return f"{digest:016x}"


def split_bounds(weights, n):
    total = np.sum(np.array(weights, dtype=np.float64))
    shares = [w / total for w in np.array(weights, dtype=np.float64)]
    edges = [0.0]
    for share in shares:
        edges.append(edges[-1] + float(share))
    bounds = []
    for low, high in zip(edges, edges[1:]):
        begin, end = int(round(low * float(n))), int(round(high * float(n)))
        bounds.append([begin, end] if high > low else [begin, begin])
    return bounds


def document_index(indices, epochs, state, separate):
    if separate and epochs > 1:
        first = document_index(indices, epochs - 1, state, False)
        return np.concatenate((first, document_index(indices, 1, state, False)))
    tiled = np.tile(indices, epochs).astype(np.int32)
    state.shuffle(tiled)
    return tiled


def sample_index(lengths, documents, seq, count):
    rows = [[0, 0]]
    position, offset = 0, 0
    while len(rows) <= count:
        remaining = seq + 1
        while remaining != 0:
            left = int(lengths[documents[position]]) - offset
            remaining -= left
            if remaining <= 0:
                offset += remaining + left - 1
                remaining = 0
            else:
                position += 1
                offset = 0
        rows.append([position, offset])
    return rows


def order(lengths, first, last, samples, seq, seed):
    lengths = np.array(lengths, dtype=np.int32)
    indices = np.arange(first, last, dtype=np.int32)
    per_epoch = int(np.sum(lengths[indices]))
    epochs, tokens = 1, per_epoch
    if samples:
        while tokens < samples * seq + 1:
            epochs += 1
            tokens += per_epoch
    separate = False
    before = ((epochs - 1) * per_epoch - 1) // seq
    if epochs > 1:
        separate = samples - before < int(0.80 * ((per_epoch - 1) // seq))
    state = np.random.RandomState(seed)
    documents = document_index(indices, epochs, state, separate)
    count = (epochs * per_epoch - 1) // seq
    rows = sample_index(lengths, documents, seq, count)
    edge = before if separate else count
    head = np.arange(0, edge, dtype=np.uint32)
    state.shuffle(head)
    tail = np.arange(edge, count, dtype=np.uint32)
    if separate:
        state.shuffle(tail)
    shuffle = np.concatenate((head, tail))
    # The stream of tokens, each numbered by its place in the data set, and the samples cut from it.
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    tokens = []
    for k in shuffle[:50]:
        (p, o), (q, e) = rows[k], rows[k + 1]
        sample = []
        for i in range(p, q + 1):
            d = documents[i]
            low = o if i == p else 0
            high = e + 1 if i == q else int(lengths[d])
            sample.extend(range(int(starts[d]) + low, int(starts[d]) + high))
        assert len(sample) == seq + 1, (len(sample), seq)
        tokens.extend(sample)
    return {
        "epochs": epochs,
        "separate": bool(separate),
        "documents": fnv(documents),
        "rows": fnv(x for row in rows for x in row),
        "shuffle": fnv(shuffle),
        "shuffle_head": [int(x) for x in shuffle[:8]],
        "samples": int(count),
        "tokens": fnv(tokens),
    }


def normalize(weights):
    w = np.array(weights, dtype=np.float64)
    return (w / np.sum(w)).tolist()


def blend(weights, samples):
    shares = normalize(weights)
    wanted = [math.ceil(samples * w) for w in shares]
    built = [int(math.ceil(math.ceil(samples * w) * (1 + 0.005))) for w in shares]
    size = sum(wanted)
    twice = normalize(shares)
    counts = [0] * len(twice)
    source = []
    for i in range(size):
        t = max(float(i), 1.0)
        errors = [w * t - float(c) for w, c in zip(twice, counts)]
        best = errors.index(max(errors))
        source.append(best)
        counts[best] += 1
    return {"wanted": wanted, "built": built, "size": size, "order": fnv(source), "first": source[:16]}


def lengths(kind, n):
    """Also made by sample_order_test.cc."""
    result = []
    x = kind * 7919 + 1
    for _ in range(n):
        x = (x * 1103515245 + 12345) % 2**31
        result.append((x >> 8) % 4 if kind == 1 else (x >> 8) % 300)
    return result


def main():
    orders = []
    for kind, n, first, last, samples, seq, seed in [
        (0, 50, 0, 50, 0, 16, 1234),
        (0, 50, 0, 50, 1, 16, 1234),
        (0, 50, 0, 49, 900, 16, 1234),
        (0, 50, 10, 40, 3000, 7, 1),
        (1, 400, 0, 400, 100, 8, 4294967295),  # short documents, many of them empty
        (1, 400, 13, 377, 1000, 3, 0),
        (0, 1, 0, 1, 500, 2, 42),
        (0, 1, 0, 1, 150, 1, 42),
        (0, 300, 100, 300, 1200, 64, 5),  # the last epoch is needed for more than 80 %
        (0, 300, 0, 300, 1100, 64, 5),
        (0, 20000, 0, 19800, 30000, 128, 1234),
    ]:
        case = {"kind": kind, "n": n, "first": first, "last": last, "needed": samples, "sequence": seq, "seed": seed}
        orders.append(case | order(lengths(kind, n), first, last, samples, seq, seed))
    assert {c["separate"] for c in orders if c["epochs"] > 1} == {True, False}
    splits = []
    for weights in [[99, 1, 0], [969, 30, 1], [0.5, 0.25, 0.25], [1, 0, 0], [1, 1, 1], [0, 1, 0], [98.6, 0.7, 0.7]]:
        for n in [0, 1, 2, 5, 6, 10, 50, 150, 1189, 250, 350, 1000003]:
            splits.append({"weights": weights, "n": n, "bounds": split_bounds(weights, n)})
    blends = []
    many = [((i * 37) % 11 + 1) / 7 for i in range(200)]
    for weights, samples in [
        ([1, 1], 100),
        ([0.7, 0.3], 1000),
        ([0.1, 0.2, 0.3, 0.4], 999),
        ([1 / 3, 1 / 3, 1 / 3], 300),
        ([0.05 * (i + 1) for i in range(9)], 2000),
        (many, 5000),
        (many[:130], 131),
        (many[:17], 1),
    ]:
        blends.append({"weights": weights, "samples": samples, "normalized": normalize(weights)} | blend(weights, samples))
    state = np.random.RandomState(1234)
    first = np.arange(20, dtype=np.int32)
    second = np.arange(10, dtype=np.uint32)
    state.shuffle(first)
    state.shuffle(second)
    out = {
        "numpy": np.__version__,
        "shuffles": [first.tolist(), second.tolist()],
        "splits": splits,
        "orders": orders,
        "blends": blends,
    }
    path = pathlib.Path(__file__).parent.parent / "data" / "megatron_order.json"
    with open(path, "w") as file:
        file.write("{\n")
        for i, (key, value) in enumerate(out.items()):
            end = ",\n" if i + 1 < len(out) else "\n"
            if isinstance(value, list):
                lines = ",\n".join("    " + json.dumps(v) for v in value)
                file.write(f'  "{key}": [\n{lines}\n  ]{end}')
            else:
                file.write(f'  "{key}": {json.dumps(value)}{end}')
        file.write("}\n")


if __name__ == "__main__":
    main()
