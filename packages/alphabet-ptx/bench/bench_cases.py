"""The cases of the benchmark: kernels at the sizes of a test suite, with arguments drawn from fixed seeds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import bench_kernels as kernels
import numpy as np
from alphabet_ptx import CompiledKernel, compile_kernel
from alphabet_testing.ptx.kernels import softmax_rows_kernel

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A launch: how its kernel is compiled, its grid, and a function that makes fresh arguments."""

    name: str
    kernel: Any
    signature: dict[str, str]
    constants: dict[str, int]
    grid: tuple[int, ...]
    arguments: Callable[[], Arguments]
    options: dict[str, Any] = field(default_factory=dict)

    def compile(self) -> CompiledKernel:
        """The compiled kernel."""
        return compile_kernel(self.kernel, self.signature, self.constants, **self.options)


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: Any = np.float32) -> Any:
    """Normal random numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def blank(*shape: int, dtype: Any = np.float32) -> Any:
    """Zeros, to be written by a kernel."""
    return np.zeros(shape, dtype)


def signature(pointers: str, kind: str = "*fp32", **rest: str) -> dict[str, str]:
    """The signature of pointers with these names, separated by blanks, then of the rest."""
    return {**dict.fromkeys(pointers.split(), kind), **rest}


def _attention(name: str, heads: int, length: int) -> Case:
    return Case(
        name,
        kernels.attention_kernel,
        {**signature("q k v", "*fp16"), **signature("out lse", T="i32", scale="fp32")},
        {"BT": 64, "BS": 32, "D": 64},
        (-(-length // 64), heads),
        lambda: {
            **{each: normal(heads, length, 64, seed=i, dtype=np.float16) for i, each in enumerate("qkv")},
            "out": blank(heads, length, 64),
            "lse": blank(heads, length),
            "T": length,
            "scale": 0.125,
        },
        {"stages": 3},
    )


def _complex_scan(name: str, programs: int) -> Case:
    return Case(
        name,
        kernels.complex_scan_kernel,
        signature("ar ai br bi hr hi", T="i32"),
        {"M": 16, "BT": 64},
        (programs,),
        lambda: {
            "ar": normal(16, scale=0.5),
            "ai": normal(16, seed=1, scale=0.5),
            "br": normal(programs, 16, 300, seed=2),
            "bi": normal(programs, 16, 300, seed=3),
            "hr": blank(programs, 16, 300),
            "hi": blank(programs, 16, 300),
            "T": 300,
        },
    )


def _chunk_scan(name: str, heads: int, length: int) -> Case:
    chunks = -(-length // 64)
    return Case(
        name,
        kernels.chunk_scan_kernel,
        signature("x dt decay B C states out", T="i32"),
        {"BT": 64, "P": 64, "N": 32},
        (chunks, heads),
        lambda: {
            "x": normal(heads, length, 64),
            "dt": np.abs(normal(heads, length, seed=1)),
            "decay": -np.abs(normal(heads, length, seed=2)),
            "B": normal(length, 32, seed=3),
            "C": normal(length, 32, seed=4),
            "states": normal(heads, chunks, 32, 64, seed=5),
            "out": blank(heads, length, 64),
            "T": length,
        },
    )


def _product(name: str, kind: str, dtype: Any, size: int, block: int, depth: int, **options: Any) -> Case:
    return Case(
        name,
        kernels.matmul_kernel,
        {"a": kind, "b": kind, "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"},
        {"BM": block, "BN": block, "BK": depth},
        (size // block, size // block),
        lambda: {
            "a": normal(size, size, dtype=dtype),
            "b": normal(size, size, seed=1, dtype=dtype),
            "c": blank(size, size),
            **dict.fromkeys("MNK", size),
        },
        {"stages": 3, "divisible": ("M", "N", "K"), **options},
    )


CASES = [
    Case(
        "softmax",
        softmax_rows_kernel,
        signature("x out", columns="i32"),
        {"BLOCK": 1024},
        (64,),
        lambda: {"x": normal(64, 1000), "out": blank(64, 1000), "columns": 1000},
    ),
    Case(
        "layer norm",
        kernels.layer_norm_kernel,
        signature("x w b out mean rstd", columns="i32", eps="fp32"),
        {"BLOCK": 512},
        (64,),
        lambda: {
            "x": normal(64, 1100),
            "w": normal(1100, seed=1),
            "b": normal(1100, seed=2),
            "out": blank(64, 1100),
            "mean": blank(64),
            "rstd": blank(64),
            "columns": 1100,
            "eps": 1e-5,
        },
    ),
    Case(
        "layer norm backward",
        kernels.layer_norm_backward_kernel,
        signature("dy x w mean rstd dx dw db", rows="i32", columns="i32"),
        {"ROWS": 8, "BLOCK": 1024},
        (16,),
        lambda: {
            "dy": normal(125, 1000),
            "x": normal(125, 1000, seed=1),
            "w": normal(1000, seed=2),
            "mean": normal(125, seed=3),
            "rstd": np.abs(normal(125, seed=4)),
            "dx": blank(125, 1000),
            "dw": blank(16, 1000),
            "db": blank(16, 1000),
            "rows": 125,
            "columns": 1000,
        },
    ),
    Case(
        "cross entropy",
        kernels.cross_entropy_kernel,
        {"x": "*fp32", "target": "*i64", "loss": "*fp32", "dx": "*fp32", "columns": "i32"},
        {"BLOCK": 1024},
        (32,),
        lambda: {
            "x": normal(32, 4001),
            "target": np.random.default_rng(1).integers(0, 4001, 32),
            "loss": blank(32),
            "dx": blank(32, 4001),
            "columns": 4001,
        },
    ),
    _product("product in fp16", "*fp16", np.float16, 256, 64, 32),
    _product("product in tf32", "*fp32", np.float32, 256, 64, 32),
    _product("product in fp16 on sm_90", "*fp16", np.float16, 256, 64, 64, arch="sm_90"),
    Case(
        "product split along K",
        kernels.split_matmul_kernel,
        signature("a b c", N="i32", K="i32"),
        {"BM": 32, "BN": 32, "BK": 32},
        (4, 4, 4),
        lambda: {
            "a": normal(128, 128),
            "b": normal(128, 128, seed=1),
            "c": blank(128, 128),
            **dict.fromkeys("NK", 128),
        },
    ),
    _attention("attention", 4, 250),
    _attention("attention, 2 programs", 1, 100),
    _complex_scan("complex scan", 16),
    _complex_scan("complex scan, 2 programs", 2),
    _chunk_scan("scan of chunks", 4, 250),
    _chunk_scan("scan of chunks, 4 programs", 2, 100),
    Case(
        "sort",
        kernels.sort_kernel,
        signature("x out"),
        {"BLOCK": 512},
        (16,),
        lambda: {"x": normal(16, 512), "out": blank(16, 512)},
    ),
    Case(
        "top of a row",
        kernels.topk_kernel,
        signature("x out"),
        {"BLOCK": 512, "COUNT": 8},
        (16,),
        lambda: {"x": normal(16, 512), "out": blank(16, 8)},
    ),
    Case(
        "running sum",
        kernels.cumsum_kernel,
        signature("x out", T="i32"),
        {"BT": 64, "BD": 32},
        (16,),
        lambda: {"x": normal(16, 300, 32), "out": blank(16, 300, 32), "T": 300},
    ),
    Case(
        "state update",
        kernels.state_update_kernel,
        signature("state x dt A B C D out", dim="i32"),
        {"BD": 16, "N": 64},
        (8, 4),
        lambda: {
            "state": normal(4, 120, 64),
            "x": normal(4, 120, seed=1),
            "dt": normal(4, 120, seed=2),
            "A": -np.abs(normal(120, 64, seed=3)),
            "B": normal(4, 64, seed=4),
            "C": normal(4, 64, seed=5),
            "D": normal(120, seed=6),
            "out": blank(4, 120),
            "dim": 120,
        },
    ),
    Case(
        "rotary embedding",
        kernels.rope_kernel,
        {"q": "*fp16", "cos": "*fp32", "sin": "*fp32", "out": "*fp16", "T": "i32", "heads": "i32"},
        {"H": 16, "HALF": 32},
        (100,),
        lambda: {
            "q": normal(100, 12, 64, dtype=np.float16),
            "cos": normal(50, 32, seed=1),
            "sin": normal(50, 32, seed=2),
            "out": blank(100, 12, 64, dtype=np.float16),
            "T": 50,
            "heads": 12,
        },
    ),
    Case(
        "gated GELU",
        kernels.gelu_kernel,
        signature("x y out", n="i32"),
        {"BLOCK": 1024},
        (98,),
        lambda: {"x": normal(100_000), "y": normal(100_000, seed=1), "out": blank(100_000), "n": 100_000},
    ),
    Case(
        "histogram",
        kernels.histogram_kernel,
        {"x": "*fp32", "bins": "*i32", "n": "i32"},
        {"BLOCK": 256},
        (16,),
        lambda: {"x": normal(4000), "bins": blank(32, dtype=np.int32), "n": 4000},
    ),
]
