"""Sums in pairs of float32: what rounding leaves over is kept and added last.

FP64 runs at a 64th of float32's rate on Ada, and a sum in pairs has as many digits as any sum here needs.
"""

import triton
import triton.language as tl


@triton.jit
def two_sum(b_x, b_y):
    """X + y and what its rounding leaves over, exactly."""
    b_s = b_x + b_y
    b_v = b_s - b_x
    return b_s, (b_x - (b_s - b_v)) + (b_y - b_v)


@triton.jit
def add_to_pair(b_sum, b_rest, b_x):
    """The pair sum + rest with x added."""
    b_sum, b_left = two_sum(b_sum, b_x)
    return b_sum, b_rest + b_left


@triton.jit
def add_pairs(b_x, b_xrest, b_y, b_yrest):
    """The sum of two pairs."""
    b_sum, b_left = two_sum(b_x, b_y)
    return b_sum, b_left + (b_xrest + b_yrest)


@triton.jit
def close_pair(b_sum, b_rest, axis: tl.constexpr):
    """The sum of a pair over an axis."""
    return tl.sum(b_sum, axis) + tl.sum(b_rest, axis)
