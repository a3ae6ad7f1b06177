"""The Stiefel frame: D x 2M with orthonormal columns, kept exactly on the manifold while D*2M coordinates train.

The frame is the first 2M columns of `base @ exp(S)`, where `base` is a D x D orthogonal buffer and S is the
skew-symmetric matrix of a D x 2M tangent: `S = TANGENT_SCALE (X - X^T)`, X the tangent padded to D x D. After every
optimizer step `rebase` moves the base to the current frame and sets the tangent back to zero, so the optimizer always
works in coordinates centred at the frame itself.

All products here are in float64, whatever the model's type. Autocast and TF32 (`set_float32_matmul_precision("high")`)
do not touch float64, and with their ten bits the columns would leave the manifold within a few steps.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Squarings of the fixed-order exponential. Its degree-12 Taylor series sees matrices of 1-norm 0.5 or less whenever the
# argument's is at most 16, and then leaves out less than 0.5**13 / 13! = 2e-14.
SQUARINGS = 5
# Adam moves every coordinate by about its learning rate, whatever the gradient's size, so the coordinates' scale is how
# fast frames turn relative to the rest. Chosen on evidence: docs/decisions.md.
TANGENT_SCALE = 0.1


def fixed_order_expm(matrix: Tensor, *, squarings: int = SQUARINGS) -> Tensor:
    """The exponential of a matrix by scaling and squaring, with an order that never depends on the data.

    `torch.matrix_exp` reads the norm on the host to choose its order, which no CUDA graph can capture; this does the
    same ten products every time. Accurate for 1-norms up to 2**(squarings - 1), 16 by default.
    """
    result = _expm1(matrix, squarings)
    return (_identity_like(result) + result).to(matrix.dtype)


def _expm1(matrix: Tensor, squarings: int = SQUARINGS) -> Tensor:
    """exp(matrix) - I in float64, so that a small rotation keeps all its digits: (I + E)^2 = I + (2E + E^2)."""
    x = matrix.double() / 2.0**squarings
    x2 = x @ x
    x3 = x2 @ x
    x4 = x2 @ x2

    def cubic(start: int, constant: Tensor) -> Tensor:
        coefficients = [1.0 / math.factorial(start + k) for k in range(4)]
        return constant * coefficients[0] + x * coefficients[1] + x2 * coefficients[2] + x3 * coefficients[3]

    identity = _identity_like(x)
    result = cubic(8, identity) + x4 / math.factorial(12)
    result = cubic(4, identity) + x4 @ result
    result = cubic(0, torch.zeros_like(x)) + x4 @ result
    for _ in range(squarings):
        result = 2.0 * result + result @ result
    return result


def _identity_like(matrix: Tensor) -> Tensor:
    return torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


class Frame(nn.Module):
    """Trainable orthonormal columns `A = (base @ exp(skew(tangent)))[:, :2M]`, real parts first."""

    base: Tensor

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.columns = 2 * modes
        orthogonal = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64)).Q
        # By rows, as it is stored in a file: products of a matrix that lies by columns are rounded otherwise.
        self.register_buffer("base", orthogonal.to(torch.get_default_dtype()).contiguous())
        self.tangent = nn.Parameter(torch.zeros(width, self.columns))

    def forward(self) -> Tensor:
        """The frame (D, 2M), differentiable in the tangent at any value of it."""
        return self._moved()[:, : self.columns].to(self.tangent.dtype)

    def to_first_order(self) -> Tensor:
        """The frame (D, 2M) to first order in the tangent: at a zero tangent, exact in value and derivative."""
        base = self.base.double()
        return (base + base @ self._skew().double())[:, : self.columns].to(self.tangent.dtype)

    def _moved(self) -> Tensor:
        base = self.base.double()
        return base + base @ _expm1(self._skew())

    def _skew(self) -> Tensor:
        square = F.pad(TANGENT_SCALE * self.tangent, (0, self.tangent.shape[0] - self.columns))
        return square - square.mT

    @torch.no_grad()
    def rebase(self) -> None:
        """Move the base to the frame and the tangent to zero after an optimizer step, then take one Newton-Schulz step.

        The Newton-Schulz step squares the departure from orthogonality, so rounding does not accumulate.
        """
        moved = self._moved()
        self.base.copy_(1.5 * moved - 0.5 * moved @ (moved.mT @ moved))
        self.tangent.zero_()


class FixedFrame(nn.Module):
    """A frame that no longer trains: its matrix, stored."""

    columns_matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("columns_matrix", matrix.detach().clone())

    def forward(self) -> Tensor:
        """The stored frame (D, 2M)."""
        return self.columns_matrix
