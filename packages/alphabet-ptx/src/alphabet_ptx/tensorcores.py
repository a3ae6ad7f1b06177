"""The sums of tensor cores as measurements on GPUs describe them; NVIDIA documents neither order nor rounding.

Products are exact. A block of them and the accumulator are aligned to the largest exponent among them, cut (towards
zero) behind a fixed number of bits, added exactly, and the sum is cut to float32, or rounded to the nearest float16.
Then follows the next block. Known from experiments, not from NVIDIA:

- M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Comput. Sci. 7 (2021):
  truncation and blocks, up to A100.
- P. Xie, Y. Wang, F. Yang, M. Yang, "MMA-Sim: Bit-accurate reference model of tensor cores and matrix cores",
  arXiv:2511.10909 (2025), compared bit by bit with ten architectures. The numbers below are those of its published
  code (`mmasim/simulator/nv_ptx.py`, classes mma and wgmma), with which they were compared.
- F. Khattak, M. Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004 (2025): V100 to B200.

Ampere and Ada add blocks of 16 bytes of a row (8 of fp16 and bf16, 4 of tf32, 16 of fp8) with 24 bits behind the point,
Hopper blocks of 32 bytes with 25 bits; fp8 has 13 bits, and so has its float32 result. Taken to be worse than
reported: a product's exponent counts as normalised, where a GPU adds those of its factors and may keep one bit
more. Not found in these sources: sm_87, taken to be as sm_80, and mma with fp8 on Hopper, taken to be as wgmma. Not
modelled: which of equal zeros results, and sums that overflow, which become infinite here. Products in float64 and in
integers are as in the ideal mode.
"""

import numpy as np

from alphabet_ptx.datatypes import Array
from alphabet_ptx.rounding import round_f32

_SIZES = {"e4m3": 1, "e5m2": 1, "f16": 2, "bf16": 2, "tf32": 4}
_FP8 = ("e4m3", "e5m2")
_FP8_BITS = 13
_HOPPER = 90


def add_products(a: Array, b: Array, c: Array, *, kind: str, result: str, target: int) -> Array:
    """The product a b + c, (..., m, k) (..., k, n) (..., m, n) in float64, as GPU sm_`target` rounds it.

    `kind` is the type of the factors, `result` that of the accumulator.
    """
    if kind not in _SIZES:
        return np.asarray(a @ b + c)
    length = (32 if target >= _HOPPER else 16) // _SIZES[kind]
    bits = _FP8_BITS if kind in _FP8 else 25 if target >= _HOPPER else 24
    columns = np.swapaxes(b, -1, -2)
    total = c
    for start in range(0, a.shape[-1], length):
        part = slice(start, start + length)
        products = a[..., :, None, part] * columns[..., None, :, part]  # (..., m, n, length)
        terms = np.concatenate([total[..., None], products], axis=-1)
        total = _round(add_aligned(terms, bits), result, fp8=kind in _FP8)
    return total


def add_aligned(terms: Array, bits: int) -> Array:
    """The sums over the last axis, each term cut `bits` bits behind the point of the largest."""
    exponents = np.where(terms == 0, np.iinfo(np.int32).min, np.frexp(terms)[1])
    largest = exponents.max(axis=-1, keepdims=True)
    quantum = np.ldexp(1.0, np.where(largest < -2000, 0, largest) - 1 - bits)
    aligned = np.trunc(terms / quantum) * quantum
    finite = np.isfinite(terms).all(axis=-1)
    return np.where(finite, np.where(np.isfinite(aligned), aligned, 0.0).sum(axis=-1), terms.sum(axis=-1))


def _round(total: Array, result: str, *, fp8: bool) -> Array:
    """The sums as the accumulator keeps them, in float64."""
    if result == "f16":
        return total.astype(np.float16).astype(np.float64)
    cut = round_f32(total, "rz")
    if fp8:
        keep = np.uint32(0xFFFFFFFF ^ ((1 << (23 - _FP8_BITS)) - 1))
        cut = np.where(np.isfinite(cut), (cut.view(np.uint32) & keep).view(np.float32), cut)
    return np.where(np.abs(total) >= 2.0**128, np.copysign(np.inf, total), cut.astype(np.float64))
