"""Trains the two tokenizers in tests/data/tokenizers and writes what PyPI's tokenizers makes of hard texts.

    pip install tokenizers==0.23.3 && bible -l79 Gen1:1-Rev22:21 < /dev/null > kjv.txt
    python tests/python/make_tokenizer_vectors.py kjv.txt

Also writes the byte-level one as GPT-2's two files. src/data/bpe_tokenizer_test.cc reads all of it.
"""

import json
import pathlib
import sys

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import tokenizer_cases as cases

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "tokenizers"


def train_bytes(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())


def train_chars(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    strip = [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), *strip])
    special = ["<unk>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    root = json.loads(tokenizer.to_str())
    root["added_tokens"] = [t for t in root["added_tokens"] if t["content"] in ("<unk>", "</s>")]
    return root


def fnv(values):
    """64-bit FNV-1a over whole numbers, one round each."""
    digest = 0xCBF29CE484222325
    for value in values:
        digest = ((digest ^ value) * 0x100000001B3) % 2**64
    return f"{digest:016x}"


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    kjv = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    texts = kjv.split("\n\n")[:800] + cases.FIXED * 3
    FOLDER.mkdir(exist_ok=True)
    bases = {"bytes": train_bytes(texts), "chars": train_chars(texts)}
    for name, root in bases.items():
        write(FOLDER / f"{name}.json", root)
    (FOLDER / "gpt2").mkdir(exist_ok=True)
    model = bases["bytes"]["model"]
    write(FOLDER / "gpt2" / "encoder.json", model["vocab"])
    merges = "".join(f"{a} {b}\n" for a, b in model["merges"])
    (FOLDER / "gpt2" / "vocab.bpe").write_text("#version: 0.2\n" + merges, encoding="utf-8")

    sizes = [len(bases[name]["model"]["vocab"]) for name in ("bytes", "chars")]
    inputs = cases.FIXED + list(cases.hostile(30, seed=1)) + [kjv[5000:5600]]
    out = {"tokenizers": tokenizers.__version__, "texts": inputs, "variants": []}
    for name, (base, patch) in cases.variants(*sizes).items():
        tokenizer = Tokenizer.from_str(json.dumps(cases.merge_patch(bases[base], patch)))
        ids = [fnv(tokenizer.encode(text, add_special_tokens=False).ids) for text in inputs]
        out["variants"].append({"name": name, "base": base, "patch": patch, "ids": ids})
    lines = json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"')
    (FOLDER / "vectors.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
