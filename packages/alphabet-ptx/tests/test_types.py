"""Kernels of Triton with 8-bit types, half accumulators, flags, atomics of two bytes and tables of addresses."""

import numpy as np
import pytest
import triton.language as tl
from alphabet_ptx import PtxError, compile_kernel, execute
from alphabet_testing.ptx import function_kernels as kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import THREADS, decode_fp8, make_kernel, run

FP8 = {"fp8e4nv": "e4m3", "fp8e5": "e5m2"}


def decode(bits, kind):
    return np.array([decode_fp8(int(each), kind) for each in bits.ravel()]).reshape(bits.shape)


@pytest.mark.parametrize("arch", ["sm_89", "sm_90"])
def test_conversions_to_fp8_and_back(arch):
    signature = {"x": "*fp32", "small": "*fp8e4nv", "wide": "*fp8e5", "out": "*fp32"}
    compiled = compile_once(kernels.to_fp8_kernel, signature, {"BLOCK": 512}, arch=arch)
    x, out = normal(512, scale=8), blank(2, 512)
    small, wide = np.zeros(512, np.uint8), np.zeros(512, np.uint8)
    assert execute(compiled, 1, [x, small, wide, out]).races == []
    for bits, back, kind, places, tiniest in ((small, out[0], "e4m3", 3, 2.0**-9), (wide, out[1], "e5m2", 2, 2.0**-16)):
        assert (decode(bits, kind) == back).all()
        # Half a unit in the last place; on sm_89 the way is through float16, whose own rounding adds a little.
        assert (np.abs(back - x) <= np.maximum(np.abs(x) * 2.0 ** -(places + 1), tiniest / 2) * 1.01).all()


def random_fp8(shape, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0x20, 0x48, shape, np.uint8) | (rng.integers(0, 2, shape, np.uint8) << 7)


@pytest.mark.parametrize("kind", FP8)
def test_products_of_fp8(kind):
    signature = {"a": f"*{kind}", "b": f"*{kind}", "c": "*fp32"}
    compiled = compile_once(kernels.typed_dot_kernel, signature, {"M": 32, "N": 32, "K": 64, "TYPE": tl.float32})
    assert "mma.sync.aligned.m16n8k32" in compiled.ptx
    a, b, c = random_fp8((32, 64), 0), random_fp8((64, 32), 1), blank(32, 32)
    assert execute(compiled, 1, [a, b, c]).races == []
    exact = decode(a, FP8[kind]) @ decode(b, FP8[kind])
    size = np.abs(decode(a, FP8[kind])) @ np.abs(decode(b, FP8[kind]))
    assert (np.abs(c - exact) <= 2 * 2.0**-24 * size).all()  # two instructions, each rounds once


def test_products_of_int8():
    signature = {"a": "*i8", "b": "*i8", "c": "*i32"}
    compiled = compile_once(kernels.typed_dot_kernel, signature, {"M": 32, "N": 32, "K": 64, "TYPE": tl.int32})
    assert "s32.s8.s8.s32" in compiled.ptx
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (32, 64), np.int8), rng.integers(-128, 128, (64, 32), np.int8)
    c = np.zeros((32, 32), np.int32)
    assert execute(compiled, 1, [a, b, c]).races == []
    assert (c == a.astype(np.int32) @ b.astype(np.int32)).all()


def test_products_in_float16():
    signature = pointers("a b c", "*fp16")
    compiled = compile_once(kernels.typed_dot_kernel, signature, {"M": 32, "N": 32, "K": 64, "TYPE": tl.float16})
    assert "f16.f16.f16.f16" in compiled.ptx
    a, b, c = normal(32, 64).astype("f2"), normal(64, 32, seed=1).astype("f2"), np.zeros((32, 32), "f2")
    assert execute(compiled, 1, [a, b, c]).races == []
    exact, size = a.astype(float) @ b.astype(float), np.abs(a.astype(float)) @ np.abs(b.astype(float))
    assert (np.abs(c - exact) <= 4 * 2.0**-11 * size).all()  # four instructions, each rounds to float16
    assert (np.abs(c - exact) > 2.0**-14 * size).any()  # and that is to be seen


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_relations_of_halves(kind):
    compiled = compile_once(kernels.relu_square_kernel, pointers("x out", f"*{kind}"), {"BLOCK": 256})
    if kind == "fp16":
        assert "setp.gt.f16x2" in compiled.ptx
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(normal(256)).to(torch.float16 if kind == "fp16" else torch.bfloat16)
    out = torch.zeros_like(x)
    assert execute(compiled, 1, [x, out]).races == []
    assert torch.equal(out, torch.where(x > 0, x, x * x))


