"""Token ids and texts equal those of PyPI's tokenizers: on a corpus, and on hostile Unicode.

Also: what `samestep data pack` writes is what Megatron's reader, written again here with NumPy, finds.
"""

import json
import pathlib
import shutil
import subprocess

import pytest

import tokenizer_cases as cases

tokenizers = pytest.importorskip("tokenizers", reason="pip install tokenizers, to compare with it")

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizers"
BASES = {name: json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("bytes", "chars")}
VARIANTS = cases.variants(*(len(BASES[name]["model"]["vocab"]) for name in ("bytes", "chars")))


def variant(name):
    base, patch = VARIANTS[name]
    return json.dumps(cases.merge_patch(BASES[base], patch))


def corpus():
    """The King James Bible in chapters if Debian's bible-kjv is here, else a shorter text."""
    if shutil.which("bible"):
        command = ["bible", "-l79", "Gen1:1-Rev22:21"]
        text = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
        return text.split("\n\n")
    return (pathlib.Path(__file__).parent.parent / "golden" / "genesis.txt").read_text().split("\n")


def lines(samestep, tmp_path, values, *arguments):
    path = tmp_path / "lines"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    done = samestep("data", "tokenize", path, "--json-lines", *arguments)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", VARIANTS)
def test_same_ids_and_texts(samestep, tmp_path, name):
    texts = cases.FIXED + list(cases.hostile(1500, seed=name)) + corpus()[:20]
    path = tmp_path / "tokenizer.json"
    path.write_text(variant(name))
    other = tokenizers.Tokenizer.from_file(str(path))
    expected = [e.ids for e in other.encode_batch(texts, add_special_tokens=False)]
    ours = lines(samestep, tmp_path, texts, "--tokenizer", path)
    assert len(ours) == len(texts)
    for text, mine, theirs in zip(texts, ours, expected):
        assert mine == theirs, ascii(text)
    decoded = lines(samestep, tmp_path, expected, "--tokenizer", path, "--decode")
    for ids, mine, theirs in zip(expected, decoded, other.decode_batch(expected)):
        # Bytes that are not UTF-8 have no text; how many marks stand for them is each program's own affair.
        if "\ufffd" not in mine + theirs:
            assert mine == theirs, ids


@pytest.mark.parametrize("name, chapters", [("llama3", None), ("gpt2", 500), ("llama2", 500)])
def test_same_ids_on_the_corpus(samestep, tmp_path, name, chapters):
    path = tmp_path / "tokenizer.json"
    path.write_text(variant(name))
    other = tokenizers.Tokenizer.from_file(str(path))
    texts = corpus()[:chapters]
    texts.append("".join(texts[:50]).replace("\n", "").replace(" ", ""))  # a long word
    assert lines(samestep, tmp_path, texts, "--tokenizer", path) == [
        e.ids for e in other.encode_batch(texts, add_special_tokens=False)
    ]


def test_every_assigned_code_point(samestep, tmp_path):
    """Each code point between letters, digits and spaces, so that its class shows in where the text is cut."""
    path = tmp_path / "tokenizer.json"
    texts = []
    for first in [*range(0, 0x20000, 256), *range(0x20000, 0x110000, 0x1000), 0xE0100]:
        points = [chr(c) for c in range(first, first + 256) if not 0xD800 <= c <= 0xDFFF]
        texts.append("".join(f"a{p}b 1{p}{p}2 {p}\n" for p in points))
    for name in ["o200k", "starcoder"]:
        path.write_text(variant(name))
        other = tokenizers.Tokenizer.from_file(str(path))
        expected = [e.ids for e in other.encode_batch(texts, add_special_tokens=False)]
        for i, (mine, theirs) in enumerate(zip(lines(samestep, tmp_path, texts, "--tokenizer", path), expected)):
            assert mine == theirs, f"{name}: {ascii(texts[i][:4])} and the 255 that follow"


def test_packed_as_megatron_reads_it(samestep, tmp_path):
    numpy = pytest.importorskip("numpy", reason="pip install numpy, to read what was packed")
    path = tmp_path / "tokenizer.json"
    path.write_text(variant("llama3"))
    other = tokenizers.Tokenizer.from_file(str(path))
    texts = corpus()[:300] + [""]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    written = {}
    for threads in [1, 3]:
        samestep("data", "pack", source, "-o", tmp_path / "x", "--tokenizer", path, "--threads", threads)
        written[threads] = [(tmp_path / f"x_text_document.{kind}").read_bytes() for kind in ("idx", "bin")]
    assert written[1] == written[3]
    index, tokens = written[1]
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, sequences, bounds = numpy.frombuffer(
        index, numpy.dtype("<u8, u1, <u8, <u8"), count=1, offset=9
    )[0].tolist()
    assert (version, code) == (1, 8)
    lengths = numpy.frombuffer(index, "<i4", sequences, 34)
    pointers = numpy.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    documents = numpy.frombuffer(index, "<i8", bounds, 34 + 12 * sequences)
    assert bounds == len(texts) + 1 and documents[-1] == sequences == len([t for t in texts if t])
    end = other.token_to_id("<|endoftext|>")
    for i, text in enumerate(text for text in texts if text):
        found = numpy.frombuffer(tokens, "<u2", lengths[i], pointers[i]).tolist()
        assert found == other.encode(text, add_special_tokens=False).ids + [end]
