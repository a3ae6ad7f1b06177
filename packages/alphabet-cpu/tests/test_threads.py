"""Threads, forks and what they share."""

import copy
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from alphabet_core import read_sequence
from alphabet_cpu import CpuRuntime, CpuTrainer, batch, trainer, workers
from alphabet_cpu.batch import LEAST_PER_THREAD, count_threads, is_split, read_batch, read_plain_batch, run_batch
from alphabet_cpu.kernels.memory import claim
from alphabet_cpu.openmp import find_product_setter, find_setter, is_obeyed, one_product_thread
from alphabet_cpu.weights import fold_and_pack
from alphabet_cpu.workers import one_torch_thread, run_together
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.processes import run_python
from numba import njit


def test_several_callers_split_at_once():
    model, (values, _) = make_model(1, 16, 4, 3), make_batch(1, 3 * LEAST_PER_THREAD // 16, 1)
    read, weights = read_batch(read_sequence(values, channels=1, like=values)), fold_and_pack(model)
    wanted = run_batch(read, weights, 1).outputs.logits
    with ThreadPoolExecutor(4) as pool:  # more callers and workers than there are processors
        results = list(pool.map(lambda _: run_batch(read, weights, 3).outputs.logits, range(24)))
    assert all((logits == wanted).all() for logits in results)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_kernels_use_as_many_threads_as_torch_is_set_to(threads, monkeypatch):
    used, before = [], torch.get_num_threads()
    monkeypatch.setattr(batch, "run_together", lambda task, count: (used.append(count), task()))
    torch.set_num_threads(threads)
    try:
        CpuRuntime(make_model())(make_batch(6, 300, 2)[0])
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert used == [threads]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe to test on Linux alone")
def test_a_forked_child_can_go_on(tmp_path):
    """Right after the first call, which compiled: no thread may still hold the compiler's lock."""
    code = (
        "import multiprocessing, torch; from alphabet_testing.models import make_batch, make_model; "
        "from alphabet_cpu import CpuRuntime; torch.set_num_threads(2); "
        "runtime = CpuRuntime(make_model()); values, _ = make_batch(64, 1024, 2); wanted = runtime(values); "
        "context = multiprocessing.get_context('fork'); queue = context.Queue(); "
        "child = context.Process(target=lambda: queue.put(runtime(values).tolist())); child.start(); "
        "found = queue.get(timeout=60); child.join(60); print(torch.equal(torch.tensor(found), wanted))"
    )
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)).stdout == "True\n"


def test_the_thread_count_comes_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), one_torch_thread():
        raise RuntimeError("planted")
    assert torch.get_num_threads() == before


def test_an_error_in_a_worker_reaches_the_caller_and_the_pool_goes_on():
    def task():
        if threading.current_thread() is caller:
            assert begun.wait(20)
        else:
            begun.set()
            raise ValueError("planted")

    caller = threading.current_thread()
    for _ in range(3):
        begun = threading.Event()
        with pytest.raises(ValueError, match="planted"):
            run_together(task, threads=3)
    both = threading.Barrier(2)
    run_together(lambda: both.wait(20), threads=2)


def test_a_thread_that_comes_too_late_is_not_waited_for():
    def occupy():
        inside.wait(20)
        assert leave.wait(20)

    everyone = max(workers._started, 2) + 1
    inside, leave, called = threading.Barrier(everyone + 1), threading.Event(), []
    busy = threading.Thread(target=run_together, args=(occupy, everyone))
    busy.start()
    inside.wait(20)
    try:
        run_together(lambda: called.append(threading.current_thread()), threads=3)
        assert called == [threading.current_thread()]
    finally:
        leave.set()
        busy.join()
    both = threading.Barrier(2)
    run_together(lambda: both.wait(20), threads=2)  # behind what was left over, which did nothing
    assert called == [threading.current_thread()]


@pytest.mark.parametrize(
    ("sequences", "length", "threads", "wanted", "split"),
    [
        (1, 8, 2, 1, False),
        (2, 64, 2, 1, False),  # too little to hand half of it over
        (2, 512, 2, 2, False),
        (1, 512, 2, 2, True),
        (1, 512, 64, 2, True),
        (3, 4096, 2, 2, True),
        (9, 4096, 2, 2, False),
        (64, 30, 64, 7, False),
    ],
)
def test_a_thread_is_woken_for_enough_work(sequences, length, threads, wanted, split):
    read = read_plain_batch(torch.zeros(sequences, length, 1), 1)
    assert count_threads(read, 64, threads, LEAST_PER_THREAD) == wanted
    assert is_split(read, wanted) == split


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


