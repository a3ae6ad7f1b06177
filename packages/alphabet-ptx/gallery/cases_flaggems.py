"""FlagGems: operators of torch in Triton, from elementwise ones to sorting, gathering, products and convolutions."""

import os
from collections.abc import Callable
from types import ModuleType

import torch
import torch.nn.functional as F
from case import EXACT, FP32, TF32, Compared, Source, compare, integers, normal
from torch import Tensor

GEMS = Source("flag-gems")


def gems() -> ModuleType:
    """The package; it asks the system for its vendor's tools unless it is told the vendor.

    It keeps what its tuner finds for later processes. Nothing found here is worth that.
    """
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    os.environ.setdefault("FLAGGEMS_DB_URL", "sqlite://")  # in memory
    import flag_gems

    return flag_gems


def declare(
    name: str,
    tolerance: float,
    launcher: Callable[..., object],
    definition: Callable[..., object],
    *inputs: Tensor,
    bounds: str = "view",
) -> None:
    """Add a case that compares an operator, called with the package and the inputs, with torch in float64."""

    def run() -> list[Compared]:
        package = gems()
        return compare(lambda *each: launcher(package, *each), definition, *inputs, gradients=False)

    GEMS.case(name, tolerance, bounds=bounds)(run)


def spatial(*shape: int, seed: int = 0) -> Tensor:
    """An image or its weights."""
    return normal(*shape, seed=seed)


def shuffled(count: int) -> Tensor:
    """The numbers up to `count` in two rows, none twice, since sorting may exchange equals."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0)).reshape(2, -1)


distinct = shuffled(200).float()
index = integers(0, 20, 7, 8, seed=1)
row = integers(0, 20, 7, seed=2)
places = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(i))[:7] for i in range(8)], 1)

declare("softmax", FP32, lambda g, x: g.softmax(x, -1), lambda x: x.softmax(-1), normal(5, 70))
declare("log softmax", FP32, lambda g, x: g.log_softmax(x, -1), lambda x: x.log_softmax(-1), normal(5, 70))
declare("GELU", FP32, lambda g, x: g.gelu(x), F.gelu, normal(5, 70))
declare("power", FP32, lambda g, x, y: g.pow_tensor_tensor(x, y), torch.pow, normal(90).exp(), normal(90, seed=1))
declare("error function", FP32, lambda g, x: g.erf(x), torch.erf, normal(5, 70))
declare("sum", FP32, lambda g, x: g.sum_dim(x, [1]), lambda x: x.sum(1), normal(5, 70))
declare("variance and mean", FP32, lambda g, x: g.var_mean(x, [1]), lambda x: torch.var_mean(x, 1), normal(5, 70))
declare("argmax", EXACT, lambda g, x: g.argmax(x, 1), lambda x: x.argmax(1), normal(5, 70))
declare("running sum", FP32, lambda g, x: g.cumsum(x, 1), lambda x: x.cumsum(1), normal(3, 500))
declare("running maximum", EXACT, lambda g, x: g.cummax(x, 1), lambda x: torch.cummax(x, 1), distinct)
declare("the largest", EXACT, lambda g, x: g.topk(x, 5), lambda x: x.topk(5), distinct)
declare("sort", EXACT, lambda g, x: g.sort(x, -1), lambda x: x.sort(-1), distinct)
declare("radix sort", EXACT, lambda g, x: g.sort(x), lambda x: x.sort(), shuffled(3000).int() - 1500)
# The source is passed as a view of its first row.
declare("gather", EXACT, lambda g, x: g.gather(x, 0, index), lambda x: x.gather(0, index), normal(20, 8),
        bounds="storage")  # fmt: skip
declare(
    "scatter",
    EXACT,
    lambda g, x, y: g.scatter(x, 0, places, y),
    lambda x, y: x.scatter(0, places, y),
    normal(20, 8),
    normal(7, 8, seed=1),
)
declare(
    "index add",
    FP32,
    lambda g, x, y: g.index_add(x, 0, row, y),
    lambda x, y: x.index_add(0, row, y),
    normal(20, 8),
    normal(7, 8, seed=1),
)
declare("embedding", EXACT, lambda g, x: g.embedding(x, index), lambda x: F.embedding(index, x), normal(20, 8))
declare("nonzero", EXACT, lambda g, x: g.nonzero(x), torch.nonzero, integers(0, 2, 6, 9))
declare("masked select", EXACT, lambda g, x: g.masked_select(x, x > 0), lambda x: x[x > 0], normal(5, 70))
declare(
    "unique",
    EXACT,
    lambda g, x: g._unique2(x, True, True, True),
    lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    integers(0, 30, 200),
)
declare("is in", EXACT, lambda g, x: g.isin(x, index), lambda x: torch.isin(x, index), integers(0, 40, 90))
declare("upper triangle", EXACT, lambda g, x: g.triu(x, 1), lambda x: x.triu(1), normal(9, 12))
declare("product", TF32, lambda g, x, y: g.mm(x, y), torch.mm, normal(40, 50), normal(50, 30, seed=1))
declare("products", TF32, lambda g, x, y: g.bmm(x, y), torch.bmm, normal(2, 20, 30), normal(2, 30, 20, seed=1))
declare("matrix and vector", FP32, lambda g, x, y: g.mv(x, y), torch.mv, normal(40, 50), normal(50, seed=1))
declare("convolution", TF32, lambda g, x, w: g.conv2d(x, w, padding=1), lambda x, w: F.conv2d(x, w, padding=1),
        spatial(1, 4, 10, 10), spatial(8, 4, 3, 3, seed=1))  # fmt: skip
declare("maximum pooling", EXACT, lambda g, x: g.max_pool2d_with_indices(x, 2),
        lambda x: F.max_pool2d(x, 2, return_indices=True), spatial(2, 3, 8, 8))  # fmt: skip
declare("nearest neighbours", EXACT, lambda g, x: g.upsample_nearest2d(x, (12, 12)),
        lambda x: F.interpolate(x, (12, 12)), spatial(2, 3, 6, 6))  # fmt: skip
declare(
    "layer norm",
    FP32,
    lambda g, x, w, b: g.layer_norm(x, [70], w, b)[0],
    lambda x, w, b: F.layer_norm(x, (70,), w, b),
    normal(5, 70),
    normal(70, seed=1),
    normal(70, seed=2),
)
declare(
    "attention",
    1e-2,  # queries, keys and values in half precision, and weights cut to it
    lambda g, q, k, v: g.scaled_dot_product_attention(q, k, v, is_causal=True),
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    *(normal(1, 2, 64, 64, seed=i, dtype=torch.float16) for i in range(3)),
)
