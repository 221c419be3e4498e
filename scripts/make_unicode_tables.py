#!/usr/bin/env python3
"""Writes src/data/unicode_tables.cc: the properties of each code point that pre-tokenization asks for.

    pip install tokenizers==0.23.3 && python scripts/make_unicode_tables.py

The same text must become the same tokens as in Hugging Face's `tokenizers`, so its own tables are what counts,
and it has three: Oniguruma's for regular expressions, Rust's for the pre-tokenizer Digits, and those of
its normalizer. They follow different versions of Unicode. Each code point is tried out here.
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "M", "Nd", "Nl", "No", "P", "S"]
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
SPACE, DIGIT = 16, 32


def matching(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return [c for c in CODE_POINTS if not split.pre_tokenize_str(chr(c))]


def properties():
    table = [0] * 0x110000
    for number, category in enumerate(CATEGORIES, start=1):
        for c in matching(r"\p{%s}" % category):
            assert table[c] == 0, (hex(c), category)
            table[c] = number
    for c in matching(r"\s"):
        table[c] |= SPACE
    digits = pre_tokenizers.Digits(individual_digits=False)
    for c in CODE_POINTS:
        if len(digits.pre_tokenize_str("\ue000" + chr(c))) == 2:
            table[c] |= DIGIT
    return table


def normalization():
    """Full decompositions, composition pairs and combining classes as the normalizer NFC has them."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    hangul = range(0xAC00, 0xD7A4)
    decompositions, pairs, classes = [], [], []
    for c in CODE_POINTS:
        if c in hangul:
            continue
        full = nfd(chr(c))
        if full != chr(c):
            decompositions.append((c, [ord(x) for x in full]))
        one = unicodedata.decomposition(chr(c))
        if one and not one.startswith("<") and " " in one:
            first, second = (int(x, 16) for x in one.split())
            if nfc(chr(first) + chr(second)) == chr(c):
                pairs.append((first, second, c))
        combining = unicodedata.combining(chr(c))
        # A mark that the normalizer knows moves behind an overlay (class 1) or before the iota (class 240).
        moves = nfd("\ue000" + chr(c) + "\u0334") != "\ue000" + full + "\u0334"
        moves |= nfd("\ue000\u0345" + chr(c)) != "\ue000\u0345" + full
        if combining and (moves or c in (0x334, 0x345)) and len(full) == 1:
            classes.append((c, combining))
    return decompositions, pairs, classes


def lines(items, per_line):
    for i in range(0, len(items), per_line):
        yield "    " + " ".join(items[i : i + per_line])


def main():
    table = properties()
    decompositions, pairs, classes = normalization()
    ranges = [(c, p) for c, p in enumerate(table) if c == 0 or table[c - 1] != p]
    flat, index = [], []
    for c, full in decompositions:
        index.append("{0x%x, %d, %d}," % (c, len(flat), len(full)))
        flat.extend("0x%x," % x for x in full)
    out = [
        "// Made by scripts/make_unicode_tables.py from tokenizers %s; do not edit." % tokenizers.__version__,
        "// clang-format off",
        '#include "data/unicode_tables.h"',
        "",
        "namespace samestep {",
        "",
        "// First code point of a run, property.",
        "const PropertyRun kPropertyRuns[%d] = {" % len(ranges),
        *lines(["{0x%x, %d}," % r for r in ranges], 9),
        "};",
        "const int kPropertyRunCount = %d;" % len(ranges),
        "",
        "const uint32_t kDecomposed[%d] = {" % len(flat),
        *lines(flat, 14),
        "};",
        "// Code point, first of its decomposition in kDecomposed, length.",
        "const Decomposition kDecompositions[%d] = {" % len(index),
        *lines(index, 7),
        "};",
        "const int kDecompositionCount = %d;" % len(index),
        "",
        "// First, second, what they compose to; sorted.",
        "const Composition kCompositions[%d] = {" % len(pairs),
        *lines(["{0x%x, 0x%x, 0x%x}," % p for p in sorted(pairs)], 5),
        "};",
        "const int kCompositionCount = %d;" % len(pairs),
        "",
        "// Code point, combining class.",
        "const CombiningClass kCombiningClasses[%d] = {" % len(classes),
        *lines(["{0x%x, %d}," % c for c in classes], 9),
        "};",
        "const int kCombiningClassCount = %d;" % len(classes),
        "",
        "}  // namespace samestep",
    ]
    path = pathlib.Path(__file__).parent.parent / "src" / "data" / "unicode_tables.cc"
    path.write_text("\n".join(out) + "\n")
    print(len(ranges), len(index), len(pairs), len(classes), path.stat().st_size)


if __name__ == "__main__":
    main()