def test_the_energy_heads_products_do_not_depend_on_the_threads_either():
    model, (values, masks) = make_model(2, 43, 17, 5, variant="energy-only"), make_batch(5, 40, 2, "both")
    runtime, before, results = CpuRuntime(model), torch.get_num_threads(), []
    try:
        for threads in range(1, 8):
            torch.set_num_threads(threads)
            step = CpuTrainer(copy.deepcopy(model))
            step.accumulate(values, torch.arange(5), 1.0, **masks)
            gradients = [parameter.grad for parameter in step.parameters]
            results.append([runtime(values, **masks), *gradients])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for result in results for a, b in zip(result, results[0], strict=True))


def test_products_have_their_number_back_after_an_error():
    set_threads = find_product_setter()
    if set_threads is None:
        pytest.skip("torch comes without MKL here")
    kept = set_threads(2)
    try:
        with pytest.raises(RuntimeError), one_product_thread():
            raise RuntimeError("planted")
        assert set_threads(2) == 2
    finally:
        set_threads(kept)


def test_threads_that_wait_keep_nothing_of_the_last_call():
    both, kept = threading.Barrier(2), np.zeros(4)
    found = weakref.ref(kept)
    run_together(lambda kept=kept: both.wait(20), threads=2)
    del kept
    deadline = time.monotonic() + 20
    while found() is not None and time.monotonic() < deadline:  # the worker may not have got that far
        time.sleep(0.01)
    assert found() is None


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


def test_gradients_use_as_many_threads_as_torch_is_set_to(monkeypatch):
    used, before = [], torch.get_num_threads()
    for module in (batch, trainer):
        monkeypatch.setattr(module, "run_together", lambda task, count: (used.append(count), task()))
    step, (values, _) = CpuTrainer(make_model()), make_batch(6, 300, 2)
    try:
        for threads in (3, 2):
            torch.set_num_threads(threads)
            step.accumulate(values, torch.arange(6) % 5, 1.0)
            step.step(values, torch.arange(6) % 5)
    finally:
        torch.set_num_threads(before)
    assert used == 4 * [3] + 4 * [2]


def test_callers_keep_their_own_number_of_threads():
    before, seen = torch.get_num_threads(), {}
    inside, leave = threading.Event(), threading.Event()

    def other():
        torch.set_num_threads(2)
        with one_torch_thread() as seen["other"]:
            inside.set()
            leave.wait(20)
        seen["other after"] = torch.get_num_threads()

    thread = threading.Thread(target=other)
    try:
        torch.set_num_threads(3)
        thread.start()
        assert inside.wait(20)
        with one_torch_thread() as seen["mine"]:
            pass
        seen["mine after"] = torch.get_num_threads()
    finally:
        leave.set()
        thread.join()
        torch.set_num_threads(before)
    assert seen == {"other": 2, "other after": 2, "mine": 3, "mine after": 3}


@pytest.fixture
def three_threads():
    """Torch set to three threads, and its OpenMP at hand."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert find_setter() is not None
    yield
    torch.set_num_threads(before)


def ask_a_new_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("three_threads")
def test_a_thread_that_begins_during_a_call_has_the_number_of_the_process():
    with one_torch_thread() as threads:
        assert (torch.get_num_threads(), threads, ask_a_new_thread()) == (1, 3, 3)
    assert (torch.get_num_threads(), ask_a_new_thread()) == (3, 3)


@pytest.mark.usefixtures("three_threads")
def test_a_number_that_is_set_during_a_call_is_kept():
    with one_torch_thread():
        torch.set_num_threads(2)
    assert (torch.get_num_threads(), ask_a_new_thread()) == (2, 2)
    with ThreadPoolExecutor(1) as pool, one_torch_thread() as threads:
        pool.submit(torch.set_num_threads, 4).result()
        assert threads == 2
    assert (torch.get_num_threads(), ask_a_new_thread()) == (2, 4)


def test_a_library_that_torch_does_not_obey_is_not_taken():
    before = torch.get_num_threads()
    assert not is_obeyed(lambda number: None)
    assert torch.get_num_threads() == before


def test_where_openmp_is_not_found_nothing_is_set(monkeypatch):
    monkeypatch.setattr("alphabet_cpu.workers.find_setter", lambda: None)
    before = torch.get_num_threads()
    with one_torch_thread() as threads:
        assert threads == torch.get_num_threads() == before
