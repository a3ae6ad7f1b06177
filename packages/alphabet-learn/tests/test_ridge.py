import hypothesis.strategies as st
import numpy as np
import pytest
from alphabet_learn.errors import LearnError
from alphabet_learn.kernel_ridge import add_to_kernel, fit_kernel, head_of
from alphabet_learn.ridge import PENALTIES, Ridge, fit_gram, standardize, standardize_rows
from hypothesis import given, settings
from sklearn.linear_model import Ridge as ScikitRidge
from threadpoolctl import threadpool_limits

GRID = np.logspace(-2, 3, 6)


def solve_one(features, targets, weights, penalty):
    """Head and intercept by definition, as one least-squares problem whose last rows are the penalty."""
    root, width = np.sqrt(weights)[:, None], features.shape[1]
    design = np.block([[root, root * features], [np.zeros((width, 1)), np.sqrt(penalty) * np.eye(width)]])
    goal = np.vstack((root * targets, np.zeros((width, targets.shape[1]))))
    solution = np.linalg.lstsq(design, goal, rcond=None)[0]
    return solution[1:], solution[0]


def fit_by_definition(features, targets, weights, penalties):
    """The fit that leaves out one row after another, for each penalty; one penalty for all outputs."""
    left_out = np.empty((len(penalties), *targets.shape))
    for j, penalty in enumerate(penalties):
        for i in range(len(features)):
            rest = np.arange(len(features)) != i
            head, intercept = solve_one(features[rest], targets[rest], weights[rest], penalty)
            left_out[j, i] = intercept + features[i] @ head
    errors = np.einsum("i,aik->ak", weights / weights.sum(), (targets - left_out) ** 2)
    total = errors.mean(1)
    best = int(np.flatnonzero(total <= total.min() * (1 + 1e-9))[-1])  # the largest of equals
    head, intercept = solve_one(features, targets, weights, penalties[best])
    return Ridge(head, intercept, left_out[best], np.full(targets.shape[1], penalties[best]), errors)


def fit_by_kernel(features, targets, weights, pieces=3, **options):
    """`fit_kernel` from blocks of coordinates, its coefficients turned into a head (P, K)."""
    kernel = np.zeros((len(features), len(features)))
    blocks = np.array_split(features, pieces, axis=1)
    for block in blocks:
        add_to_kernel(kernel, block)
    fit = fit_kernel(kernel, targets, weights, **options)
    head = np.vstack([head_of(block, fit) for block in blocks])
    return Ridge(head, fit.intercept, fit.predictions, fit.penalty, fit.errors)


def fit_by_gram(features, targets, weights, pieces=3, **options):
    return fit_gram(lambda: iter(np.array_split(features, pieces)), targets, weights, **options)


FORMS = {"kernel": fit_by_kernel, "gram": fit_by_gram}


def make_case(rows, width, outputs, seed=0, zeros=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width)) * rng.uniform(0.3, 3, width) + rng.normal(size=width)
    targets = features[:, :1] * 0.5 + rng.normal(size=(rows, outputs)) + np.arange(outputs)
    weights = rng.uniform(0.2, 3, rows)
    weights[rng.permutation(rows)[:zeros]] = 0
    return features, targets, weights


def assert_same(got, exact, tolerance=1e-8):
    """All fields agree, relative to the largest value of each."""
    np.testing.assert_array_equal(got.penalty, exact.penalty)
    for name in ("coefficients", "intercept", "predictions", "errors"):
        reference = getattr(exact, name)
        scale = np.abs(reference).max(initial=1e-3)
        np.testing.assert_allclose(getattr(got, name), reference, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "width"), [(3, 5), (12, 30), (30, 7), (9, 9), (20, 1)])
@pytest.mark.parametrize(("outputs", "zeros"), [(1, 0), (3, 1)])
def test_every_form_equals_fits_that_leave_out_one_row_after_another(form, rows, width, outputs, zeros):
    case = make_case(rows, width, outputs, seed=rows + width, zeros=zeros)
    assert_same(FORMS[form](*case, penalties=GRID), fit_by_definition(*case, GRID))


