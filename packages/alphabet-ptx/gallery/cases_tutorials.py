"""Triton's tutorials: their launchers, from a checkout of Triton's sources, which no index has.

A tutorial is a script that defines a launcher, tries it on large inputs and measures its time. What it defines is
executed as it is written, up to the launcher: imports, functions, classes, assignments and conditions. What only
prints, tries, measures or looks for cuBLAS is left out.
"""

import ast
import os
import sys
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from case import FP16, FP32, Compared, Source, compare, normal
from torch import Tensor

FOLDER = "TRITON_TUTORIALS"  # the environment variable that names the folder python/tutorials of a checkout
TUTORIALS = Source("triton")
# fp8 with 5 bits of exponent; the operands are such numbers, the result is rounded to float16.
FP8_RESULT = FP16


def tutorial(start: str, *names: str) -> ModuleType:
    """The module that a tutorial is up to the statement that defines the last of `names`."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        raise FileNotFoundError("Triton's tutorials are in its sources: `run.py --triton-tests FOLDER`")
    (path,) = Path(folder).glob(f"{start}-*.py")
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    ends = [i for i, statement in enumerate(tree.body) if names_of(statement) & set(names)]
    tree.body = [statement for statement in tree.body[: max(ends) + 1] if defines(statement)]
    module = ModuleType(f"tutorial_{start}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


def defines(statement: ast.stmt) -> bool:
    """Whether a statement defines something, other than cuBLAS to compare times with."""
    if isinstance(statement, ast.If):
        return "blas" not in ast.unparse(statement)
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Try)
    return isinstance(statement, kept)


def names_of(statement: ast.stmt) -> set[str]:
    """What a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return set()


def halves(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Numbers in half precision."""
    return [normal(*shape, seed=seed, scale=0.5, dtype=torch.float16) for seed, shape in enumerate(shapes)]


@TUTORIALS.case("01, sum of vectors", FP32)
def add() -> list[Compared]:
    launch = tutorial("01", "add").add
    return compare(launch, torch.add, normal(1500), normal(1500, seed=1), gradients=False)


@TUTORIALS.case("02, softmax by persistent programs", FP32)
def softmax() -> list[Compared]:
    launch = tutorial("02", "softmax").softmax
    return compare(launch, lambda x: x.softmax(1), normal(40, 70), gradients=False)


@TUTORIALS.case("03, product", FP16)
def product() -> list[Compared]:
    launch = tutorial("03", "matmul").matmul
    return compare(launch, torch.matmul, *halves((70, 80), (80, 90)), gradients=False)


@TUTORIALS.case("03, product with an activation", FP16)
def product_activated() -> list[Compared]:
    launch = tutorial("03", "matmul").matmul
    return compare(
        lambda a, b: launch(a, b, activation="leaky_relu"),
        lambda a, b: F.leaky_relu(a @ b, 0.01),
        *halves((70, 80), (80, 90)),
        gradients=False,
    )


@TUTORIALS.case("03, product of 8-bit floats", FP8_RESULT)
def product_fp8() -> list[Compared]:
    launch = tutorial("03", "matmul").matmul
    a, b = (each.to(torch.float8_e5m2) for each in halves((64, 64), (64, 64)))
    return [Compared("product", launch(a, b.T), a.double() @ b.double().T)]


@TUTORIALS.case("04, dropout by a mask", FP32)
def dropout() -> list[Compared]:
    launch = tutorial("04", "dropout").dropout
    keep = (normal(1500, seed=1) > 0).to(torch.int32)
    return compare(lambda x: launch(x, keep, 0.5), lambda x: x * keep / 0.5, normal(1500), gradients=False)


@TUTORIALS.case("04, dropout by a seed", FP32)
def seeded_dropout() -> list[Compared]:
    launch = tutorial("04", "seeded_dropout").seeded_dropout
    x = normal(1500)
    got = launch(x, 0.25, 123)
    kept = (got != 0).double()
    return [
        Compared("dropout", got, x.double() * kept / 0.75),
        Compared("again", launch(x, 0.25, 123), got.double()),
        # A quarter is left out, up to five standard deviations.
        Compared("share", ((kept.mean() - 0.75).abs() < 5 * (0.1875 / 1500) ** 0.5).float(), torch.ones(())),
    ]


@TUTORIALS.case("05, layer norm with its gradients", FP32)
def layer_norm() -> list[Compared]:
    launch = tutorial("05", "layer_norm").layer_norm
    return compare(
        lambda x, w, b: launch(x, (70,), w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (70,), w, b, 1e-5),
        normal(9, 70),
        normal(70, seed=1),
        normal(70, seed=2),
    )


def attend(*, causal: bool, gradients: bool) -> list[Compared]:
    """The sixth tutorial's attention beside its definition."""
    launch = tutorial("06", "attention").attention
    return compare(
        lambda q, k, v: launch(q, k, v, causal, 0.5, False),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.5),
        *halves((1, 1, 128, 64), (1, 1, 128, 64), (1, 1, 128, 64)),
        gradients=gradients,
    )


@TUTORIALS.case("06, attention", FP16)
def attention() -> list[Compared]:
    return attend(causal=False, gradients=False)


@TUTORIALS.case("06, causal attention with its gradients", FP16)
def causal_attention() -> list[Compared]:
    return attend(causal=True, gradients=True)


@TUTORIALS.case("07, a function of a library", FP32)
def library() -> list[Compared]:
    module = tutorial("07", "asin_kernel")
    x, out = normal(1500).tanh(), torch.empty(1500)
    module.asin_kernel[(2,)](x, out, 1500, BLOCK_SIZE=1024)
    return [Compared("arc sine", out, x.double().asin())]


@TUTORIALS.case("08, products by a table of addresses", FP16)
def grouped() -> list[Compared]:
    launch = tutorial("08", "group_gemm_fn").group_gemm_fn
    a, b = halves((128, 64), (128, 32)), halves((64, 128), (32, 128))
    return [
        Compared(f"product {i}", got, x.double() @ y.double())
        for i, (got, x, y) in enumerate(zip(launch(a, b), a, b, strict=True))
    ]


def multiply(name: str, *options: object) -> list[Compared]:
    """A product of the ninth tutorial, whose second operand is given by its columns."""
    launch = getattr(tutorial("09", name), name)
    operands = halves((70, 80), (96, 80))
    return compare(lambda a, b: launch(a, b, *options), lambda a, b: a @ b.T, *operands, gradients=False)


@TUTORIALS.case("09, product", FP16)
def plain() -> list[Compared]:
    launch = tutorial("09", "matmul").matmul
    return compare(lambda a, b: launch(a, b.T), lambda a, b: a @ b.T, *halves((70, 80), (90, 80)), gradients=False)


@TUTORIALS.case("09, product by persistent programs", FP16)
def persistent() -> list[Compared]:
    launch = tutorial("09", "matmul_persistent").matmul_persistent
    return compare(lambda a, b: launch(a, b.T), lambda a, b: a @ b.T, *halves((70, 80), (90, 80)), gradients=False)


@TUTORIALS.case("09, product by descriptors of the host", FP16)
def by_host_descriptors() -> list[Compared]:
    return multiply("matmul_tma", False)


@TUTORIALS.case("09, product by descriptors of the device", FP16)
def by_descriptors() -> list[Compared]:
    return multiply("matmul_descriptor_persistent", False)
