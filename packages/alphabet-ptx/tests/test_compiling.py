"""compile_kernel and the arguments of execute: what they return, and what they say about mistakes."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import triton
from alphabet_ptx import PtxError, compile_kernel, execute
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers

ADD = {**pointers("x y out"), "n": "i32"}


def compile_add(**options):
    return compile_once(kernels.add_kernel, ADD, {"BLOCK": 256}, **options)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
def test_a_compiled_kernel_says_what_it_is(arch):
    compiled = compile_add(arch=arch, warps=8)
    assert (compiled.name, compiled.arch, compiled.warps, compiled.shared) == ("add_kernel", arch, 8, 0)
    assert compiled.signature == {**ADD, "BLOCK": "constexpr"}
    assert compiled.constants == {"BLOCK": 256}
    assert compiled.triton == triton.__version__
    assert f".target {arch}" in compiled.ptx
    assert compiled.cubin[:4] == b"\x7fELF"
    with pytest.raises(dataclasses.FrozenInstanceError):
        compiled.warps = 4


def test_alignment_decides_on_vector_accesses():
    signature, constants = pointers("x scratch out"), {"N": 256, "LAG": 4, "BARRIER": True}
    aligned = compile_kernel(kernels.lag_kernel, signature, constants)
    unaligned = compile_kernel(kernels.lag_kernel, signature, constants, unaligned=signature)
    assert "ld.global.v2" in aligned.ptx
    assert ".v2" not in unaligned.ptx


def test_fusion_of_products_and_sums_can_be_switched_off():
    signature, constants = pointers("ar ai br bi hr hi"), {"T": 128, "M": 4, "REVERSE": False}
    fused, plain = (
        compile_kernel(kernels.scan_rows_kernel, signature, constants, fp_fusion=on) for on in (True, False)
    )
    assert "fma.rn.f32" in fused.ptx
    assert "fma.rn.f32" not in plain.ptx


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kernel": len}, "must be a @triton.jit function"),
        ({"arch": "gfx942"}, "NVIDIA architecture"),
        ({"signature": {"x": "*fp32"}}, r"missing \['y', 'out', 'n'\]"),
        ({"signature": {**ADD, "z": "i32"}}, r"unknown \['z'\]"),
        ({"constants": {"BLOCK": 256, "n": 3}}, r"in both \['n'\]"),
        ({"signature": {**ADD, "n": "int"}}, "signature of n must be one of"),
        ({"divisible": ("x",)}, "divisible may name n; got x"),
        ({"unaligned": ("n",)}, "unaligned may name x, y, out; got n"),
        ({"constants": {"BLOCK": 100}}, "does not compile for sm_89"),
    ],
)
def test_mistakes_in_a_compilation_are_named(changes, reason):
    arguments = {"kernel": kernels.add_kernel, "signature": ADD, "constants": {"BLOCK": 256}} | changes
    with pytest.raises(PtxError, match=reason):
        compile_kernel(arguments.pop("kernel"), arguments.pop("signature"), arguments.pop("constants"), **arguments)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n": None}, "argument n must have type i32; got NoneType"),
        ({"n": 2**40}, "integer of 32 bits"),
        ({"n": 1.5}, "integer of 32 bits"),
        ({"n": np.zeros(3)}, "n must be a number"),
        ({"x": np.zeros(256)}, "argument x must have dtype float32 for .*got float64"),
        ({"x": np.zeros((256, 2), np.float32)[:, 0]}, "x must be contiguous"),
        ({"x": 5}, "x must have type .fp32; got int"),
        ({"z": 1}, r"unknown \['z'\]"),
    ],
)
def test_mistakes_in_arguments_are_named(changes, reason):
    arguments = {"x": normal(256), "y": normal(256), "out": blank(256), "n": 256} | changes
    with pytest.raises(PtxError, match=reason):
        execute(compile_add(), 1, arguments)


def test_mistakes_in_a_launch_are_named():
    with pytest.raises(PtxError, match=r"arguments must be 4 \(x, y, out, n\); got 2"):
        execute(compile_add(), 1, [normal(256), normal(256)])
    with pytest.raises(PtxError, match="grid must be one to three positive numbers"):
        execute(compile_add(), (0,), [normal(256), normal(256), blank(256), 256])
    with pytest.raises(PtxError, match="compiled as divisible by 16; got 100"):
        execute(compile_add(divisible=("n",)), 1, [normal(256), normal(256), blank(256), 100])


def test_ptx_text_takes_its_parameters_by_name_without_the_scratch_pointers():
    text = compile_add().ptx
    x, y, out = normal(256), normal(256, seed=1), blank(256)
    execute(text, 1, {f"add_kernel_param_{i}": value for i, value in enumerate([x, y, out, 256])})
    assert (out == x + y).all()
    with pytest.raises(PtxError, match=r"missing \['add_kernel_param_1'\]"):
        execute(text, 1, {"add_kernel_param_0": x, "add_kernel_param_2": out, "add_kernel_param_3": 256})
    with pytest.raises(PtxError, match="has 6 parameters; got 3 arguments"):
        execute(text, 1, [x, y, out])


class Tensor:
    """What execute asks of a torch tensor."""

    def __init__(self, array):
        self.array, self.dtype = array, f"torch.{array.dtype}"

    def detach(self):
        return self

    def numpy(self):
        return self.array


def test_tensors_are_changed_in_place():
    x, y, out = normal(256), normal(256, seed=1), blank(256)
    execute(compile_add(), 1, [Tensor(x), Tensor(y), Tensor(out), 256])
    assert (out == x + y).all()


def test_one_array_may_be_two_arguments():
    x, y = normal(256), normal(256, seed=1)
    expected = x + y
    assert execute(compile_add(), 1, [x, y, x, 256]).races == []
    assert (x == expected).all()


def test_the_package_imports_without_triton_and_says_what_is_missing():
    code = (
        "import sys; sys.modules['triton'] = None; import alphabet_ptx\n"
        "try: alphabet_ptx.compile_kernel(None, {}, {})\n"
        "except alphabet_ptx.PtxError as error: print(error)"
    )
    path = ":".join(sys.path)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert "needs the package triton" in result.stdout
