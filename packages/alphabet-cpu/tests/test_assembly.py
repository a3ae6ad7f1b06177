"""The inner loops of compiled kernels call nothing, and what they compute stays in the vector registers of AVX2.

A spill is a vector that a loop stores to the stack. Constants that it only reads from there might as well be elsewhere.
From tile to tile no references are counted: each is a locked access to memory, and a tile has hundreds of views.
"""

import json
import os
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from alphabet_cpu.compiling import array_kernel, kernel

# Kernels with loops over tokens. In products_bwd the partners of three lags on both sides need more than 16 registers.
EXPECTED = {
    "accumulate_outer", "activate_bwd", "convolve", "convolve_bwd", "feedthrough_bwd", "lift", "multiply_rows",
    "project", "project_bwd", "scan", "scan_bwd", "synthesize",
}  # fmt: skip
OVER_TILES = ("run_claimed", "backpropagate_claimed")
AVX2 = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+popcnt,+sse3,+sse4.2"}
SCRIPT = """
import importlib, json, pkgutil, re, sys
import alphabet_cpu.kernels, numpy, torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_cpu import CpuTrainer
from alphabet_cpu.compiling import Kernel, kernel
from alphabet_cpu.kernels.lanes import load, splat, store

@kernel
def planted_spill(given, count, out):
    a = b = c = d = e = f = g = h = j = splat(0.0)
    for i in range(count):
        x, y = load(given, 16 * i), load(given, 16 * i + 16)
        a, b, c, d, e = b + x * y, c - x * y, d + x * b, e + y * c, f + x * d
        f, g, h, j = g + x * e, h - y * f, j + x * a, a - y * g
    store(out, 0, a + b * c + d * e + f * g + h * j)

@kernel
def planted_call(given, count, out):
    sums = load(given, 0)
    for i in range(count):
        sums = sums * load(given, 16 * i) + numpy.float32(numpy.tan(given[i]))
    store(out, 0, sums)

def inner_loops(assembly):
    lines = assembly.splitlines()
    labels = {line.split(":")[0]: number for number, line in enumerate(lines) if re.match(r"\\.\\w+:", line)}
    jumps = [(labels.get(jump[1], end), end) for end, line in enumerate(lines)
             if (jump := re.match(r"\\s+j\\w+\\s+(\\.\\w+)", line))]
    loops = [(start, end) for start, end in jumps if start < end]
    for start, end in loops:
        if not any(start <= first and last <= end and (first, last) != (start, end) for first, last in loops):
            yield lines[start : end + 1]

torch.set_num_threads(1)
CpuTrainer(Alphabet(AlphabetConfig(2, 32, 16, 5)))(torch.randn(2, 40, 2), torch.arange(2))
numbers = numpy.zeros(160, numpy.float32)
planted_spill(numbers, 10, numbers), planted_call(numbers, 10, numbers)
kernels = {"planted_spill": planted_spill, "planted_call": planted_call}
for info in pkgutil.iter_modules(alphabet_cpu.kernels.__path__):
    module = importlib.import_module(f"alphabet_cpu.kernels.{info.name}")
    kernels |= {name: each for name, each in vars(module).items() if isinstance(each, Kernel)}
found = {}
for name, each in kernels.items():
    for signature in each.signatures:
        own = re.split(r"\\n(?=_ZN7cpython)", each.inspect_asm(signature))[0]
        loops = [loop for loop in inner_loops(own) if re.search(r"\\bv\\w+ps\\s.*[yz]mm", "\\n".join(loop))]
        row = found.setdefault(name, {"loops": 0, "calls": 0, "spills": 0, "references": 0})
        row["references"] += own.count("NRT_")
        row["loops"] += len(loops)
        row["calls"] += sum("call" in line for loop in loops for line in loop)
        row["spills"] += sum(bool(re.search(r"ps\\s+%[yz]mm\\d+, .*\\(%rsp", line)) for loop in loops for line in loop)
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["avx2", "this one"])
def test_inner_loops_call_nothing_and_keep_what_they_add_up_in_registers(processor, tmp_path):
    if not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this processor runs no AVX2, whose instructions are looked for")
    chosen = AVX2 if processor == "avx2" else {}
    environment = {**os.environ, **chosen, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    ).stdout
    kernels = json.loads(found)
    # The check sees what it looks for.
    assert kernels["planted_call"]["calls"]
    assert kernels["planted_spill"]["spills"] or processor != "avx2"
    assert kernels["run_tiles"]["references"]
    assert kernels["backpropagate"]["references"]
    assert {name for name in EXPECTED if kernels[name]["loops"]} == EXPECTED
    assert {name: kernels[name]["references"] for name in OVER_TILES} == dict.fromkeys(OVER_TILES, 0)
    assert {name: kernels[name] for name in EXPECTED if kernels[name]["calls"] or kernels[name]["spills"]} == {}


def test_only_kernels_that_count_references_may_return_arrays():
    def split(array):
        return array[:1], array[1:]

    def halve(array):
        return array[:2], array[2:]

    # A lone array numba refuses by itself.
    with pytest.raises(TypeError, match=r"split returns .*make it an array_kernel"):
        kernel(split)(np.ones(4))
    assert [each.size for each in array_kernel(halve)(np.ones(4))] == [2, 2]
