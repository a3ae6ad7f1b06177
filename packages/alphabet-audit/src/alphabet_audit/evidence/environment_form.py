"""The form of what a run records about its device, its software and their state."""

from alphabet_audit.declare.vectors import AVX2, PARTS, RESTRICTIONS
from alphabet_audit.evidence import forms
from alphabet_audit.evidence.forms import count, either, fields, list_of, mapping, number, one_of, text

OURS = ("alphabet_audit", "alphabet_baselines", "alphabet_core", "alphabet_cpu", "alphabet_triton")
LIBRARIES = ("causal_conv1d", "llvmlite", "mamba_ssm", "numba", "numpy", "torch", "triton")
VARIABLES = ("MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME",
             "TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES")  # fmt: skip
CPU_STATE = ("governor", "frequency", "throttled")
GPU_IDENTITY = ("name", "driver_version", "vbios_version", "memory.total", "power.limit")
GPU_STATE = ("clocks.sm", "clocks.mem", "clocks_throttle_reasons.active", "temperature.gpu", "power.draw", "pstate")
FRESH_KERNELS, KEPT_KERNELS = "compiled by this run", "kept from earlier runs"
HASH = text("[0-9a-f]{64}")
WORD = text(least=1)
MAYBE = either(text(), forms.NULL)
# A time in UTC, by seconds: a month has no 32nd day, which a judge checks.
TIME = text("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\+00:00")
CPU = fields(type=one_of("cpu"), name=WORD, cores=either(count(1, 10**5), forms.NULL))
CUDA = fields(
    type=one_of("cuda"),
    name=WORD,
    capability=text("[0-9]{1,2}\\.[0-9]"),
    cuda=text("[0-9]{1,2}\\.[0-9]{1,2}"),
    gpu=mapping(dict.fromkeys(GPU_IDENTITY, WORD)),
)
STATE = either(
    fields(load=either(list_of(number(most=1e6), 3), forms.NULL), **dict.fromkeys(CPU_STATE, MAYBE)),
    fields(gpu=mapping(dict.fromkeys(GPU_STATE, WORD))),
)
COMMON = {
    "device": either(CPU, CUDA),
    "system": fields(platform=WORD, machine=WORD, python=text("3\\.[0-9]{1,2}\\.[0-9]{1,2}[0-9a-z+.]{0,10}")),
    "versions": mapping(dict.fromkeys((*OURS, *LIBRARIES), either(WORD, forms.NULL))),
    "threads": fields(
        **{name: count(1, 10**5) for name in ("usable", "torch", "torch_interop")},
        variables=mapping(dict.fromkeys(VARIABLES, MAYBE)),
    ),
    "settings": fields(
        matmul_tf32=forms.FLAG, cudnn_tf32=forms.FLAG, autocast=forms.FLAG, matmul_precision=WORD
    ),
    "git": either(fields(commit=text("[0-9a-f]{40}|[0-9a-f]{64}"), dirty=forms.FLAG), forms.NULL),
}  # fmt: skip
# What restricts vector instructions, and what each part reports; runs from before 2026-11-18T21:00 may not have it.
VECTORS = fields(
    restricted=either(one_of(AVX2), forms.NULL),
    variables=mapping(dict.fromkeys(RESTRICTIONS, MAYBE)),
    **{part: WORD if part in ("torch", "numba") else either(WORD, forms.NULL) for part in PARTS},
)
# Version 1 names every file; version 2 has one hash per package, so that a file can be moved or its comment mended.
ENVIRONMENT = {
    1: mapping({**COMMON, "imports": forms.map_of("[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*\\.py", HASH, 2000, least=1)}),
    2: mapping(
        {
            **COMMON,
            "sources": mapping(dict.fromkeys(OURS, HASH)),
            "libraries": mapping(dict.fromkeys(LIBRARIES, either(HASH, forms.NULL))),
            "kernels": one_of(FRESH_KERNELS, KEPT_KERNELS),
            "vectors": either(VECTORS, forms.NULL),
        },
        optional=("vectors",),
    ),
}
