"""Recordings of training steps: what is recorded when, their keys, and what a call leaves behind. No kernel runs."""

import pytest
import torch
from alphabet_core import AlphabetError
from alphabet_core.fused import run_eagerly, warm_up
from alphabet_testing.kernels.graphs import NoHost
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonTrainer
from alphabet_triton.launching import RecordingDevice

B, T, C, D, M, K = 2, 77, 2, 24, 5, 3


def make_trainer(capture=run_eagerly, **options):
    recorder = RecordingDevice()
    return recorder, TritonTrainer(make_model(C, D, M, K), device=recorder, capture=capture, **options)


def test_a_shape_is_recorded_once_and_replayed_with_its_batch():
    recorded, replayed = [], []

    def capture(run, changed):
        recorded.append(len(changed))
        return lambda: replayed.append([*trainer._recordings][-1].targets.tolist())

    _, trainer = make_trainer(capture)
    for seed, (batch, length) in enumerate([(2, 9), (2, 9), (2, 10), (3, 10)]):
        trainer.step(make_batch(batch, length, C, seed=seed)[0], (torch.arange(batch) + seed) % K)
    assert len(recorded) == 3
    assert replayed == [[0, 1], [1, 2], [2, 0], [0, 1, 2]]
    state = sum(1 for _ in (*trainer.model.parameters(), *trainer.model.buffers()))
    assert recorded[0] == state + 4  # and averages, squares, step counts, the loss


@pytest.mark.parametrize("masks", ["none", "both"])
def test_a_step_asks_the_device_for_nothing_while_it_is_recorded(masks):
    def capture(run, changed):
        warm_up(run, changed)
        with NoHost():
            run()
        return run

    _, trainer = make_trainer(capture)
    values, given = make_batch(B, T, C, masks)
    trainer.step(values, torch.arange(B), **given)
    assert len(trainer._recordings) == 1
    with NoHost(), pytest.raises(AssertionError, match="asks the device"):
        bool(values.isnan().any())


def test_masks_are_part_of_a_recordings_key():
    _, trainer = make_trainer()
    values, given = make_batch(B, T, C, "both")
    trainer.step(values, torch.arange(B), **given)
    trainer.step(values.nan_to_num(), torch.arange(B))
    trainer.step(values, torch.arange(B), **given)
    keys = trainer._recordings.keys()
    assert [masked for (*_, masked), *_ in keys] == [False, True]  # by their last use


def test_what_a_graph_holds_by_address_is_recorded_anew_when_it_moves():
    _, trainer = make_trainer()
    values, _ = make_batch(B, T, C)
    trainer.step(values, torch.arange(B))
    first = trainer._adamw
    trainer.step(values, torch.arange(B))
    assert trainer._adamw is first
    trainer.model.project.weight.data = trainer.model.project.weight.data.clone()
    trainer.step(values, torch.arange(B))
    assert trainer._adamw is not first
    assert len(trainer._recordings) == 1


def test_mistakes_are_found_before_anything_is_recorded():
    recorder, trainer = make_trainer()
    values, _ = make_batch(B, T, C)
    with pytest.raises(AlphabetError, match="targets must be int64 class indices"):
        trainer.step(values, torch.zeros(B))
    with pytest.raises(AlphabetError, match="targets"):
        trainer.step(values, torch.tensor([0, K]))
    with pytest.raises(AlphabetError, match="values"):
        trainer.step(torch.full_like(values, torch.nan), torch.arange(B))
    assert recorder.launches == []
    assert len(trainer._recordings) == 0


def test_the_optimizers_state_is_torchs_in_name_and_shape():
    _, trainer = make_trainer()
    trainer.step(make_batch(B, T, C)[0], torch.arange(B))
    for parameter in trainer.parameters:
        state = trainer.optimizer.state[parameter]
        assert {name: tensor.shape for name, tensor in state.items()} == {
            "step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape,
        }  # fmt: skip


def test_on_a_cpu_the_reference_trains_and_says_so():
    trainer = TritonTrainer(make_model(C, D, M, K))
    values, _ = make_batch(B, T, C)
    assert trainer.path(values).startswith("reference: the model is on cpu")
    assert "reference" in repr(trainer)
    assert torch.isfinite(trainer.step(values, torch.arange(B)))