def test_flags():
    compiled = compile_once(kernels.flags_kernel, {"x": "*i32", "out": "*u1"}, {"BLOCK": 128})
    x, out = np.arange(128, dtype=np.int32) % 3, np.zeros(128, np.bool_)
    execute(compiled, 1, [x, out])
    assert (out == (x != 0)).all()


def test_tensors_of_types_that_numpy_has_not():
    torch = pytest.importorskip("torch")
    signature = {"x": "*fp32", "small": "*fp8e4nv", "wide": "*fp8e5", "out": "*fp32"}
    compiled = compile_once(kernels.to_fp8_kernel, signature, {"BLOCK": 512})
    x, out = torch.from_numpy(normal(512, scale=8)), torch.zeros(2, 512)
    small, wide = torch.zeros(512, dtype=torch.float8_e4m3fn), torch.zeros(512, dtype=torch.float8_e5m2)
    execute(compiled, 1, [x, small, wide, out])
    assert torch.equal(out, torch.stack([small.float(), wide.float()]))
    nearest = x.numpy().astype(np.float16)  # on sm_89 Triton goes through float16, rounded towards zero
    beyond = np.abs(nearest.astype(np.float32)) > np.abs(x.numpy())
    half = torch.from_numpy(np.where(beyond, np.nextafter(nearest, np.float16(0)), nearest))
    assert torch.equal(small.float(), half.to(torch.float8_e4m3fn).float())
    assert torch.equal(wide.float(), half.to(torch.float8_e5m2).float())
    with pytest.raises(PtxError, match=r"argument small must have dtype float8_e4m3fn for \*fp8e4nv; got bfloat16"):
        execute(compiled, 1, [x, small.bfloat16(), wide, out])


def test_types_are_listed_in_the_message():
    with pytest.raises(PtxError, match="fp8e4nv, fp8e5"):
        compile_kernel(kernels.flags_kernel, {"x": "*i32", "out": "*fp8"}, {"BLOCK": 128})


# Atomics of two bytes: on sm_80 a loop of compare-and-swap of four.


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("arch", "kind"), [("sm_80", "bf16"), ("sm_80", "fp16"), ("sm_89", "bf16")])
def test_atomic_sums_of_halves_at_the_edge_of_an_array(arch, kind, length, first):
    torch = pytest.importorskip("torch")
    compiled = compile_once(
        kernels.count_kernel,
        {**pointers("x out", f"*{kind}"), "where": "*i32"},
        {"BLOCK": 64},
        arch=arch,
        unaligned=("out",),
    )
    dtype = torch.float16 if kind == "fp16" else torch.bfloat16
    x, where = torch.ones(128, dtype=dtype), torch.arange(128, dtype=torch.int32) % length
    whole = torch.full((first + length + 2,), -1.0, dtype=dtype)
    out = whole[first : first + length]
    out[:] = 0
    assert execute(compiled, 2, {"x": x, "where": where, "out": out}).races == []
    assert out.tolist() == torch.bincount(where).tolist()
    assert (whole[:first] == -1).all()
    assert (whole[first + length :] == -1).all()


def test_an_atomic_of_halves_beyond_the_edge_is_refused():
    torch = pytest.importorskip("torch")
    signature = {**pointers("x out", "*bf16"), "where": "*i32"}
    compiled = compile_once(kernels.count_kernel, signature, {"BLOCK": 64}, arch="sm_80", unaligned=("out",))
    assert "cas.b32" in compiled.ptx
    x, where = torch.ones(64, dtype=torch.bfloat16), torch.arange(64, dtype=torch.int32) % 4
    # The fourth shares a word with the third, which is there.
    with pytest.raises(PtxError, match=r"write to global memory out of range.*beyond the edge"):
        execute(compiled, 1, {"x": x, "where": where, "out": torch.zeros(3, dtype=torch.bfloat16)})
    # The fourth and the third are in a word of which nothing is there.
    with pytest.raises(PtxError, match="global memory out of range"):
        execute(compiled, 1, {"x": x, "where": where, "out": torch.zeros(2, dtype=torch.bfloat16)})


def test_compare_and_swap_of_two_bytes():
    """Each thread swaps the element of its pair if it is still 3: the first of each pair finds it, the second 7."""
    x, found = np.array([3, 4, 3, 3], np.uint16), np.zeros(8, np.uint16)
    body = "shr.u32 %r1, %r0, 1;\nmad.wide.u32 %d2, %r1, 2, %d0;\nmad.wide.u32 %d3, %r0, 2, %d1;\n"
    body += "mov.b16 %h1, 3;\nmov.b16 %h2, 7;\natom.global.acq_rel.gpu.cas.b16 %h3, [%d2], %h1, %h2;\n"
    run(body + "st.global.b16 [%d3], %h3;", x, found, threads=8)
    assert x.tolist() == [7, 4, 7, 7]
    assert found.tolist() == [3, 7, 4, 4, 3, 7, 3, 7]


