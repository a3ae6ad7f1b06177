"""A ledger restricted to AVX2: every part obeys, the evidence says so, and a run that only claims it fails."""

import copy
import json
import subprocess
import sys

import llvmlite.binding
import pytest
from alphabet_audit import AuditError, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.declare.vectors import RESTRICTIONS, find_disobedience
from alphabet_audit.judge.evaluate import evaluate
from alphabet_audit.judge.manifest import check_environment
from alphabet_audit.measure.manifest import make_manifest
from alphabet_audit.measure.vectors import describe_vectors, require_vectors, restrict_vectors
from alphabet_audit.show.compare import compare_runs
from alphabet_audit.show.report import write_report
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import ENVIRONMENT, run_fake

has_avx2 = pytest.mark.skipif(
    not llvmlite.binding.get_host_cpu_features().get("avx2"), reason="restricts to AVX2, which this processor has not"
)
OBEDIENT = {
    "restricted": "avx2",
    "variables": {**RESTRICTIONS, "NUMBA_CPU_FEATURES": "+avx,+avx2,-avx512f,+fma"},
    "torch": "AVX2",
    "onednn": "Intel AVX2",
    "mkl": "Intel(R) Architecture processors",
    "numba": "znver5: avx,avx2,avxvnni,fma",
    "inductor": None,
}
INTELS = "Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512) with support of DL Boost enabled processors"
# The restriction claimed, and a part or a variable that says otherwise.
LIES = {
    "torch": {"torch": "AVX512"},
    "torch by default": {"torch": "DEFAULT"},
    "oneDNN": {"onednn": "Intel AVX-512 with Intel DL Boost"},
    "MKL": {"mkl": INTELS},
    "numba": {"numba": "znver5: avx,avx2,avx512f,fma"},
    "numba without AVX2": {"numba": "generic: "},
    "a variable": {"variables": {**OBEDIENT["variables"], "ATEN_CPU_CAPABILITY": None}},
    "numba's variable": {"variables": {**OBEDIENT["variables"], "NUMBA_CPU_FEATURES": "+avx512f"}},
    "numba's variable, with AVX2": {"variables": {**OBEDIENT["variables"], "NUMBA_CPU_FEATURES": "+avx2,+avx512f"}},
}


def run_with(folder, vectors, scope="same-width"):
    return run_fake(folder, scope, environment={**ENVIRONMENT, "vectors": vectors})


def test_a_restricted_run_says_so_wherever_its_numbers_are(tmp_path):
    declarations = run_with(tmp_path / "avx2", OBEDIENT)
    found = command("evaluate", tmp_path / "avx2")
    assert found.stdout.startswith("status=partial scope=same-width device=cpu vectors=avx2 version=2\n")
    assert found.stdout.count("(cpu, restricted to AVX2)") == 4
    write_report(tmp_path / "avx2", declarations, tmp_path)
    assert "Measured on <strong>cpu, restricted to AVX2</strong>" in (tmp_path / "report.html").read_text()
    assert "Measured on **cpu, restricted to AVX2**" in (tmp_path / "report.md").read_text()
    run_with(tmp_path / "all", ENVIRONMENT["vectors"])
    assert "restricted" not in command("evaluate", tmp_path / "all").stdout
    folders = [tmp_path / "all", tmp_path / "avx2"]
    with pytest.raises(AuditError, match=r"different devices: .*, restricted to AVX2\."):
        compare_runs(folders, declarations)
    beside = compare_runs(folders, declarations, across_devices=True)
    assert any("restricted to AVX2, begun" in remark for remark in beside.remarks)


@pytest.mark.parametrize("name", LIES)
def test_a_run_that_claims_avx2_and_used_more_fails(name, tmp_path):
    declarations = run_with(tmp_path, {**OBEDIENT, **LIES[name]})
    (reason,) = evaluate(tmp_path, declarations).reasons
    assert reason.startswith("the run is restricted to AVX2, but")


@pytest.mark.parametrize("inductor", ["avx512 avx512_vnni, march=x86-64-v3", "avx2, march=native"])
def test_compiled_families_are_held_to_it(inductor):
    assert list(find_disobedience({**OBEDIENT, "inductor": "avx2, march=x86-64-v3"})) == []
    assert any("inductor" in reason for reason in find_disobedience({**OBEDIENT, "inductor": inductor}))


def test_a_processor_may_be_called_after_what_it_is_kept_from():
    assert list(find_disobedience({**OBEDIENT, "numba": "skylake-avx512: avx,avx2,fma"})) == []


def test_a_parity_run_cannot_claim_it():
    environment = {**ENVIRONMENT, "vectors": {**ENVIRONMENT["vectors"], "restricted": "avx2"}}
    manifest = make_manifest("parity", "cpu", environment, read_declarations())
    assert any("a parity run is restricted to nothing" in reason for reason in check_environment(manifest))


