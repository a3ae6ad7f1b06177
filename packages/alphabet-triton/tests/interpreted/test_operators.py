"""The kernels as torch operators: schemas, fake kernels and autograd, by torch's own checks."""

import pytest
import torch
from alphabet_core import AlphabetError, read_sequence
from alphabet_testing.kernels.interpreter import InterpretedDevice
from alphabet_testing.models import make_batch, make_model
from alphabet_triton.forward import list_factors
from alphabet_triton.inputs import read_masks
from alphabet_triton.launching import on
from alphabet_triton.ops.fold.autograd import fold
from alphabet_triton.ops.logits.autograd import logits

LENGTH = 16  # a multiple of sixteen: past the length rows are undefined, and torch would compare that too


@pytest.fixture(autouse=True)
def known_launches_are_not_interpreted_again():
    """Torch's checks call an operator with the same tensors again and again."""
    with on(InterpretedDevice()):
        yield


def make_arguments(masks):
    """The arguments of every operator, in the order of the forward pass."""
    model, (values, given) = make_model(2, 16, 4, 3), make_batch(2, LENGTH, 2, masks)
    sequence = read_sequence(values, channels=2, like=model.project.weight, **given)
    valid, gate = read_masks(sequence)
    direct, cascaded = model.direct, model.cascaded
    folded = (*list_factors(direct), *list_factors(cascaded), model.synthesis.scale, model.synthesis.feedthrough)
    matrix, transition, matrix_2, transition_2, synthesis, through, _ = fold(*folded)
    return {
        fold: folded,
        logits: (
            sequence.values,
            valid,
            gate,
            model.project.weight,
            direct.lift.kernel,
            direct.lift.bias,
            matrix,
            transition,
            synthesis,
            through,
            cascaded.lift.kernel,
            cascaded.lift.bias,
            matrix_2,
            transition_2,
            model.head.weight,
            model.head.bias,
        ),
    }


def as_leaf(argument):
    if not isinstance(argument, torch.Tensor):
        return argument
    return argument.detach().clone().requires_grad_(argument.is_floating_point())


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["none", "both"])
def test_torch_accepts_every_operator(masks):
    for operator, arguments in make_arguments(masks).items():
        torch.library.opcheck(operator, tuple(as_leaf(argument) for argument in arguments))


def test_compiled_by_torch_they_compute_the_same():
    """An operator is opaque to the compiler, whose graph calls it as eager code does."""
    values, *others = (as_leaf(argument) for argument in make_arguments("both")[logits])
    sources = [values, as_leaf(values)]
    torch.compile(lambda values: logits(values, *others)[0].sum(), backend="aot_eager")(sources[0]).backward()
    logits(sources[1], *others)[0].sum().backward()
    assert torch.equal(sources[0].grad, sources[1].grad)


def test_what_is_only_for_the_backward_has_no_gradient():
    found = logits(*(as_leaf(argument) for argument in make_arguments("none")[logits]))
    assert [output.requires_grad for output in found] == [True, *(len(found) - 1) * [False]]


def test_one_mask_without_the_other_is_refused():
    values, _, _, *weights = make_arguments("none")[logits]
    with pytest.raises(AlphabetError, match="valid and gate must be given together"):
        logits(values, torch.ones(2, LENGTH, dtype=torch.uint8), None, *weights)
