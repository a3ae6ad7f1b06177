"""Which gates a parity run must hold on which device."""

from alphabet_audit.cases import PLANS, Case

CPU, NATIVE, INTERPRETED = "cpu", "triton", "triton (interpreted)"


def expected_cases(device: str) -> dict[tuple[str, str], Case]:
    """Every case by runtime and key; without CUDA the kernels' are there too, not run, and once more interpreted."""
    plans = [(CPU, "full"), (NATIVE, "full"), *([] if device == "cuda" else [(INTERPRETED, "reduced")])]
    return {(name, case.key): case for name, plan in plans for case in PLANS[plan]}
