"""Programs that run at once: nothing but time tells them from programs that run one after another."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, batches, conflicts, deferred, execute, machines
from alphabet_ptx.block_memory import SharedMemory
from alphabet_ptx.parse import parse
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.batches import assert_same, find_outcome
from alphabet_testing.ptx.function_kernels import checked_kernel
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import make_kernel


def whole(count, seed=0, low=-50, high=50):
    values = np.random.default_rng(seed).integers(low, high, count).astype(np.int32)
    return np.where(values == 0, 7, values).astype(np.int32)


# Kernel, signature, constants, grid, arguments, whether its programs run at once.
LAUNCHES = {
    "scan of rows": (
        kernels.scan_rows_kernel, pointers("ar ai br bi hr hi"), {"T": 64, "M": 4, "REVERSE": False}, 5,
        lambda: [*(normal(5, 4, 64, seed=i, scale=0.6) for i in range(4)), blank(5, 4, 64), blank(5, 4, 64)], True,
    ),
    "scan of columns, through shared memory": (
        kernels.scan_columns_kernel, pointers("ar ai br bi hr hi"), {"T": 32, "M": 8, "REVERSE": True}, 4,
        lambda: [*(normal(4, 32, 8, seed=i, scale=0.6) for i in range(4)), blank(4, 32, 8), blank(4, 32, 8)], True,
    ),
    "a sum with a mask": (
        kernels.add_kernel, {**pointers("x y out"), "n": "i32"}, {"BLOCK": 256}, 7,
        lambda: [normal(1700), normal(1700, seed=1), blank(1700), 1700], True,
    ),
    "functions": (
        kernels.functions_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 128}, 4,
        lambda: [normal(400), blank(13, 400), 400], True,
    ),
    "softmax": (
        kernels.softmax_rows_kernel, {**pointers("x out"), "columns": "i32"}, {"BLOCK": 256}, 6,
        lambda: [normal(6, 200, scale=4), blank(6, 200), 200], True,
    ),
    "integers": (
        kernels.integers_kernel, {**pointers("x y out", "*i32"), "n": "i32"}, {"BLOCK": 128}, 4,
        lambda: [whole(450), whole(450, 1), np.zeros((9, 450), np.int32), 450], True,
    ),
    "bytes": (
        kernels.masked_bytes_kernel, {"x": "*fp32", "mask": "*i1", "observed": "*u8", "out": "*fp32", "n": "i32"},
        {"BLOCK": 128}, 4,
        lambda: [normal(450), normal(450, seed=1) > 0, (normal(450, seed=2) > 0).view(np.uint8), blank(450), 450],
        True,
    ),
    "loops of different lengths": (
        kernels.collatz_kernel, pointers("x out", "*i32"), {"BLOCK": 1}, 12,
        lambda: [np.arange(1, 13, dtype=np.int32), np.zeros(12, np.int32)], True,
    ),
    "a product in tf32": (
        kernels.dot_kernel, {**pointers("a b c"), "K": "i32"}, {"M": 32, "N": 32, "BK": 32, "PRECISION": "tf32"}, 1,
        lambda: [normal(32, 96), normal(96, 32, seed=1), blank(32, 32), 96], True,
    ),
    "programs that write the same": (
        kernels.reduce_kernel, {**pointers("x sums maxima"), "where": "*i32"}, {"ROWS": 8, "COLUMNS": 32, "AXIS": 0}, 3,
        lambda: [normal(8, 32), blank(32), blank(32), np.zeros(32, np.int32)], False,
    ),
    "a missing barrier": (
        kernels.lag_kernel, pointers("x scratch out"), {"N": 128, "LAG": 3, "BARRIER": False}, 1,
        lambda: [normal(128), blank(128), blank(128)], False,
    ),
    "atomics whose results are used": (
        kernels.histogram_kernel,
        {"x": "*fp32", "bins": "*fp32", "totals": "*i32", "old": "*i32", "n": "i32"}, {"BLOCK": 128}, 4,
        lambda: [normal(500), np.zeros(8, np.float32), np.zeros(8, np.int32), np.zeros(4, np.int32), 500], False,
    ),
    "the last program adds up": (
        kernels.last_program_kernel, {**pointers("x partial"), "counter": "*i32", "out": "*fp32"},
        {"PROGRAMS": 8, "BLOCK": 128, "SEM": "acq_rel"}, 8,
        lambda: [normal(1024), blank(8), np.zeros(1, np.int32), blank(1)], False,
    ),
}  # fmt: skip


def compiled(name):
    kernel, signature, constants, *_ = LAUNCHES[name]
    return compile_once(kernel, signature, constants)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_is_the_same_in_batches_of_any_size(name):
    *_, grid, arguments, at_once = LAUNCHES[name]
    expected = find_outcome(compiled(name), grid, arguments(), together=1)
    assert expected.together == 1
    for together in (None, 2, 3):
        outcome = find_outcome(compiled(name), grid, arguments(), together=together)
        assert_same(outcome, expected)
        if together is None:
            assert outcome.together == (grid if at_once else 1)


@pytest.mark.parametrize("name", ["softmax", "functions", "a product in tf32"])
def test_the_worst_rounding_is_the_same_in_batches(name):
    *_, grid, arguments, _ = LAUNCHES[name]
    options = {"rounding": "worst", "seed": 5}
    assert_same(
        find_outcome(compiled(name), grid, arguments(), **options),
        find_outcome(compiled(name), grid, arguments(), together=1, **options),
    )


def test_other_orders_run_one_by_one():
    *_, grid, arguments, _ = LAUNCHES["softmax"]
    for order in ("descending", 3):
        assert execute(compiled("softmax"), grid, arguments(), order=order).together == 1


def kernel(body, arrays, shared=0):
    """A kernel of 64 threads with pointers in %d0, %d1, ..., the thread in %r0, the program in %r1, both in %r2."""
    loads = [f"ld.param.b64 %d{i}, [k_param_{i}];" for i in range(arrays)]
    start = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %ctaid.x;", "mad.lo.s32 %r2, %r1, 64, %r0;", *loads]
    return make_kernel("\n".join([*start, body]), ["u64"] * arrays, 64, shared)


PLACE = "mul.wide.u32 %d10, %r2, 4;\nadd.s64 %d10, %d0, %d10;\n"


@pytest.mark.parametrize("together", [None, 1, 2])
def test_a_fault_names_the_program_that_commits_it(together):
    body = f"{PLACE}setp.eq.u32 %p0, %r2, 330;\n@%p0 add.s64 %d10, %d10, 4096;\nst.global.b32 [%d10], %r0;"
    x = np.zeros(512, np.uint32)
    with pytest.raises(PtxError, match="out of range") as error:
        execute(kernel(body, 1), 8, [x], together=together)
    assert (error.value.program, error.value.thread) == ((5, 0, 0), 10)
    assert not x.any()


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.volatile.global.b32 %r4, [%d10];",
        "ld.acquire.gpu.global.b32 %r4, [%d10];",
        "st.release.gpu.global.b32 [%d10], %r4;",
        "st.relaxed.sys.global.b32 [%d10], %r4;",
        "atom.global.gpu.relaxed.add.u32 %r4, [%d10], 1;\nst.global.b32 [%d10+512], %r4;",
        "atom.global.gpu.acq_rel.cas.b32 %r5, [%d10], 0, 1;",
        "fence.proxy.async;",
    ],
)
def test_kernels_that_say_that_their_programs_communicate_run_one_by_one(instruction):
    assert not batches.communicates_never(parse(kernel(instruction, 1)))
    quiet = "ld.global.b32 %r4, [%d10];\nred.global.add.u32 [%d10], 1;\nbar.sync 0;\nmembar.gl;"
    assert batches.communicates_never(parse(kernel(quiet, 1)))


def test_kernels_that_print_run_one_by_one():
    compiled = compile_once(checked_kernel, pointers("x"), {"BLOCK": 32}, warps=1, debug=True)
    assert not batches.communicates_never(parse(compiled.ptx))


def test_a_program_that_does_not_end_reaches_the_limit_of_all_steps():
    body = "setp.eq.u32 %p0, %r1, 2;\nAGAIN:\n@%p0 bra AGAIN;"
    for together in (None, 1):
        with pytest.raises(PtxError, match="has not ended after 2000 steps") as error:
            execute(kernel(body, 0), 4, [], limit=2000, together=together)
        assert error.value.program == (2, 0, 0)


# Matrices of eight rows of 16 bytes, of which every thread stores a word; then the first or last of the four reads all.
MATRIX = """shl.b32 %r3, %r0, 4;
mov.b32 %r4, buffer;
add.s32 %r4, %r4, %r3;
shl.b32 %r5, %r0, 2;
and.b32 %r5, %r5, 112;
and.b32 %r6, %r0, 32;
mad.lo.s32 %r5, %r6, 16, %r5;
mov.b32 %r6, buffer;
add.s32 %r5, %r5, %r6;
{before}
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {{%r0}};
and.b32 %r7, %r0, 3;
setp.eq.u32 %p0, %r7, {reader};
{after}
@%p0 ld.shared.v4.b32 {{%r8, %r9, %r10, %r11}}, [%r5];
mul.wide.u32 %d11, %r2, 16;
add.s64 %d11, %d0, %d11;
@%p0 st.global.v4.b32 [%d11], {{%r8, %r9, %r10, %r11}};"""


@pytest.mark.parametrize("before", ["", "st.shared.v4.b32 [%r4], {%r0, %r0, %r0, %r0};"])
@pytest.mark.parametrize("after", ["", "bar.sync 0;"])
@pytest.mark.parametrize("reader", [0, 3])
def test_a_matrix_is_stored_word_by_word(before, after, reader):
    text = kernel(MATRIX.format(before=before, after=after, reader=reader), 1, 1024)
    expected = find_outcome(text, 4, [np.zeros(1024, np.uint32)], together=1)
    outcome = find_outcome(text, 4, [np.zeros(1024, np.uint32)])
    assert_same(outcome, expected)
    assert bool(expected.races) is bool(before or not after)
    assert outcome.together == (1 if expected.races else 4)


SUMS = f"""and.b32 %r3, %r0, 7;
mul.wide.u32 %d11, %r3, 4;
add.s64 %d11, %d1, %d11;
{PLACE}ld.global.b32 %r4, [%d10];
red.global.add.f32 [%d11], %r4;
mov.u32 %r5, 0;
atom.global.gpu.acq_rel.add.f32 %r5, [%d11], %r4;"""


# The last program wins; odd ones store in another instruction than even ones.
OVERWRITE = """mul.wide.u32 %d11, %r0, 4;
add.s64 %d11, %d0, %d11;
and.b32 %r3, %r1, 1;
setp.eq.u32 %p0, %r3, 1;
@%p0 st.global.b32 [%d11], %r1;
@!%p0 st.global.b32 [%d11], %r1;"""


def test_sums_by_atomics_are_in_the_order_of_programs():
    """Float sums depend on their order: six programs add numbers to eight places, in two steps each."""
    x, sums = normal(384, scale=1e3), np.zeros(8, np.float32)
    report = execute(kernel(SUMS, 2), 6, [x, sums])
    expected = np.zeros(8, np.float32)
    for program in x.reshape(6, 64):
        for _ in range(2):
            for thread, value in enumerate(program):
                expected[thread % 8] += value
    assert report.together == 6
    assert (sums == expected).all()


def test_the_last_of_several_programs_that_store_to_one_place_wins_and_is_reported():
    x = np.zeros(64, np.uint32)
    report = execute(kernel(OVERWRITE, 1), 6, [x])
    assert (x == 5).all()
    assert [race.kind for race in report.races] == ["write after write"] * 2
    assert report.together == 1


def test_how_many_run_at_once():
    assert batches.plan_batches(100, 128) == [25] * 4
    assert batches.plan_batches(7, 128) == [7]
    assert batches.plan_batches(1, 1024) == [1]
    assert batches.plan_batches(31, 128, most=10) == [6, 6, 6, 6, 6, 1]
    for count in range(1, 200):
        sizes = batches.plan_batches(count, 256)
        assert sum(sizes) == count
        assert max(sizes) <= 16
        assert len(set(sizes)) <= 2
    with pytest.raises(PtxError, match="together must be"):
        execute(kernel("", 0), 1, [], together=0)


def forget_conflicts(monkeypatch):
    monkeypatch.setattr(conflicts.ConflictTracker, "_compare", lambda *_, **__: None)


def forget_doubled_writes(monkeypatch):
    def write(self, cells, threads, pc, changed, *, atomic=False):
        self.written[cells] = threads + self.clock.stamp

    monkeypatch.setattr(conflicts.ConflictTracker, "write", write)


def share_memory(monkeypatch):
    init = SharedMemory.__init__

    def share(self, *arguments):
        init(self, *arguments)
        self.base = None if self.base is None else 0 * self.base

    monkeypatch.setattr(SharedMemory, "__init__", share)


def add_in_the_order_of_steps(monkeypatch):
    init = deferred.Deferred.__init__
    monkeypatch.setattr(deferred.Deferred, "__init__", lambda self, memory, size: init(self, memory, 1 << 40))


@pytest.mark.parametrize("fault", [forget_conflicts, forget_doubled_writes, share_memory, add_in_the_order_of_steps])
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    """One launch at least differs from the definition if conflicts are overlooked, or memory or an order mixed up."""
    monkeypatch.setattr(machines, "_idle", {})  # those with the fault are for this test only
    fault(monkeypatch)
    launches = [(compiled(name), grid, arguments, at_once) for name, (*_, grid, arguments, at_once) in LAUNCHES.items()]
    launches.append((kernel(SUMS, 2), 6, lambda: [normal(384, scale=1e3), np.zeros(8, np.float32)], True))
    launches.append((kernel(OVERWRITE, 1), 2, lambda: [np.zeros(64, np.uint32)], False))
    noticed = []
    for text, grid, arguments, at_once in launches:
        outcome = find_outcome(text, grid, arguments())
        noticed.append(outcome != find_outcome(text, grid, arguments(), together=1))
        noticed.append(at_once and outcome.together != grid)
    assert any(noticed)
