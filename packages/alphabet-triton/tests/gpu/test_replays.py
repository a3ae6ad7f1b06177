"""CUDA graphs: recorded, replayed, with outputs kept, shapes alternating, memory given back, and nobody waiting."""

import pytest
import torch
from alphabet_core import TrainingStep
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer

pytestmark = [pytest.mark.captures, pytest.mark.slow]

SIZES = (2, 16, 4, 3)
LENGTHS = (20, 33)


@torch.no_grad()
def test_logits_of_two_replays_are_right_and_kept_while_shapes_alternate(gpu, ledger, without_waiting):
    model, exact = make_model(*SIZES), make_model(*SIZES).double()
    batches = [make_batch(2, length, 2, masks, seed=seed) for seed, (length, masks) in enumerate(
        [(20, "none"), (33, "both"), (20, "none"), (33, "both"), (20, "none"), (33, "both")]
    )]  # fmt: skip
    wanted = [exact(values.double(), **masks) for values, masks in batches]
    moved = [(gpu.to(values), gpu.to(masks)) for values, masks in batches]
    runtime, found = TritonRuntime(gpu.to(model)), []
    for number, (values, masks) in enumerate(moved):
        if number < 2:  # recording a shape may wait; replaying it may not
            found.append(runtime(values, **masks))
        else:
            with without_waiting():
                found.append(runtime(values, **masks))
        gpu.forget_memory()
    verdicts = [
        ledger.compare(f"replay {number} of logits", "logits", logits, exactly)
        for number, (logits, exactly) in enumerate(zip(found, wanted, strict=True))
    ]
    assert all(verdicts), verdicts


def test_losses_and_parameters_of_replayed_steps_while_shapes_alternate(gpu, ledger, without_waiting):
    trainer, exact = TritonTrainer(gpu.to(make_model(*SIZES))), TrainingStep(make_model(*SIZES).double())
    batches = [make_batch(2, length, 2, seed=seed)[0] for seed, length in enumerate(2 * LENGTHS)]
    targets = torch.tensor([2, 0])
    wanted = [float(exact(values.double(), targets)) for values in batches]
    moved, goal = [gpu.to(values) for values in batches], gpu.to(targets)
    found = []
    for number, values in enumerate(moved):
        if number < len(LENGTHS):
            found.append(trainer.step(values, goal))
        else:
            with without_waiting():
                found.append(trainer.step(values, goal))
        gpu.forget_memory()
    for number, (loss, exactly) in enumerate(zip(found, wanted, strict=True)):
        assert ledger.compare(f"step {number}, replayed", "loss", loss, torch.tensor(exactly))
    for (name, parameter), other in zip(trainer.model.named_parameters(), exact.model.parameters(), strict=True):
        difference = float((parameter.detach().cpu().double() - other.detach()).abs().max())
        ledger.note(
            "parameters after replayed steps", name, f"{difference:.3e}", "", "3e-05, or 1e-4 of each entry", ""
        )
        torch.testing.assert_close(parameter.detach().cpu().double(), other.detach(), rtol=1e-4, atol=3e-5, msg=name)


def test_memory_does_not_grow_with_replays(gpu):
    if not gpu.native:
        pytest.skip("torch's allocator for CUDA is asked, and there is no GPU")
    runtime, values = TritonRuntime(gpu.to(make_model(*SIZES))), gpu.to(make_batch(2, 20, 2)[0])
    runtime(values)
    gpu.forget_memory()
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        runtime(values)
    gpu.forget_memory()
    assert torch.cuda.memory_allocated() == before
