import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from alphabet_learn.errors import LearnError
from alphabet_learn.frames import read_frame
from alphabet_learn.series import read_series
from hypothesis import given

FRAME = pd.DataFrame(
    {
        "case": ["b", "a", "b", "a", "b"],
        "at": [2.0, 0.0, 1.0, 5.0, 1.0],
        "x": [1, 2, 3, 4, 5],
        "y": [1.0, np.nan, 3.0, 4.0, 5.0],
        "kind": ["p", "q", "p", "q", "p"],
    }
)


def test_series_come_in_order_of_appearance_and_rows_in_order_of_time():
    series, times, y, ids = read_frame(FRAME, id="case", time="at", label="kind")
    assert ids.tolist() == ["b", "a"]
    assert y.tolist() == ["p", "q"]
    assert [t.tolist() for t in times] == [[1, 1, 2], [0, 5]]
    np.testing.assert_array_equal(series[0], [[3, 5, 1], [3, 5, 1]])
    np.testing.assert_array_equal(series[1], [[2, 4], [np.nan, 4]])


def test_without_a_time_column_rows_keep_their_order():
    series, times, y, _ = read_frame(FRAME, id="case", columns=["x"])
    assert times is None
    assert y is None
    assert [values.tolist() for values in series] == [[[1, 3, 5]], [[2, 4]]]
    assert read_frame(FRAME, id="case", columns="x").X[0].tolist() == series[0].tolist()


@pytest.mark.parametrize("container", [list, tuple, iter, np.array, pd.Index])
def test_columns_give_the_order_of_the_channels(container):
    series = read_frame(FRAME, id="case", columns=container(["y", "x"])).X
    np.testing.assert_array_equal(series[1], [[np.nan, 4], [2, 4]])


def test_shared_instants_are_left_to_the_rule_of_read_series():
    series, times, _, _ = read_frame(FRAME, id="case", time="at", columns=["x"])
    got = read_series(series, times=times)
    assert got.values[0, :, 0].tolist() == [4, 1]
    assert got.times.tolist() == [[0, 1], [0, 5]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(-9, 9)), min_size=1, max_size=20), st.data()
)
def test_every_row_is_in_its_series_and_shuffling_rows_only_reorders_series(rows, data):
    frame = pd.DataFrame(rows, columns=["id", "t", "x"])
    read = read_frame(frame, id="id", time="t")
    for values, instants, name in zip(read.X, read.times, read.ids, strict=True):
        assert (np.diff(instants) >= 0).all()
        there = frame[frame["id"] == name].sort_values("t", kind="stable")
        assert values[0].tolist() == there["x"].tolist()
    shuffled = read_frame(frame.iloc[data.draw(st.permutations(range(len(frame))))], id="id", time="t")
    order = [read.ids.tolist().index(name) for name in shuffled.ids]
    np.testing.assert_allclose(
        read_series(shuffled.X, times=shuffled.times).values,
        read_series(read.X, times=read.times).take(order).values,
        rtol=1e-6,
        atol=1e-5,  # a mean in another order
    )


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_dates_become_seconds_in_any_zone(zone):
    dates = pd.to_datetime(["2026-03-29 01:30", "2026-03-29 00:30"], utc=True).tz_convert(zone)
    frame = pd.DataFrame({"id": [1, 1], "t": dates, "x": [2.0, 1.0]})
    series, times, _, _ = read_frame(frame, id="id", time="t")
    assert series[0].tolist() == [[1, 2]]
    assert read_series(series, times=times).times.tolist() == [[0, 3600]]


def test_durations_and_nullable_columns_are_read():
    frame = pd.DataFrame(
        {
            "id": pd.array([1, 1], dtype="Int64"),
            "t": pd.to_timedelta([5, 65], unit="s"),
            "x": pd.array([1, None], dtype="Int64"),
            "on": [True, False],
            "label": pd.Categorical(["u", "u"]),
        }
    )
    series, times, y, _ = read_frame(frame, id="id", time="t", label="label")
    np.testing.assert_array_equal(series[0], [[1, np.nan], [1, 0]])
    assert read_series(series, times=times).times.tolist() == [[0, 60]]
    assert y.tolist() == ["u"]
    counted = frame.assign(t=pd.array([3, 4], dtype="Int64"))
    assert read_series(series, times=read_frame(counted, id="id", time="t", columns=["x"]).times).times.tolist() == [
        [0, 1]
    ]


def test_the_index_of_the_frame_does_not_matter():
    again = FRAME.set_index(np.array([7, 7, 1, 0, 3]))
    np.testing.assert_array_equal(read_frame(again, id="case", time="at", label="kind").X[0], [[3, 5, 1], [3, 5, 1]])


TWICE = pd.DataFrame([[1, 2.0, 3.0]], columns=["case", "x", "x"])
NUMBERED = pd.DataFrame({"case": [2, 2], "x": [1.0, 2.0], "kind": [0, 1]})
BAD = [
    (FRAME, {"id": "patient"}, ["no column 'patient'", "'case', 'at', 'x'"]),
    (FRAME.set_index("case"), {"id": "case"}, ["no column 'case'", "reset_index"]),
    (FRAME, {"id": "case", "columns": ["z"]}, ["no column 'z'"]),
    (TWICE, {"id": "case"}, ["2 columns named 'x'"]),
    (FRAME, {"id": "case", "time": "at", "columns": ["at", "x"]}, ["'at' is asked for twice"]),
    (FRAME, {"id": "case", "time": "at"}, ["column 'kind'", "not numbers", "columns="]),
    (FRAME, {"id": "case", "time": "kind", "columns": ["x"]}, ["column 'kind'", "pandas.to_datetime"]),
    (FRAME, {"id": "case", "columns": []}, ["0 channels"]),
    (FRAME.iloc[:0], {"id": "case", "columns": ["x"]}, ["0 rows"]),
    (FRAME.assign(kind=list("pqpqr")), {"id": "case", "columns": ["x"], "label": "kind"}, ["series 'b'", "'p' to 'r'"]),
    (FRAME.assign(kind=["p", None] * 2 + ["p"]), {"id": "case", "columns": ["x"], "label": "kind"}, ["missing", "'a'"]),
    (FRAME.assign(at=[0, 1, None, 2, 3]), {"id": "case", "time": "at", "columns": ["x"]}, ["row 2", "series 'b'"]),
    (FRAME.assign(case=["b", None] * 2 + ["b"]), {"id": "case", "columns": ["x"]}, ["'case' is missing in row 1"]),
    ([[1]], {"id": "case"}, ["DataFrame", "list"]),
    (FRAME, {"id": ["case"]}, ["['case']", "a list", "name of one column"]),
    (FRAME, {"id": ("case", "at")}, ["no column ('case', 'at')"]),
    (FRAME, {"id": None}, ["id is None", "which series"]),
    (FRAME, {"id": "case", "columns": 3}, ["no column 3"]),
    (FRAME.assign(case=[[1]] * 5), {"id": "case", "columns": ["x"]}, ["'case'", "cannot be compared", "text"]),
    (NUMBERED, {"id": "case", "columns": ["x"], "label": "kind"}, ["series 2, from 0 to 1 in row 1"]),
    (NUMBERED.assign(at=None), {"id": "case", "time": "at", "columns": ["x"]}, ["of series 2: leave"]),
]


@pytest.mark.parametrize(("frame", "options", "words"), BAD)
def test_the_message_names_column_place_and_remedy(frame, options, words):
    with pytest.raises(LearnError) as caught:
        read_frame(frame, **options)
    assert all(word in str(caught.value) for word in words), caught.value