@pytest.mark.parametrize("form", FORMS)
def test_the_head_is_the_one_of_scikit_learn_with_sample_weights(form):
    features, targets, weights = make_case(25, 12, 2)
    fit = FORMS[form](features, targets, weights, penalties=np.array([0.7]))
    other = ScikitRidge(alpha=0.7, solver="cholesky").fit(features, targets, sample_weight=weights)
    np.testing.assert_allclose(fit.coefficients, other.coef_.T, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(fit.intercept, other.intercept_, rtol=1e-9, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 12), width=st.integers(1, 12), outputs=st.integers(1, 3),
    pieces=st.integers(1, 4), seed=st.integers(0, 10**6), per_output=st.booleans(), zeros=st.integers(0, 3),
)  # fmt: skip
def test_kernel_and_gram_matrix_agree(rows, width, outputs, pieces, seed, per_output, zeros):
    case = make_case(rows, width, outputs, seed=seed, zeros=min(zeros, rows - 1))
    options = {"penalties": GRID, "per_output": per_output}
    # Penalties of 1e-2 beside eigenvalues up to 1e3: each form keeps about 1e-16 * 1e5 / (1 - leverage).
    got, other = fit_by_kernel(*case, pieces, **options), fit_by_gram(*case, pieces, **options)
    np.testing.assert_allclose(got.errors, other.errors, rtol=1e-5, atol=1e-12)
    if np.array_equal(got.penalty, other.penalty):  # a tie may be broken either way
        assert_same(got, other, 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_weight_change_nothing_and_are_predicted_by_the_rest(form):
    features, targets, weights = make_case(16, 6, 2, zeros=5)
    fit = FORMS[form](features, targets, weights, penalties=GRID)
    used = weights > 0
    rest = FORMS[form](features[used], targets[used], weights[used], penalties=GRID)
    np.testing.assert_array_equal(fit.penalty, rest.penalty)
    for name in ("coefficients", "intercept", "errors"):
        np.testing.assert_allclose(getattr(fit, name), getattr(rest, name), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fit.predictions[used], rest.predictions, rtol=1e-9, atol=1e-11)
    plain = fit.intercept + features[~used] @ fit.coefficients
    np.testing.assert_allclose(fit.predictions[~used], plain, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_a_weight_of_two_counts_like_the_row_given_twice(form):
    features, targets, weights = make_case(10, 4, 1)
    weights = np.ones(10)
    weights[3] = 2
    rows = np.append(np.arange(10), 3)
    options = {"penalties": np.array([0.5])}
    once = FORMS[form](features, targets, weights, **options)
    twice = FORMS[form](features[rows], targets[rows], np.ones(11), **options)
    np.testing.assert_allclose(once.coefficients, twice.coefficients, rtol=1e-10)
    np.testing.assert_allclose(once.intercept, twice.intercept, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_each_output_may_have_its_own_penalty(form):
    rng = np.random.default_rng(4)
    features = rng.normal(size=(40, 8))
    targets = np.stack((features @ rng.normal(size=8), rng.normal(size=40)), axis=1)  # a law, and noise
    together = FORMS[form](features, targets, np.ones(40))
    apart = FORMS[form](features, targets, np.ones(40), per_output=True)
    assert apart.penalty[0] < apart.penalty[1]
    assert together.penalty[0] == together.penalty[1]
    for k in range(2):
        alone = FORMS[form](features, targets[:, k : k + 1], np.ones(40))
        np.testing.assert_allclose(apart.coefficients[:, k], alone.coefficients[:, 0], rtol=1e-8, atol=1e-12)


DEGENERATE = {
    "one row": (np.ones((1, 4)), [1.0]),
    "two rows": (np.array([[0.0, 1.0], [2.0, 1.0]]), [1.0, 1.0]),
    "no coordinate varies": (np.ones((6, 3)), np.ones(6)),
    "only zeros": (np.zeros((6, 3)), np.ones(6)),
    "identical rows": (np.repeat([[1.0, -2.0, 3.0]], 5, axis=0), np.ones(5)),
    "collinear coordinates": (np.outer(np.arange(7.0), [1, 2, -3, 0, 1e-9]), np.ones(7)),
    "all weight on one row": (np.random.default_rng(1).normal(size=(5, 3)), [0, 0, 1.0, 0, 0]),
    "nearly all weight on one row": (np.random.default_rng(1).normal(size=(5, 3)), [1e-12, 1e-13, 1.0, 1e-20, 0]),
    "large offset": (np.random.default_rng(2).normal(size=(8, 3)) + 1e4, np.ones(8)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_features_give_finite_results(form, name):
    features, weights = DEGENERATE[name]
    weights = np.asarray(weights)
    targets = np.where(np.arange(len(features)) % 2, 1.0, -1.0)[:, None]
    fit = FORMS[form](features, targets, weights)
    for values in (fit.coefficients, fit.intercept, fit.predictions, fit.errors):
        assert np.isfinite(values).all()
    scores = fit.intercept + features @ fit.coefficients
    assert np.abs(scores).max() < 2
    if np.ptp(features, axis=0).max() == 0 or np.count_nonzero(weights) == 1:  # nothing but the intercept is left
        np.testing.assert_allclose(scores, np.broadcast_to(weights @ targets / weights.sum(), scores.shape), atol=1e-9)
        assert fit.penalty[0] == PENALTIES[-1]


def test_of_equally_good_penalties_the_largest_is_taken():
    fit = fit_by_kernel(np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0], [-1.0]]), np.ones(2))
    assert fit.penalty[0] == PENALTIES[-1]  # left alone, a row predicts itself, whatever the penalty
    np.testing.assert_allclose(fit.predictions, [[-1.0], [1.0]])


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_threads_changes_rounding_only(form):
    case = make_case(150, 120, 2)
    with threadpool_limits(1):
        alone = FORMS[form](*case, penalties=GRID)
    with threadpool_limits(2):
        shared = FORMS[form](*case, penalties=GRID)
    assert_same(shared, alone, 1e-9)


def test_the_kernel_that_is_passed_is_kept():
    features, targets, weights = make_case(9, 12, 1, zeros=2)
    kernel = features @ features.T
    before = kernel.copy()
    fit_kernel(kernel, targets, weights)
    np.testing.assert_array_equal(kernel, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_products_err_by_what_the_page_says(dtype):
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(200, 3))
    features = np.tanh(latent @ rng.normal(size=(3, 2000)) + rng.normal(size=2000))
    mean, inverse = standardize(features, np.ones(200))
    features = ((features - mean) * inverse).astype(np.float32)
    kernel, exact = np.zeros((200, 200)), features.astype(np.float64) @ features.T.astype(np.float64)
    for block in np.array_split(features, 5, axis=1):
        add_to_kernel(kernel, block, dtype=dtype)
    # float32: 400 products per block, each rounded to 2^-24 of a partial sum; measured 4e-9, here with room.
    bound = 1e-7 if dtype is np.float32 else 1e-13
    assert np.linalg.norm(kernel - exact, 2) < bound * np.linalg.norm(exact, 2)


def test_float32_row_products_choose_the_same_penalty():
    features, targets, weights = make_case(300, 40, 1)
    exact = fit_by_gram(features, targets, weights)
    got = fit_by_gram(features.astype(np.float32), targets, weights, dtype=np.float32)
    assert_same(got, exact, 1e-4)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 30), pieces=st.integers(1, 5), seed=st.integers(0, 10**6), offset=st.sampled_from([0, 1e3]))
