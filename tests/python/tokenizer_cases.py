"""Tokenizers of every supported kind, and texts that are hard to cut: shared by vectors and parity test."""

import copy
import random

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
POSSESSIVE = r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{2}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]|\s+(?!\S)|\s"


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(token, number, **flags):
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": token} | base | flags


def metaspace(scheme, do_split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": do_split}


def variants(bytes_size, chars_size):
    """name -> (base, JSON merge patch)"""
    n, m = bytes_size, chars_size
    end = added("<|endoftext|>", n)
    more = [
        end,
        added("<|end|>", n + 1, lstrip=True),
        added("<|begin|>", n + 2, rstrip=True),
        added("<|end|>>", n + 3, special=False),
        added("caf\u00e9", n + 4, normalized=True, special=False),
        added("Lord", n + 5, normalized=True, special=False, lstrip=True, rstrip=True),
    ]
    nfc = {"type": "NFC"}
    pieces = {
        "gpt2": {"pre_tokenizer": byte_level(regex=True)},
        "prefix": {"pre_tokenizer": byte_level(prefix=True, regex=True)},
        "llama3": {"pre_tokenizer": sequence(split(LLAMA3), byte_level()), "model": {"ignore_merges": True}},
        "qwen2": {"normalizer": nfc, "pre_tokenizer": sequence(split(QWEN2), byte_level())},
        "o200k": {"pre_tokenizer": sequence(split(O200K), byte_level())},
        "o200k-removed": {"pre_tokenizer": sequence(split(O200K, "Removed", True), byte_level())},
        "deepseek": {
            "pre_tokenizer": sequence(
                split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), byte_level()
            )
        },
        "possessive": {"pre_tokenizer": sequence(split(POSSESSIVE), byte_level())},
        "starcoder": {
            "pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level(regex=True))
        },
        "digits": {
            "pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, byte_level(True, True))
        },
        "added": {"added_tokens": more, "normalizer": nfc, "pre_tokenizer": byte_level(regex=True)},
    }
    for behavior in ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        pieces[behavior] = {"pre_tokenizer": sequence(split(r"\s", behavior), byte_level())}
        pieces[behavior + "-invert"] = {"pre_tokenizer": sequence(split(r"[\p{L}\p{M}]+", behavior, True), byte_level())}
    pieces["literal"] = {"pre_tokenizer": sequence(split("th", "MergedWithPrevious", kind="String"), byte_level(True))}
    result = {name: ("bytes", {"added_tokens": [end]} | patch) for name, patch in pieces.items()}

    prepend = {"type": "Prepend", "prepend": "\u2581"}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    llama2 = {"type": "Sequence", "normalizers": [prepend, replace]}
    fallback = {"model": {"byte_fallback": True}}
    tokens = [added("<unk>", 0), added("</s>", 1), added("<tag>", m, normalized=True, special=False)]
    squeeze = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    pieces = {
        "llama2": {"normalizer": llama2, "pre_tokenizer": None} | fallback,
        "unknown": {"pre_tokenizer": metaspace("always"), "model": {"byte_fallback": False, "fuse_unk": False}},
        "unknown-fused": {"pre_tokenizer": metaspace("always"), "model": {"byte_fallback": False, "fuse_unk": True}},
        "metaspace-first": {"pre_tokenizer": metaspace("first")} | fallback,
        "metaspace-never": {"normalizer": squeeze, "pre_tokenizer": metaspace("never")} | fallback,
        "metaspace-whole": {"pre_tokenizer": metaspace("first", False)} | fallback,
    }
    result |= {name: ("chars", {"added_tokens": tokens} | patch) for name, patch in pieces.items()}
    return result


def merge_patch(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result[key] = None  # a null in a tokenizer.json is a value
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


FIXED = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n",
    " \n \n  x",
    "\t\tx\t",
    "In the beginning God created the heaven and the earth.",
    "  1 In the beginning  God   created\n  2 And the earth was without form, and void;",
    "I'm, you're, he'll, we've, I'd, don't, it's; I'M, YOU'RE, HE'LL, WE'VE, I'D, DON'T, IT'S",
    "it'\u017f it'\u017fe 'S's '\u017f \u2019s 'LL 'Ll 'lL",
    "1 12 123 1234 12345 123456789 3.14 1,000,000 \u0661\u0662\u0663 \u00bd\u2167\u3007 \u00b2\u00b3 x2y",
    "caf\u00e9 cafe\u0301 CAF\u00c9 na\u00efve \u01c5 \u01c6 \u0149 \ufb06 \u1e9e stra\u00dfe",
    "\u4e2d\u6587\u5b57\u7b26\u3001\u65e5\u672c\u8a9e\u3072\u3089\u304c\u306a\u30ab\u30bf\u30ab\u30ca \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f3fd\U0001f1e9\U0001f1ea \u2764\ufe0f",
    "a\u00a0b\u2003c\u3000d\u0085e\u2028f\u2029g\u200bh\ufeffi\u180ej",
    "<|endoftext|>", "a<|endoftext|> b", "<|endoftext|", " <|end|> x", "x  <|end|>  <|begin|>  y",
    "<|end|>><|end|><|begin|><|begin|>", "the Lord  God, Lordship caf\u00e9 cafe\u0301s <|end|>\n\n<|begin|>\n",
    "<unk></s><tag> <tag>x<tag>", "\u2581a \u2581 b\u2581\u2581c", "<0x41> \x00\x01\x7f\r\r\n",
    "a" * 300, " " * 300, "\n" * 200 + " " * 100 + "x", "ab" * 200 + "'s", "A" * 100 + "b", "\u0301" * 50,
    "e\u0301\u0323\u0327 \u1e0b\u0323 \u0344 \u212b \u1100\u1161\u11a8 \uac00\u11a8 q\u0307\u0323 \u0958 \u2adc \ufb1d",
]  # fmt: skip

POOLS = [
    (0x20, 0x7F), (0x20, 0x7F), (0x09, 0x0E), (0x00, 0x20), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530),
    (0x590, 0x900), (0x900, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2070), (0x2070, 0x2C00), (0x3000, 0x3100),
    (0x4E00, 0x9FFF), (0xA640, 0xABFF), (0xAC00, 0xD7A4), (0xE000, 0xE010), (0xF900, 0xFE10), (0xFE00, 0x10000),
    (0x10000, 0x12000), (0x1D000, 0x1E000), (0x1F000, 0x1FB00), (0x20000, 0x20100), (0xE0000, 0xE0200),
    (0x10FFF0, 0x110000), (0x0, 0xD800), (0xE000, 0x110000),
]  # fmt: skip
WORDS = ["'s", "'RE", " the", "God", "  ", "\n", "\r\n", " 12", "3456", "<|end|>", "<|endoftext|>", "Lord", "<tag>", "\u2581", "th"]


def hostile(count, seed):
    """Random texts, of single code points (unassigned ones too) and of runs from one block."""
    source = random.Random(seed)
    for _ in range(count):
        text = []
        for _ in range(source.randrange(1, 12)):
            low, high = source.choice(POOLS)
            kind = source.randrange(4)
            if kind == 0:
                text.append(source.choice(WORDS))
            elif kind == 1:
                text.append(chr(source.randrange(low, high)) * source.randrange(1, 6))
            else:
                text.extend(chr(source.randrange(low, high)) for _ in range(source.randrange(1, 8)))
        yield "".join(text)
