import pytest
import torch
from alphabet_core.frame import TANGENT_SCALE, FixedFrame, Frame, fixed_order_expm
from alphabet_testing.kernels.precision import LESS_PRECISE
from hypothesis import given
from hypothesis import strategies as st


def departure(matrix):
    identity = torch.eye(matrix.shape[1], dtype=torch.float64)
    return float((matrix.double().mT @ matrix.double() - identity).abs().max())


@given(seed=st.integers(0, 2**20), size=st.integers(1, 24), norm=st.floats(0, 16))
def test_fixed_order_exponential_agrees_with_torch(seed, size, norm):
    matrix = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrix = matrix - matrix.mT
    matrix *= norm / max(float(torch.linalg.matrix_norm(matrix, ord=1)), 1e-12)
    # Both carry the rounding of a few products of orthogonal matrices.
    torch.testing.assert_close(fixed_order_expm(matrix), torch.matrix_exp(matrix), rtol=0, atol=1e-12)


@given(seed=st.integers(0, 2**20), norm=st.floats(0, 4))
def test_fixed_order_exponential_of_any_square_matrix(seed, norm):
    matrix = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrix *= norm / float(torch.linalg.matrix_norm(matrix, ord=1))
    torch.testing.assert_close(fixed_order_expm(matrix), torch.matrix_exp(matrix), rtol=1e-11, atol=1e-11)


def test_float32_exponential_keeps_the_digits_of_a_small_rotation():
    skew = torch.randn(64, 64)
    skew = 1e-4 * (skew - skew.mT)
    exact = torch.matrix_exp(skew.double())
    assert float((fixed_order_expm(skew) - exact).abs().max()) <= 1.2e-7  # one float32 rounding of a number near one


def test_gradient_of_the_exponential_is_right():
    matrix = 0.3 * torch.randn(4, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(fixed_order_expm, matrix.requires_grad_())


@given(seed=st.integers(0, 2**20), modes=st.integers(1, 5), spare=st.integers(0, 4), scale=st.floats(0, 1))
def test_columns_are_orthonormal_at_any_tangent(seed, modes, spare, scale):
    torch.manual_seed(seed)
    frame = Frame(2 * modes + spare, modes).double()
    torch.nn.init.normal_(frame.tangent, std=scale / TANGENT_SCALE)
    assert departure(frame().detach()) < 1e-6  # the float32 base of a converted module sets this limit
    frame.rebase()
    assert departure(frame().detach()) < 1e-12  # one Newton-Schulz step squares it


@given(seed=st.integers(0, 2**20), scale=st.floats(0, 1))
def test_rebasing_does_not_move_the_frame(seed, scale):
    torch.manual_seed(seed)
    frame = Frame(9, 3).double()
    frame.rebase()
    torch.nn.init.normal_(frame.tangent, std=scale / TANGENT_SCALE)
    before = frame().detach()
    frame.rebase()
    assert frame.tangent.detach().count_nonzero() == 0
    torch.testing.assert_close(frame().detach(), before, rtol=0, atol=1e-12)


def test_a_zero_tangent_gives_the_base_to_the_last_bit():
    frame = Frame(64, 16)
    assert frame().equal(frame.base[:, :32])


@pytest.mark.parametrize("scale", [0.0, 0.2])
def test_gradient_in_the_tangent_is_right_at_and_away_from_zero(scale):
    frame = Frame(6, 2).double()
    tangent = (scale / TANGENT_SCALE * torch.randn(6, 4, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: torch.func.functional_call(frame, {"tangent": t}, ()), tangent)


def drift_over_ten_thousand_steps(frame):
    """The departure from orthonormality every 500 steps of the largest size that Adam takes at recipe B."""
    generator = torch.Generator().manual_seed(1)
    for step in range(10_000):
        with torch.no_grad():
            frame.tangent += 3e-3 / TANGENT_SCALE * torch.randn(64, 32, generator=generator)
        frame.rebase()
        if step % 500 == 499:
            yield departure(frame().detach())


# The promise is 1e-5; the gate is tighter, between what is measured with the Newton-Schulz step and without it.
DRIFT_GATE = 1e-6


@pytest.mark.slow
def test_ten_thousand_steps_leave_the_frame_orthonormal():
    assert max(drift_over_ten_thousand_steps(Frame(64, 16))) < DRIFT_GATE


@pytest.mark.slow
def test_the_gate_sees_a_missing_correction():
    class Uncorrected(Frame):
        @torch.no_grad()
        def rebase(self):
            self.base.copy_(self._moved())
            self.tangent.zero_()

    assert any(drift > DRIFT_GATE for drift in drift_over_ten_thousand_steps(Uncorrected(64, 16)))


@pytest.mark.parametrize("setting", LESS_PRECISE)
def test_products_of_less_precision_do_not_touch_the_frame(setting):
    frame = Frame(16, 4)
    torch.nn.init.normal_(frame.tangent, std=0.1 / TANGENT_SCALE)
    first_order, exponential = frame.to_first_order(), fixed_order_expm(0.1 * frame.tangent[:8])
    whole, (gradient,) = frame(), torch.autograd.grad(frame()[3, 2], [frame.tangent])
    with LESS_PRECISE[setting]():
        assert frame.to_first_order().equal(first_order)
        assert fixed_order_expm(0.1 * frame.tangent[:8]).equal(exponential)
        assert frame().equal(whole)
        assert torch.autograd.grad(frame()[3, 2], [frame.tangent])[0].equal(gradient)
        for _ in range(3):
            torch.nn.init.normal_(frame.tangent, std=0.1 / TANGENT_SCALE)
            frame.rebase()
    assert departure(frame().detach()) < DRIFT_GATE  # 2.3e-3 with products in bfloat16


def test_a_fixed_frame_is_a_copy():
    frame = Frame(8, 2)
    fixed = FixedFrame(frame())
    stored = fixed().clone()
    with torch.no_grad():
        frame.base.zero_()
    assert fixed().equal(stored)
    assert not list(fixed.parameters())