SWAP = "atom.global.cas.b32 %r2, [%d0+4], %r1, %r3;"


def test_only_the_load_of_a_compare_and_swap_may_stand_over_the_edge():
    data = np.arange(3, dtype=np.uint16)
    swap = f"ld.global.b32 %r1, [%d0+4];\nxor.b32 %r3, %r1, 0x00FF;\n{SWAP}"
    run(swap, data, threads=1)
    assert data.tolist() == [0, 1, 0xFD]
    for body in (
        "ld.global.b32 %r1, [%d0+4];",  # without a swap
        "ld.global.b32 %r1, [%d0+4];\nst.global.b32 [%d0+4], %r1;",
        "atom.global.add.u32 %r1, [%d0+4], 1;",
        swap.replace("0x00FF", "0x10000"),  # the swap changes what is beyond
        swap.replace("[%d0+4]", "[%d0+8]"),
    ):
        with pytest.raises(PtxError, match="global memory out of range"):
            run(body, data, threads=1)


# Tables of addresses


def tables(arrays):
    return np.array([array.ctypes.data for array in arrays], np.int64), np.array([len(a) for a in arrays], np.int32)


def compile_tables():
    return compile_once(kernels.double_tables_kernel, {"table": "*i64", "sizes": "*i32"}, {"BLOCK": 256})


def test_arrays_behind_a_table_of_addresses():
    arrays = [normal(length, seed=length) for length in (3, 200, 256, 17)]
    before = [array.copy() for array in arrays]
    table, sizes = tables(arrays)
    assert execute(compile_tables(), 4, [table, sizes], reachable=arrays).races == []
    for old, new in zip(before, arrays, strict=True):
        assert (new == 2 * old).all()


def test_an_array_that_is_not_reachable_is_named_in_the_remedy():
    arrays = [normal(length, seed=length) for length in (3, 200)]
    table, sizes = tables(arrays)
    with pytest.raises(PtxError, match=r"out of range.*passed to `execute` as `reachable`") as caught:
        execute(compile_tables(), 2, [table, sizes], reachable=arrays[:1])
    assert caught.value.program == (1, 0, 0)
    with pytest.raises(PtxError, match=r"reachable must be arrays; reachable\[0\] is int"):
        execute(compile_tables(), 2, [table, sizes], reachable=[7])


def test_an_access_behind_a_table_is_held_to_the_bounds():
    whole = normal(200)
    table, sizes = tables([whole])
    for part, place in ((whole[:150], "+600 bytes"), (whole[1:], "-4 bytes")):
        with pytest.raises(PtxError, match=rf"\{place} from where the caller has 'reachable\[0\]', which has"):
            execute(compile_tables(), 1, [table, sizes], reachable=[part])
    whole.flags.writeable = False
    with pytest.raises(PtxError, match=r"in 'reachable\[0\]', which is read-only"):
        execute(compile_tables(), 1, [table, sizes], reachable=[whole])


def test_races_are_seen_behind_a_table():
    array = normal(256)
    table, sizes = tables([array, array])
    assert execute(compile_tables(), 2, [table, sizes], reachable=[array]).races != []


def test_an_argument_is_reached_by_both_of_its_addresses():
    """The kernel writes through its argument and reads by the caller's address."""
    data, out = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
    body = "mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\nld.param.b64 %d1, [k_param_1];\n"
    body += (
        "ld.param.b64 %d2, [k_param_2];\nmul.wide.u32 %d3, %r0, 4;\nadd.s64 %d0, %d0, %d3;\nadd.s64 %d1, %d1, %d3;\n"
    )
    body += "add.s64 %d2, %d2, %d3;\nst.global.b32 [%d0], %r0;\nld.global.b32 %r1, [%d2];\nst.global.b32 [%d1], %r1;"
    execute(make_kernel(body, ["u64", "u64", "u64"]), 1, [data, out, data.ctypes.data])
    assert (out == np.arange(THREADS)).all()


def test_an_array_keeps_its_alignment():
    """A view that starts between two multiples of 8 bytes is not aligned to 8, wherever its launch puts it."""
    body = "ld.global.v2.b32 {%r1, %r2}, [%d0];"
    whole = np.zeros(65, np.uint32)
    run(body, whole)
    with pytest.raises(PtxError, match="misaligned access"):
        run(body, whole[1:])