def test_a_name_that_ends_like_a_restriction_is_not_one(tmp_path):
    device = {**ENVIRONMENT["device"], "name": f"{ENVIRONMENT['device']['name']}, restricted to AVX2"}
    declarations = run_fake(tmp_path / "named", "same-width", environment={**ENVIRONMENT, "device": device})
    run_with(tmp_path / "avx2", OBEDIENT)
    with pytest.raises(AuditError, match="measured on different devices"):
        compare_runs([tmp_path / "named", tmp_path / "avx2"], declarations)


def test_one_arm_alone_cannot_be_restricted(tmp_path):
    variables = {**ENVIRONMENT["vectors"]["variables"], "ATEN_CPU_CAPABILITY": "default"}
    declarations = run_with(tmp_path, {**ENVIRONMENT["vectors"], "variables": variables, "torch": "DEFAULT"})
    (reason,) = evaluate(tmp_path, declarations).reasons
    assert reason.startswith("ATEN_CPU_CAPABILITY is set, which restricts one part and not the others")


def test_runs_from_before_it_was_recorded_remain_valid(tmp_path):
    declarations = run_fake(tmp_path, "same-width")
    run = read_run(tmp_path, FILES)
    before, after = "2026-11-18T20:00:00+00:00", "2026-11-18T21:00:00+00:00"
    for created, reasons in ((before, 0), (after, 1)):
        old = copy.deepcopy(run)
        old.manifest["environment"].pop("vectors")
        old.manifest["created"] = created
        for record in old.records:
            if record["kind"] == "session":
                record["begun"] = created
        old.begin_again()
        found = old.judge(read_declarations())
        assert [reason for reason in found.reasons if "vector" in reason] == (
            ["the vector instructions in force are not recorded"] * reasons
        )
    assert declarations is not None


def test_what_is_compiled_must_be_what_is_recorded(tmp_path):
    declarations = run_with(tmp_path, {**OBEDIENT, "inductor": "avx2, march=x86-64-v3"})
    (reason,) = evaluate(tmp_path, declarations).reasons
    assert "must be recorded where torch.compile is tried" in reason


def test_an_unrestricted_process_cannot_claim_it(monkeypatch):
    with pytest.raises(AuditError, match="the run is restricted to AVX2, but"):
        require_vectors(describe_vectors("avx2", compiled=False))
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "SSE4_2")
    with pytest.raises(AuditError, match="MKL_ENABLE_INSTRUCTIONS is set"):
        require_vectors(describe_vectors(None, compiled=False))


def test_an_unknown_restriction_is_a_mistake():
    with pytest.raises(AuditError, match="--vectors 'sse' is unknown; use avx2"):
        restrict_vectors("sse")


RESTRICTED = """
from alphabet_audit.measure.vectors import describe_vectors, require_vectors, restrict_vectors
restrict_vectors("avx2")
found = describe_vectors("avx2", compiled=False)
require_vectors(found)
"""
COMPILED = """
import json, sys
import numpy as np
from alphabet_baselines.compiling import compile_kernel
from alphabet_cpu.kernels import inference, lanes, products
from alphabet_cpu.kernels.products import BLOCK, Rows
from diagonal_of_test import axpy
buffers = [np.ones(2048, np.float32) for _ in range(3)]
products.multiply_rows(Rows(buffers[0], 0, 32), buffers[1], Rows(buffers[2], 0, 32), 8)
axpy(buffers[0], buffers[1])
kernels = (products.multiply_rows, axpy)
print(json.dumps({
    "wide": ["zmm" in code for each in kernels for code in each.inspect_asm().values()],
    "misses": [sum(each.stats.cache_misses.values()) for each in kernels],
    "block": list(BLOCK),
    "restricted": found,
}))
"""
AXPY = """
from alphabet_baselines.compiling import compile_kernel
def axpy(x, y):
    for i in range(len(x)):
        y[i] += 2.0 * x[i]
axpy = compile_kernel(axpy)
"""


@has_avx2
def test_every_part_of_a_restricted_process_obeys(tmp_path, monkeypatch):
    """Both packages' kernels are compiled without 512-bit registers, beside wider ones in the same folder."""
    (tmp_path / "diagonal_of_test.py").write_text(AXPY)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = []
    for code in ("found = None", RESTRICTED, RESTRICTED):
        run = subprocess.run([sys.executable, "-c", code + COMPILED], check=True, capture_output=True, text=True)
        found.append(json.loads(run.stdout))
    free, first, second = found
    assert first["restricted"]["torch"] == "AVX2"
    assert first["wide"] == second["wide"] == [False, False]
    assert first["block"] == [4, 1]
    wide = llvmlite.binding.get_host_cpu_features().get("avx512f")
    assert free["block"] == ([8, 2] if wide else [4, 1])
    assert free["wide"][0] == wide
    # What was compiled for the whole processor is not taken for AVX2, and what was compiled for AVX2 is kept.
    assert first["misses"] == [1, 1] if wide else [0, 0]
    assert second["misses"] == [0, 0]
