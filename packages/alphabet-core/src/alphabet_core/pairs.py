"""Complex numbers as pairs of reals.

A tensor of M complex numbers is stored as 2M reals along its last axis, real parts first: `[Re | Im]`. This is the
layout of the frame's columns, so `features @ frame` is already packed and a packed state times the frame's transpose
synthesizes. No complex dtype appears in the model, hence it exports, and fused kernels read the same memory.
"""

import torch
from torch import Tensor


def split(z: Tensor) -> tuple[Tensor, Tensor]:
    """The real and the imaginary half of packed pairs, as views."""
    half = z.shape[-1] // 2
    return z[..., :half], z[..., half:]


def pack(re: Tensor, im: Tensor) -> Tensor:
    """The packed pairs (..., 2M) of real and imaginary parts (..., M)."""
    return torch.cat((re, im), dim=-1)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The complex product of packed pairs, broadcasting every axis but the last; cheapest with the smaller first."""
    a_re, a_im = split(a)
    b_re, b_im = split(b)
    return torch.addcmul(b * pack(a_re, a_re), pack(b_im, b_re), pack(-a_im, a_im))


def to_complex(z: Tensor) -> Tensor:
    """The packed pairs as a complex tensor, for analysis and plots."""
    return torch.complex(*split(z))


def from_complex(z: Tensor) -> Tensor:
    """A complex tensor as packed pairs."""
    return pack(z.real, z.imag)