def test_blocks_of_rows_give_the_moments_of_all_rows(rows, pieces, seed, offset):
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(rows, 4)) * [1, 1e-3, 50, 0] + offset).astype(np.float32)
    weights = rng.uniform(0, 2, rows) * (rng.random(rows) < 0.8)
    weights[0] = 1
    mean, inverse = standardize_rows(np.array_split(features, pieces), weights)
    exact = features.astype(np.float64)
    centre = np.average(exact, axis=0, weights=weights)
    deviation = np.sqrt(np.average((exact - centre) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(mean, centre, rtol=1e-12, atol=1e-12)
    varies = deviation > 1e-9 * np.maximum(1, np.abs(centre))
    np.testing.assert_array_equal(inverse != 0, varies)
    # The deviation is at least 1e-9 of the mean when it counts; the mean's rounding is 1e-16 of it.
    np.testing.assert_allclose(1 / inverse[varies], deviation[varies], rtol=1e-6)


def test_constant_coordinates_get_the_factor_zero():
    features = np.array([[0.1, 1e6, 3.0, 0.0], [0.1, 1e6, 4.0, 1e-10]])
    mean, inverse = standardize(features, np.array([1.0, 3.0]))
    np.testing.assert_allclose(mean, [0.1, 1e6, 3.75, 7.5e-11])
    np.testing.assert_allclose(inverse, [0, 0, 1 / np.sqrt(0.1875), 0])


@pytest.mark.parametrize(
    ("weights", "penalties", "message"),
    [
        (np.zeros(4), GRID, "at least one positive"),
        (np.array([1, 1, 1, -1.0]), GRID, "none negative"),
        (np.array([1, 1, 1, np.nan]), GRID, "must be finite"),
        (np.ones(4), np.array([0.0, 1.0]), "must be positive"),
        (np.ones(3), GRID, "one weight per series"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_impossible_weights_and_penalties_are_named(form, weights, penalties, message):
    features, targets, _ = make_case(4, 3, 1)
    with pytest.raises(LearnError, match=message):
        FORMS[form](features, targets, weights, penalties=penalties)


def test_missing_rows_are_named():
    features, targets, weights = make_case(6, 3, 1)
    with pytest.raises(LearnError, match="5 rows, the weights 6"):
        fit_by_gram(features[:5], targets, weights)
    with pytest.raises(LearnError, match="5 rows, the weights 6"):
        fit_by_kernel(features[:5], targets, weights)
    with pytest.raises(LearnError, match="5 rows, the weights 6"):
        standardize(features[:5], weights)
