"""Generated Triton kernels, right and wrong ones: in batches they do what they do one program after another."""

import importlib.util
import random
from dataclasses import replace

import numpy as np
import pytest
from alphabet_ptx import compile_kernel
from alphabet_testing.ptx.batches import assert_same, find_outcome

pytest.importorskip("triton")

SIZE, BLOCK = 2048, 256
SIGNATURE = {"a": "*fp32", "b": "*fp32", "c": "*i32", "d": "*i32", "e": "*i32", "f": "*fp32", "h": "*fp16"}
# `t` is the number of an element in its program and `o` in the grid; `v` and `w` are what was computed so far.
STATEMENTS = """
v = tl.load(a + {place}{mask_or_zero})
w = tl.load(c + {place}{mask_or_zero})
v += tl.load(b + {place}{mask_or_zero})
tl.store(b + {place}, v{mask})
tl.store(d + {place}, w{mask})
tl.store(h + {place}, v.to(tl.float16){mask})
v += tl.load(h + {place}{mask_or_zero}).to(tl.float32)
v = v + tl.sum(v)
w = w ^ tl.xor_sum(w)
v = tl.cumsum(v, 0)
v = tl.sort(v)
v = tl.gather(v, w & (BLOCK - 1), 0)
tl.atomic_add(e + tl.arange(0, 32), tl.histogram(w & 31, 32))
v = tl.reshape(tl.dot(tl.reshape(v, (16, 16)), tl.reshape(v, (16, 16))), (BLOCK,))
v = tl.exp(-tl.abs(v)) + tl.sin(v) / (tl.abs(v) + 0.5)
w = w // (pid - 2)
w = tl.where(w > 3, w // (w - 3), w)
tl.atomic_add(e + (w & 31), 1{mask})
tl.atomic_max(e + 32 + (w & 31), w{mask})
tl.atomic_xchg(e + 64 + (t & 7), w{mask})
tl.atomic_add(f + (t & 15), v{mask})
w += tl.atomic_add(e + 96 + (w & 15), 1{mask})
w += tl.load(c + {place}, volatile=True)
tl.debug_barrier()
if pid == 3: return
if pid % 2 == 1: v = -v
for _ in range(0, pid + 1): v = v * 0.5 + tl.load(a + {place})
for _ in range(0, tl.load(c + pid) % 5): tl.atomic_add(f + 16 + (t & 3), v)
""".strip().splitlines()
OWN = ("o", "o", "pid * BLOCK + (BLOCK - 1 - t)", "pid * BLOCK + (t ^ 1)")
ANY = (*OWN, "t", "o // 2", "o + BLOCK", "tl.maximum(o - BLOCK, 0)", "w & 2047")
MASKS = ("", "", ", mask=t < 13", ", mask=o % 3 == 0", ", mask=pid % 2 == 0", ", mask=v > 0")


def write_kernel(choose):
    """The source of a kernel; most of them keep to their own places."""
    places = ANY if choose.random() < 0.4 else OWN
    lines = []
    for statement in choose.choices(STATEMENTS, k=choose.randint(3, 8)):
        mask = choose.choice(MASKS)
        with_zero = f"{mask}, other=0" if mask else ""
        lines.append(statement.format(place=choose.choice(places), mask=mask, mask_or_zero=with_zero))
    start = ["pid = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)", "t = tl.arange(0, BLOCK)"]
    start += ["o = pid * BLOCK + t", "v = tl.load(a + o)", "w = tl.load(c + o)"]
    body = "".join(f"    {line}\n" for line in [*start, *lines, "tl.store(b + o, v)", "tl.store(d + o, w)"])
    head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
    return f"{head}def kernel({', '.join(SIGNATURE)}, BLOCK: tl.constexpr):\n{body}"


def make_arrays(seed):
    random_numbers = np.random.default_rng(seed)
    a, b, h = (random_numbers.standard_normal(SIZE).astype(kind) for kind in ("f4", "f4", "f2"))
    c, d = random_numbers.integers(-3, 60, SIZE).astype(np.int32), np.zeros(SIZE, np.int32)
    return [a, b, c, d, np.zeros(128, np.int32), np.zeros(32, np.float32), h]


# Seeds of kernels, and whether their programs run at once.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "at_once"),
    [(1, True), (3, True), (4, True), (6, True), (7, False), (8, False), (9, True), (10, False)],
)
def test_a_generated_kernel_is_the_same_in_batches(seed, at_once, tmp_path):
    choose = random.Random(seed)
    file = tmp_path / f"kernel_{seed}.py"
    file.write_text(write_kernel(choose))
    specification = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    options = {"arch": choose.choice(["sm_80", "sm_89", "sm_90"]), "warps": choose.choice([1, 2, 4, 8])}
    kernel = compile_kernel(module.kernel, SIGNATURE, {"BLOCK": BLOCK}, stages=choose.choice([1, 3]), **options)
    arrays = make_arrays(seed)
    before = [array.copy() for array in arrays]

    def run(grid, **mode):
        for array, values in zip(arrays, before, strict=True):
            array[:] = values  # in place: faults name addresses
        outcome = find_outcome(kernel, grid, arrays, **mode)
        for array in arrays:
            if array.dtype.kind == "f":
                array[np.isnan(array)] = np.nan  # a NaN is any NaN
        return replace(outcome, arrays=tuple(array.tobytes() for array in arrays))

    for grid, together, mode in [(5, None, {}), ((2, 3), 4, {"rounding": "worst", "seed": seed}), (4, 2, {})]:
        outcome = run(grid, together=together, **mode)
        assert (outcome.together > 1) is at_once
        assert_same(outcome, run(grid, together=1, **mode))
