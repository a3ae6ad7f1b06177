"""CpuRuntime against the reference."""

import copy
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, AlphabetError, read_sequence, value_checks
from alphabet_cpu import CpuRuntime
from alphabet_cpu.batch import LONG, read_batch, run_batch
from alphabet_cpu.memory import claim
from alphabet_cpu.weights import fold_and_pack
from alphabet_cpu.workers import one_torch_thread, run_together
from cpu_models import MASKS, SIZES, make_batch, make_model
from hypothesis import given
from hypothesis import strategies as st
from numba import njit


def run_python(code):
    """In a process of its own, which finds the test models."""
    here = str(Path(__file__).parent)
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r})\n{code}"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result


def difference(model, values, **masks):
    with torch.no_grad():
        return float((CpuRuntime(model)(values, **masks) - model(values, **masks)).abs().max())


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_logits_equal_the_reference_at_every_length(sizes, masks):
    model = make_model(*sizes)
    for length in (1, 2, 4, 5, 7, 8, 9, 31, 63, 64, 65, 127, 128, 129, 135, 136, 137, 260):
        values, given_masks = make_batch(3, length, sizes[0], masks)
        assert difference(model, values, **given_masks) < 1e-6


@pytest.mark.parametrize(("batch", "length"), [(32, 512), (64, 512), (8, 2048)])
@pytest.mark.parametrize("seed", [7, 11, 19])
def test_logits_at_the_anchors(batch, length, seed):
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    values, _ = make_batch(batch, length, 2, seed=seed)
    exact = copy.deepcopy(model).double()(values.double()).detach()
    found = CpuRuntime(model)(values)
    assert float((found - model(values)).abs().max().detach()) < 1e-6
    assert float((found.double() - exact).abs().max()) < 1e-6


@given(length=st.integers(1, 200), modes=st.integers(1, 20), extra=st.integers(0, 20), seed=st.integers(0, 99))
def test_any_size_agrees(length, modes, extra, seed):
    model = make_model(1, 2 * modes + extra, modes, 2, seed=seed)
    values, masks = make_batch(2, length, 1, MASKS[seed % 4], seed)
    assert difference(model, values, **masks) < 1e-6


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [LONG, LONG + 1, LONG + 137])
def test_few_long_sequences_are_split_in_time_and_nothing_changes(batch, length, masks):
    model = make_model(1, 16, 4, 3)
    values, given_masks = make_batch(batch, length, 1, masks)
    assert difference(model, values, **given_masks) < 1e-6
    batch_of = read_batch(read_sequence(values, channels=1, like=values, **given_masks))
    alone, *shared = (run_batch(batch_of, fold_and_pack(model), threads) for threads in (1, 2, 4, 7))
    for found in shared:
        assert (found.sums == alone.sums).all()
        assert (found.logits == alone.logits).all()


def test_several_callers_split_at_once():
    model, (values, _) = make_model(1, 16, 4, 3), make_batch(1, LONG, 1)
    batch, weights = read_batch(read_sequence(values, channels=1, like=values)), fold_and_pack(model)
    wanted = run_batch(batch, weights, 1).logits
    with ThreadPoolExecutor(4) as pool:  # more callers and workers than there are processors
        results = list(pool.map(lambda _: run_batch(batch, weights, 3).logits, range(24)))
    assert all((logits == wanted).all() for logits in results)


def test_extra_memory_does_not_grow_with_the_length():
    code = (
        "import resource, torch\n"
        "from alphabet_core import value_checks\n"
        "from alphabet_cpu import CpuRuntime\n"
        "from cpu_models import make_model\n"
        "runtime, values = CpuRuntime(make_model()), torch.randn(1, 1 << 20, 2)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with value_checks(False):\n"
        "    runtime(values[:, :8192]); before = peak(); runtime(values); print(peak() - before)\n"
    )
    grown = int(run_python(code).stdout)  # kilobytes; the input alone is 8 MB, one feature of each token 4 MB
    assert grown < 1000


def test_a_frame_away_from_its_base_is_right():
    values, _ = make_batch(2, 50, 2)
    assert difference(make_model(turned=True), values) < 1e-6


def test_zero_drive_gives_the_reference_too():
    assert difference(make_model(), torch.zeros(2, 40, 2)) < 1e-6
    values, _ = make_batch(2, 40, 2)
    assert difference(make_model(), values, valid=torch.zeros(2, 40, dtype=torch.bool)) < 1e-6


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e19, 1e25, 1e36])
def test_tiny_and_huge_values_give_the_reference_too(size):
    values, _ = make_batch(2, 150, 2)
    with torch.no_grad():
        wanted = make_model()(size * values)
    assert torch.isfinite(wanted).all()
    assert difference(make_model(), size * values) < 2e-6


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_unchecked_nan_and_inf_reach_the_logits_of_their_row(bad):
    values, _ = make_batch(3, 90, 2)
    values[1, 70, 0] = bad
    with value_checks(False):
        logits = CpuRuntime(make_model())(values)
    assert torch.isnan(logits[1]).all()
    assert torch.isfinite(logits[[0, 2]]).all()


