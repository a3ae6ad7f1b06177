"""What an Ada multiprocessor does per cycle, and how long one result takes.

Published: results per cycle and multiprocessor for compute capability 8.9 (CUDA C++ Programming Guide, "Throughput of
Native Arithmetic Instructions": float32 128, integers, comparisons and shifts 64, special functions 16, shuffles 32,
float64 and conversions to or from 64 bits 2); limits of residency (the guide's "Technical Specifications per Compute
Capability"); multiprocessors, boost clock, memory bandwidth, L2 and dense tensor rates (NVIDIA Ada GPU Architecture
white paper, RTX 4090). Assumed, each said where it stands: latencies, L2 bandwidth, the cost of a graph's node, and
conversions between 32-bit types at 16 per cycle.
"""

import re

MULTIPROCESSORS = 128
CYCLES_PER_SECOND = 2.52e9
WARP = 32
SCHEDULERS = 4
REGISTERS, SHARED_BYTES, SHARED_RESERVED, MOST_WARPS, MOST_PROGRAMS = 65_536, 102_400, 1_024, 48, 24
DRAM_BYTES_PER_SECOND = 1008e9
L2_BYTES = 72 * 2**20
L2_BYTES_PER_CYCLE = 64  # to one multiprocessor; assumed
SECONDS_PER_NODE = 1.5e-6  # from the end of a graph's node to the start of the next; assumed

# Results per cycle and multiprocessor.
RATES = {
    "float32": 128, "float64": 2, "integer": 64, "multiply": 64, "special": 16, "convert": 16, "convert64": 2,
    "shuffle": 32, "uniform": 64, "control": 128,
}  # fmt: skip
# Dense tensor rates in FLOP per cycle and multiprocessor: 82.6 TFLOPS of tf32, 165.2 of float16 summed in float32.
TENSOR_RATES = {"TF32": 256, "": 512}
# Units that a multiprocessor has one of; of all others each of its four schedulers has a quarter.
WHOLE = {"float64", "convert64", "memory", "shuffle"}
# Cycles until a result can be used; assumed, in the range of published microbenchmarks. A load takes what an L2 hit
# does on Ada: 279 cycles on average (arXiv 2606.22588, on an L40).
LATENCIES = {
    "float32": 4, "float64": 40, "integer": 5, "multiply": 5, "special": 22, "convert": 14, "convert64": 40,
    "shuffle": 24, "uniform": 10, "control": 2, "tensor": 33, "shared": 28, "global": 279, "barrier": 20,
}  # fmt: skip

_KINDS = (
    (r"(FADD|FMUL|FFMA|FSWZADD|HADD2|HMUL2|HFMA2)", "float32"),
    (r"D(ADD|MUL|FMA|SETP|MNMX)\b", "float64"),
    (r"(HMMA|IMMA|DMMA)", "tensor"),
    (r"MUFU", "special"),
    (r"(F2F|I2F|F2I|FRND|F2FP)\b.*64", "convert64"),
    (r"(F2F|I2F|F2I|FRND|POPC|FLO|BREV)\b", "convert"),
    (r"SHFL", "shuffle"),
    (r"(LDS|STS|LDSM|ATOMS)\b", "shared"),
    (r"(LDGSTS|LDG|STG|LDL|STL|LD|ST|ATOM|ATOMG|RED|LDC)\b", "global"),
    (r"IMAD", "multiply"),
    (r"(U[A-Z]\w*|R2UR|S2UR|VOTEU)\b", "uniform"),
    (r"(BAR|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|CCTL)\b", "barrier"),
    (r"(BRA|EXIT|CALL|RET|NOP|BSSY|BSYNC|WARPSYNC|YIELD|NANOSLEEP|BREAK|BMOV)\b", "control"),
)  # fmt: skip


def kind_of(opcode: str) -> str:
    """The class of a SASS opcode; what no rule names is an integer instruction."""
    return next((kind for pattern, kind in _KINDS if re.match(pattern, opcode)), "integer")


def bytes_of(opcode: str) -> int:
    """What each thread of a load or store moves, in bytes."""
    if opcode.startswith("LDSM"):
        return 4 * (int(opcode[-1]) if opcode[-1].isdigit() else 1)
    found = re.search(r"\.(128|64|U16|S16|16|U8|S8|8)(?=\.|$)", opcode)
    return {"128": 16, "64": 8}.get(found[1], int(re.sub(r"\D", "", found[1])) // 8) if found else 4


def unit_of(opcode: str) -> tuple[str | None, float]:
    """The unit that an instruction of one warp occupies, and for how many cycles of a multiprocessor."""
    kind = kind_of(opcode)
    if kind in ("shared", "global"):
        return "memory", max(1.0, bytes_of(opcode) / 4)
    if kind == "tensor":
        return "tensor", _tensor_flops(opcode) / TENSOR_RATES["TF32" if "TF32" in opcode else ""]
    if kind in ("barrier", "control"):
        return None, 0.0
    return kind, WARP / RATES[kind]


def _tensor_flops(opcode: str) -> int:
    found = re.search(r"\.(16|8)(8)(\d+)\.", opcode)
    if found is None:
        raise ValueError(f"{opcode}: unknown shape of a tensor-core product")
    rows, columns, depth = (int(part) for part in found.groups())
    return 2 * rows * columns * depth
