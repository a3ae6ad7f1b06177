"""The protocol: repeats fill the target, warm-ups come first, blocks are in order and none is dropped."""

import time

import pytest
from alphabet_audit.measure.clock import MonotonicClock
from alphabet_audit.measure.timing import Pair, calibrate_repeats, run_groups, warm_up
from alphabet_audit.protocol.ratios import geometric_mean, group_ratio, summarize
from alphabet_audit.protocol.repeats import PROTOCOL, count_repeats
from alphabet_testing.audit.fake_bench import FakeClock
from hypothesis import given
from hypothesis import strategies as st


def test_the_protocol_is_the_specification():
    assert (PROTOCOL.target_seconds, PROTOCOL.warmups, PROTOCOL.groups) == (0.025, 5, 7)


@given(seconds=st.floats(1e-6, 2.0))
def test_repeats_fill_the_target_and_no_more_than_they_must(seconds):
    clock = FakeClock()
    samples = calibrate_repeats(clock, lambda: seconds, 0.025)
    repeats = count_repeats(samples, 0.025)
    assert repeats * seconds * 1.01 >= 0.025
    assert repeats == 1 or (repeats - 1) * seconds * 0.98 < 0.025


class Hiccup(FakeClock):
    """The first measurement is interrupted for a tenth of a second."""

    def measure(self, call, repeats):
        return super().measure(call, repeats) + (0.1 if self.measured == 1 else 0.0)


def test_one_interruption_does_not_decide_the_repeats():
    samples = calibrate_repeats(Hiccup(), lambda: 0.001, 0.025)
    assert count_repeats(samples, 0.025) in (25, 26)


def test_a_slow_call_is_made_no_more_than_twice_for_its_calibration():
    calls = []
    calibrate_repeats(FakeClock(), lambda: calls.append(1) or 0.5, 0.025)
    assert len(calls) == 2


def test_blocks_are_timed_in_the_order_that_is_recorded():
    called = []
    calls = {"A": lambda: called.append("A") or 1.0, "B": lambda: called.append("B") or 2.0}
    pair = Pair(calls, {"A": 2, "B": 1})
    assert {name: len(taken) for name, taken in warm_up(FakeClock(), pair, PROTOCOL).items()} == {"A": 5, "B": 5}
    assert called == ["A"] * 5 + ["B"] * 5
    called.clear()
    recorded = ""
    for _, order, seconds in run_groups(FakeClock(), pair, 3, PROTOCOL):
        recorded += order.replace("A", "AA")  # two calls of A in a block
        assert seconds == pytest.approx([2.0] * 4, rel=0.02)  # two of one second, or one of two
    assert "".join(called) == recorded


def test_groups_begin_where_they_are_told_to():
    pair = Pair({"A": lambda: 1.0, "B": lambda: 1.0}, {"A": 1, "B": 1})
    assert [number for number, *_ in run_groups(FakeClock(), pair, 3, PROTOCOL, first=5)] == [5, 6]


def test_a_ratio_is_the_familys_time_per_call_by_alphabets():
    group = {"order": "ABBA", "seconds": [0.02, 0.09, 0.11, 0.02], "repeats": {"A": 10, "B": 5}}
    assert group_ratio(group) == pytest.approx(10.0)
    mirrored = {"order": "BAAB", "seconds": [0.09, 0.02, 0.02, 0.11], "repeats": {"A": 10, "B": 5}}
    found = summarize([group, mirrored, {**group, "seconds": [0.02, 0.2, 0.2, 0.02]}])
    assert found["ratio"] == pytest.approx(10.0)
    assert found["interval"] == [pytest.approx(10.0), pytest.approx(20.0)]
    assert found["seconds"] == {"A": pytest.approx(0.002), "B": pytest.approx(0.02)}


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=9), st.floats(0.1, 10.0))
def test_a_geometric_mean_scales_and_stays_between(ratios, factor):
    mean = geometric_mean(ratios)
    assert min(ratios) * (1 - 1e-9) <= mean <= max(ratios) * (1 + 1e-9)
    assert geometric_mean([factor * ratio for ratio in ratios]) == pytest.approx(factor * mean)


def test_the_monotonic_clock_measures_all_repeats():
    clock = MonotonicClock()
    clock.settle()
    assert clock.measure(lambda: time.sleep(0.002), 5) >= 0.01