def test_changed_parameters_are_seen():
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = CpuRuntime(model)
    before = runtime(values)
    with torch.no_grad():
        model.direct.lift.bias += 0.5
    assert not torch.allclose(runtime(values), before)
    assert difference(model, values) < 1e-6
    model.load_state_dict(make_model(seed=3).state_dict())
    with torch.no_grad():
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6


REFERENCE = {
    "variant": (lambda: make_model(variant="no-synthesis"), {}, "structural variant"),
    "energy": (lambda: make_model(variant="energy-only"), {}, "structural variant"),
    "lags": (lambda: Alphabet(AlphabetConfig(2, 64, 16, 5, lags=(1, 3))), {}, r"lags are \(1, 3\)"),
    "double": (lambda: make_model().double(), {}, r"the model is torch\.float64"),
    "clock": (make_model, {"time_delta": torch.ones(2, 30)}, "time_delta is given"),
}


@pytest.mark.parametrize("case", REFERENCE)
def test_everything_else_visibly_takes_the_reference(case):
    make, given_masks, reason = REFERENCE[case]
    model = make()
    values = make_batch(2, 30, 2)[0].to(model.project.weight.dtype)
    runtime = CpuRuntime(model)
    path = runtime.path(values, **given_masks)
    assert path.startswith("reference: ")
    assert re.search(reason, path)
    with torch.no_grad():
        assert torch.equal(runtime(values, **given_masks), model(values, **given_masks))


def test_the_fused_path_says_so():
    model, (values, masks) = make_model(), make_batch(2, 30, 2, "both")
    assert CpuRuntime(model).path(values, **masks) == "fused"
    assert repr(CpuRuntime(model)).startswith("CpuRuntime(fused, AlphabetConfig(")
    assert "reference: lags" in repr(CpuRuntime(Alphabet(AlphabetConfig(2, 8, 2, 2, lags=(3,)))))


def test_mistakes_get_the_cores_words():
    runtime = CpuRuntime(make_model())
    with pytest.raises(AlphabetError, match="values must have 2 channels"):
        runtime(torch.randn(2, 9, 3))
    with pytest.raises(AlphabetError, match="values must be finite"):
        runtime(torch.full((2, 9, 2), torch.nan))
    with pytest.raises(AlphabetError, match=r"values is torch\.float64 but the model"):
        runtime(torch.randn(2, 9, 2).double())
    with pytest.raises(AlphabetError, match="model must be an Alphabet; got Linear"):
        CpuRuntime(torch.nn.Linear(2, 2))


def test_results_repeat_bit_by_bit_and_do_not_depend_on_the_threads():
    model, (values, _) = make_model(), make_batch(7, 100, 2)
    runtime, before = CpuRuntime(model), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            results.append(runtime(values))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


def test_several_threads_may_share_a_runtime():
    runtime, batches = CpuRuntime(make_model()), [make_batch(4, 60 + k, 2, seed=k)[0] for k in range(8)]
    expected = [runtime(values) for values in batches]
    with ThreadPoolExecutor(4) as callers:
        for _ in range(5):
            for found, wanted in zip(callers.map(runtime, batches), expected, strict=True):
                assert torch.equal(found, wanted)
        threads = torch.get_num_threads()
        assert set(callers.map(lambda _: torch.get_num_threads(), range(8))) == {threads}
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == threads  # what torch hands to a new thread


def _in_child(queue, runtime, values):
    torch.set_num_threads(2)
    queue.put(runtime(values).tolist())


@pytest.mark.skipif(
    not hasattr(sys, "getwindowsversion") and sys.platform != "linux", reason="fork is a Linux matter here"
)
def test_a_forked_child_can_go_on():
    code = (
        "import multiprocessing, torch; from cpu_models import make_batch, make_model; "
        "from alphabet_cpu import CpuRuntime; torch.set_num_threads(2); "
        "runtime = CpuRuntime(make_model()); values, _ = make_batch(4, 50, 2); wanted = runtime(values); "
        "context = multiprocessing.get_context('fork'); queue = context.Queue(); "
        "child = context.Process(target=lambda: queue.put(runtime(values).tolist())); child.start(); "
        "found = queue.get(timeout=60); child.join(60); assert torch.equal(torch.tensor(found), wanted)"
    )
    run_python(code)


def test_the_thread_count_comes_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), one_torch_thread():
        raise RuntimeError("planted")
    assert torch.get_num_threads() == before


def test_an_error_in_a_worker_reaches_the_caller_and_the_pool_goes_on():
    def task():
        if threading.current_thread() is not caller:
            raise ValueError("planted")

    caller = threading.current_thread()
    for _ in range(3):
        with pytest.raises(ValueError, match="planted"):
            run_together(task, threads=3)
    seen = []
    run_together(lambda: seen.append(threading.get_ident()), threads=2)
    assert len(seen) == 2


def test_no_two_threads_claim_the_same():
    @njit(nogil=True)
    def take(counter, taken):
        while True:
            number = claim(counter, 0)
            if number >= taken.size:
                return
            taken[number] += 1

    counter, taken = np.zeros(1, np.int64), np.zeros(1_000_000, np.int64)
    run_together(lambda: take(counter, taken), threads=4)
    assert (taken == 1).all()
