"""Products of float32 matrices as tensor cores compute them where TF32 is allowed, on a CPU, which has none."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default}


def round_to_tf32(tensor: Tensor) -> Tensor:
    """The tensor with ten bits of its significands, if it is float32."""
    if tensor.dtype != torch.float32:
        return tensor
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Tf32Products(TorchDispatchMode):
    """A block in which `torch.set_float32_matmul_precision` acts on matrix products as it does on a GPU.

    rounded: how many products had operands in float32 that were rounded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rounded = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS and torch.get_float32_matmul_precision() != "highest":
            self.rounded += any(isinstance(x, Tensor) and x.dtype == torch.float32 for x in args)
            args = tuple(round_to_tf32(x) if isinstance(x, Tensor) else x for x in args)
        return function(*args, **(kwargs or {}))


@contextmanager
def tf32_allowed() -> Iterator[None]:
    """A block with `set_float32_matmul_precision("high")`, in which no product of float32 matrices may be computed."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with Tf32Products() as products:
            assert float((torch.full((1, 1), 1.0001) @ torch.ones(1, 1))[0, 0]) == 1.0  # it does act
            yield
            assert products.rounded == 1, "a product was rounded to TF32"
    finally:
        torch.set_float32_matmul_precision(before)


LESS_PRECISE = {"autocast": lambda: torch.autocast("cpu", torch.bfloat16), "tf32": tf32_allowed}
