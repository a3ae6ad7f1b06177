"""Metrics: each equals its definition written out, and none is computed from what is not finite."""

import math

import pytest
import torch
from alphabet_study.errors import StudyError
from alphabet_study.protocol.metrics import balanced_accuracy_at, best_threshold, measure, reported_metrics
from alphabet_study.registry import TASKS

OUTPUTS = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(0, 3, (60,), generator=torch.Generator().manual_seed(2))


def pair_count(scores, truths):
    """AUROC as the share of pairs of a positive and a negative that are ordered rightly, ties counting half."""
    pairs = [
        (p, n) for p, t in zip(scores, truths, strict=True) if t for n, u in zip(scores, truths, strict=True) if not u
    ]
    return sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)


def test_balanced_accuracy_is_the_mean_recall():
    predicted = OUTPUTS.argmax(1)
    recalls = [float((predicted[k == TARGETS] == k).float().mean()) for k in range(3)]
    assert measure("balanced_accuracy", OUTPUTS, TARGETS) == pytest.approx(sum(recalls) / 3)


def test_a_class_without_examples_is_left_out_of_the_mean():
    rows = TARGETS != 2
    recalls = [float((OUTPUTS[k == TARGETS].argmax(1) == k).float().mean()) for k in range(2)]
    assert measure("balanced_accuracy", OUTPUTS[rows], TARGETS[rows]) == pytest.approx(sum(recalls) / 2)


def test_accuracy_and_mse():
    assert measure("accuracy", OUTPUTS, TARGETS) == pytest.approx(float((OUTPUTS.argmax(1) == TARGETS).float().mean()))
    assert measure("mse", OUTPUTS, OUTPUTS + 2) == pytest.approx(4.0)


def test_macro_f1_is_the_mean_over_classes():
    predicted = OUTPUTS.argmax(1)
    scores = []
    for k in range(3):
        hits = float(((predicted == k) & (k == TARGETS)).sum())
        scores.append(2 * hits / float((predicted == k).sum() + (k == TARGETS).sum()))
    assert measure("macro_f1", OUTPUTS, TARGETS) == pytest.approx(sum(scores) / 3)


def test_auroc_counts_ordered_pairs():
    binary = (TARGETS == 1).long()
    margin = OUTPUTS[:, 1] - OUTPUTS[:, 0]
    assert measure("auroc", OUTPUTS[:, :2], binary) == pytest.approx(pair_count(margin.tolist(), binary.tolist()))
    labels = (torch.rand(60, 3, generator=torch.Generator().manual_seed(4)) < 0.3).float()
    each = [pair_count(OUTPUTS[:, k].tolist(), labels[:, k].tolist()) for k in range(3)]
    assert measure("auroc", OUTPUTS, labels) == pytest.approx(sum(each) / 3)


def test_auprc_is_the_mean_precision_at_each_positive():
    binary = (TARGETS == 1).long()
    order = (OUTPUTS[:, 1] - OUTPUTS[:, 0]).argsort(descending=True)
    hits, precisions = 0, []
    for rank, row in enumerate(order, start=1):
        if binary[row]:
            hits += 1
            precisions.append(hits / rank)
    assert measure("auprc", OUTPUTS[:, :2], binary) == pytest.approx(sum(precisions) / len(precisions))


def test_the_threshold_is_the_best_on_its_own_data():
    outputs, targets = OUTPUTS[:, :2], (TARGETS == 1).long()
    chosen = balanced_accuracy_at(best_threshold(outputs, targets), outputs, targets)
    margins = (outputs[:, 1] - outputs[:, 0]).double()
    assert chosen == pytest.approx(max(balanced_accuracy_at(float(m), outputs, targets) for m in margins))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_outputs_that_are_not_finite_are_refused(bad):
    outputs = OUTPUTS.clone()
    outputs[3, 1] = bad
    with pytest.raises(StudyError, match="not finite"):
        measure("accuracy", outputs, TARGETS)


def test_a_final_reports_the_tasks_metric_first():
    assert reported_metrics(TASKS["GunPoint"]) == ["balanced_accuracy"]
    assert reported_metrics(TASKS["PhysioNet-2012"]) == ["auroc", "auprc"]
