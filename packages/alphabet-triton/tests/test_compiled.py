"""The compiled kernels' PTX, executed on the CPU: real tf32x3 rounding, barriers, shuffles and addresses."""

import copy
from functools import cache

import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, TrainingStep
from alphabet_core.fused import run_eagerly
from alphabet_ptx import PtxError, resources
from alphabet_testing.kernels.chain import (
    errors,
    nan_before_it_is_written,
    run_program,
    run_reference,
    run_reference_loss,
    run_stages,
)
from alphabet_testing.kernels.device import PtxDevice, compile_launch
from alphabet_testing.kernels.faults import FAULTS, GATES, LENGTH, SIZES, make_page
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.places import DOCS
from alphabet_testing.trainers import assert_trajectories_agree
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.configurations import configuration, list_inference, list_operators, list_training

# Measured 1.1e-6 of a tensor's largest entry; float32's own error at these lengths is about as large.
CLOSE = 5e-6
# Sizes that choose every entry of every table of blocks; in the last two features and poles come in parts.
WIDTHS = [
    ((1, 16, 1, 2), 33), ((1, 24, 7, 3), 33), ((2, 64, 16, 5), 40), ((3, 48, 24, 2), 33), ((2, 128, 64, 4), 33),
    ((2, 160, 72, 3), 33), ((1, 300, 5, 2), 20),
]  # fmt: skip


@cache
def make_case(sizes, length, masks):
    """A model, values and masks, and the reference's logits, loss and gradients; nobody may change them."""
    model, (values, given) = make_model(*sizes), make_batch(1, length, sizes[0], masks)
    exact = run_reference(model, values, given) | run_reference_loss(model, values, given)
    return model, values, given, exact


def check_stages(sizes, length, masks, device):
    """Yield the errors, by name, of the logits, then of all gradients, then of a step's, then of what an update moves.

    Each is computed when it is asked for: a gate that a fault has failed need not see the rest.
    """
    model, values, given, exact = make_case(sizes, length, masks)
    model = copy.deepcopy(model)
    for found in run_stages(model, values, given, device):
        yield errors(found, exact)
    yield errors(run_program(model, values, given, device), exact)
    yield check_update(model, device)


def check_update(model, device):
    """Errors of what the fused AdamW makes of a model's gradients, in the second step of two."""
    if model.config.width > 24:
        # The constraint's kernels are the same for every width, and executing them takes minutes at these: they are
        # tried in test_constraint.py. A base that does not lie by rows is left to the reference.
        for bank in model.banks():
            bank.frame.base = bank.frame.base.mT.contiguous().mT
    exact = copy.deepcopy(model).double()
    for parameter, wanted in zip(model.parameters(), exact.parameters(), strict=True):
        wanted.grad = parameter.grad.double()
    steps = TritonTrainer(model, device=device, capture=run_eagerly), TrainingStep(exact)
    with nan_before_it_is_written():
        for step in steps:
            for _ in range(2):
                with torch.no_grad():
                    for parameter in step.parameters:
                        parameter.grad = 10.0 * parameter.grad
                step.update()
    fused, plain = (
        {name: p.detach() for name, p in (*step.model.named_parameters(), *step.model.named_buffers())}
        for step in steps
    )
    return {f"{name} moved": error for name, error in errors(fused, plain).items() if "tangent" not in name}


# The smallest case is part of the quick loop: a kernel that computes something else is noticed there too.
@pytest.mark.parametrize(
    ("sizes", "length", "masks"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if number else [])
        for number, case in enumerate(
            [
                *((sizes, length, "both") for sizes, length in WIDTHS),
                ((2, 80, 20, 2), 70, "none"),  # blocks of this width are others without masks; three chunks
                (SIZES, LENGTH, "none"),
                (SIZES, LENGTH, "both"),
            ]
        )
    ],
)
def test_everything_is_the_references(sizes, length, masks):
    device = PtxDevice()
    for found in check_stages(sizes, length, masks, device):
        assert max(found.values()) < CLOSE, found
    assert device.races == []
    assert device.instructions["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] > 0


# The third is long: carries over 33 chunks, weighted in three rounds. The last has more outputs than come at once.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "modes", "outputs", "length"), [(24, 7, 3, 40), (160, 72, 3, 40), (16, 3, 2, 2100), (64, 20, 19, 70)]
)
def test_logits_are_the_references(width, modes, outputs, length):
    model, (values, given) = make_model(2, width, modes, outputs), make_batch(2, length, 2, "both")
    device = PtxDevice()
    runtime = TritonRuntime(model, device=device, capture=run_eagerly)
    with torch.no_grad():
        assert float((runtime(values, **given) - model(values, **given)).abs().max()) < 1e-6
    assert device.races == []


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cross_entropy", "multilabel", "mse"])
@pytest.mark.parametrize("outputs", [2, 150])
def test_losses_and_their_gradients_are_the_references(loss, outputs):
    model, (values, given), device = make_model(2, 16, 4, outputs), make_batch(3, 20, 2, "both"), PtxDevice()
    found, exact = run_program(model, values, given, device, loss), run_reference_loss(model, values, given, loss)
    assert max(errors(found, exact).values()) < CLOSE
    assert device.races == []


@pytest.mark.slow
def test_three_training_steps_follow_the_reference():
    device = PtxDevice()
    batches = []
    for seed in range(3):
        values, given = make_batch(2, 40, 2, "both", seed=seed)
        batches.append((values, torch.arange(2), given))

    def make_trainer(model, **options):
        return TritonTrainer(model, device=device, capture=run_eagerly, **options)

    assert_trajectories_agree(make_trainer, make_model(2, 24, 7, 3), batches)
    assert device.races == []


@pytest.mark.slow
def test_a_forward_pass_computes_nothing_in_float64():
    """FP64 runs at a 64th of float32's rate on an RTX 4090."""
    for launch in list_inference(Alphabet(AlphabetConfig(2, 64, 16, 5)), 1, 64, masked=True):
        assert ".f64" not in compile_launch(launch).ptx, launch.name


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_the_anchors_kernels_neither_spill_nor_use_the_stack(masked):
    model = Alphabet(AlphabetConfig(2, 64, 16, 5))
    lists = (list_inference, list_operators, list_training)
    launches = [launch for make_list in lists for launch in make_list(model, 1, 64, masked=masked)]
    for launch in {configuration(launch): launch for launch in launches}.values():
        used = resources(compile_launch(launch))
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0), (launch.name, launch.constants)
        assert used.registers <= 255


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name):
    fault = FAULTS[name]
    device = PtxDevice(fault=fault, strict=fault.gate == "race")
    stages = check_stages(*fault.shape, fault.masks, device)
    if fault.gate == "numbers":
        assert any(not max(found.values()) < CLOSE for found in stages)
    else:
        with pytest.raises(PtxError, match={"bounds": "out of range", "race": "race: "}[fault.gate]):
            list(stages)
    assert fault.kernel in device.executed


def test_the_table_of_faults_is_in_the_documentation():
    page = DOCS / "gpu-faults.md"
    assert page.read_text() == make_page(), f"python -m alphabet_testing.kernels.faults > {page}"
    assert len(FAULTS) >= 30
    assert {fault.gate for fault in FAULTS.values()} == set(GATES)
