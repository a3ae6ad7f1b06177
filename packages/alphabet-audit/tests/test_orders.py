"""Orders are balanced, seeded, and the same everywhere."""

import pytest
from alphabet_audit import AuditError, abba_orders
from alphabet_audit.protocol.orders import is_balanced, seed_of
from hypothesis import given
from hypothesis import strategies as st


@given(groups=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_orders_are_balanced_and_repeatable(groups, seed):
    orders = abba_orders(groups, seed)
    assert len(orders) == groups
    assert set(orders) <= {"ABBA", "BAAB"}
    assert abs(orders.count("ABBA") - orders.count("BAAB")) == groups % 2
    assert is_balanced(orders)
    assert abba_orders(groups, seed) == orders


@given(seed=st.integers(0, 2**32))
def test_a_changed_order_is_not_balanced_any_more(seed):
    orders = list(abba_orders(8, seed))
    orders[3] = "BAAB" if orders[3] == "ABBA" else "ABBA"
    assert not is_balanced(tuple(orders))


def test_seeds_reach_every_arrangement_and_either_majority():
    found = {abba_orders(7, seed) for seed in range(2000)}
    assert len(found) == 2 * 35  # 7 over 3, and either kind four times
    assert {orders.count("ABBA") for orders in found} == {3, 4}


def test_orders_of_a_row_never_change():
    """Written down here: evidence of today must evaluate on any later version."""
    assert seed_of("same-width 32/512/64 gru step") == 1480106020
    assert " ".join(abba_orders(7, 1480106020)) == "BAAB ABBA BAAB ABBA ABBA BAAB BAAB"


def test_other_orders_are_never_balanced():
    assert not is_balanced(("AABB", "ABBA"))


def test_no_group_is_no_order():
    with pytest.raises(AuditError, match="groups must be at least 1; got 0"):
        abba_orders(0, 1)
