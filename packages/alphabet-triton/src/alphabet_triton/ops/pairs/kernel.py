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


@triton.jit
def normalize(b_x, b_rest):
    """A pair whose first number is the sum rounded."""
    b_s = b_x + b_rest
    return b_s, b_rest - (b_s - b_x)


@triton.jit
def halve(b_x):
    """X in two numbers of twelve bits, whose products are exact."""
    b_high = (b_x.to(tl.int32, bitcast=True) & -4096).to(tl.float32, bitcast=True)
    return b_high, b_x - b_high


@triton.jit
def multiply_pairs(b_x, b_xrest, b_y, b_yrest):
    """The product of two pairs.

    It is a sum of products that are exact or far below: contracted to multiply-adds, as the compiler likes to, it is
    the same.
    """
    b_xh, b_xl = halve(b_x)
    b_yh, b_yl = halve(b_y)
    b_p, b_left = two_sum(b_xh * b_yh, b_xh * b_yl + b_xl * b_yh)
    return normalize(b_p, b_left + (b_xl * b_yl + (b_x * b_yrest + b_xrest * b_y)))


@triton.jit
def divide_pairs(b_x, b_xrest, b_y, b_yrest):
    """The quotient of two pairs: rounded, then corrected by what it leaves of x."""
    b_q = tl.div_rn(b_x, b_y)
    b_p, b_prest = multiply_pairs(b_q, 0.0 * b_q, b_y, b_yrest)
    b_left = ((b_x - b_p) - b_prest) + b_xrest
    return normalize(b_q, tl.div_rn(b_left, b_y))
