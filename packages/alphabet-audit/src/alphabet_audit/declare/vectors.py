"""What a ledger may say of vector instructions: those of the processor, or AVX2 and nothing wider in every part."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

AVX2 = "avx2"
# What each part reads, and the value by which it keeps to AVX2; numba's is a list of features that depends on the
# processor, and None must not be set.
RESTRICTIONS: Mapping[str, str | None] = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "DNNL_MAX_CPU_ISA": None,
    "MKL_CBWR": None,
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NUMBA_CPU_FEATURES": "+avx2",
    "NUMBA_CPU_NAME": None,
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
}
PARTS = ("torch", "onednn", "mkl", "numba", "inductor")
WIDER = ("avx512", "avx10", "amx")
# MKL names no instructions where the processor is not Intel's: it then runs kernels without AVX-512, restricted or not.
MUST_NAME_AVX2 = ("torch", "onednn", "numba", "inductor")


def describe_restriction(vectors: Mapping[str, Any] | None) -> str:
    """The restriction in words to stand behind a device's name, or nothing."""
    return ", restricted to AVX2" if vectors and vectors["restricted"] == AVX2 else ""


def find_disobedience(vectors: Mapping[str, Any]) -> Iterator[str]:
    """What contradicts the restriction, or the absence of one, that a run claims.

    vectors: as the manifest's environment holds them
    """
    variables = vectors["variables"]
    if vectors["restricted"] is None:
        for name in sorted(name for name, value in variables.items() if value is not None):
            yield f"{name} is set, which restricts one part and not the others: unset it, or restrict all by --vectors"
        return
    for part in PARTS:
        reading = vectors[part]
        words = re.sub("[^a-z0-9]", "", read_instructions(part, reading).lower())
        if any(each in words for each in WIDER):
            yield f"the run is restricted to AVX2, but {part} reports {reading}"
        elif reading is not None and part in MUST_NAME_AVX2 and AVX2 not in words:
            yield f"the run is restricted to AVX2, but {part} reports {reading}, which is not AVX2"
    march = RESTRICTIONS["TORCHINDUCTOR_CPP_MARCH"]
    if vectors["inductor"] is not None and not vectors["inductor"].endswith(f"march={march}"):
        yield f"the run is restricted to AVX2, but inductor's compiler is asked for {vectors['inductor']}"
    for name, value in RESTRICTIONS.items():
        found = variables[name]
        if not (follows_features(found or "") if name == "NUMBA_CPU_FEATURES" else found == value):
            yield f"the run is restricted to AVX2, but {name} is {found}"


def read_instructions(part: str, reading: str | None) -> str:
    """What a part says of instructions; numba's words begin with a processor, which may be called skylake-avx512."""
    words = reading or ""
    return words.partition(": ")[2] if part == "numba" else words


def follows_features(features: str) -> bool:
    """Whether the features that numba was given have AVX2 and nothing wider."""
    given = [each[1:].replace("-", "") for each in features.split(",") if each.startswith("+")]
    return AVX2 in given and not any(each.startswith(WIDER) for each in given)
