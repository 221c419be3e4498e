"""Writes tests/data/reference.safetensors with the safetensors package of PyPI: a tensor of each type.

    python3 tests/python/make_safetensors_vector.py     # needs: pip install safetensors numpy

safetensors_test.cc reads the file, and must write the same bytes itself.
"""

import pathlib

import numpy
from safetensors import TensorSpec, serialize

# The package's name of each type, and the bits of an element (of a pair of 4-bit ones).
TYPES = {
    "bool": 8, "float4_e2m1fn_x2": 8, "uint8": 8, "int8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8,
    "float8_e8m0fnu": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "int16": 16, "uint16": 16, "float16": 16,
    "bfloat16": 16, "int32": 32, "uint32": 32, "float32": 32, "complex64": 64, "float64": 64, "int64": 64,
    "uint64": 64,
}  # fmt: skip


def main():
    tensors, kept = {}, []
    for number, (dtype, bits) in enumerate(TYPES.items()):
        shape = [2, 3, 2 * (number % 3)]
        size = 12 * (number % 3) * bits // 8
        data = numpy.arange(7 * number, 7 * number + size, dtype=numpy.uint64).astype(numpy.uint8)
        kept.append(data)
        tensors[f"tensor.{(number * 7) % 20}"] = TensorSpec(
            dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes
        )
    path = pathlib.Path(__file__).resolve().parent.parent / "data/reference.safetensors"
    path.write_bytes(serialize(tensors, {"format": "pt"}))


if __name__ == "__main__":
    main()
