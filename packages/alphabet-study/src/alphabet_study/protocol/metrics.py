"""The metrics by name, each of outputs (N, K) and targets, by scikit-learn."""

import numpy as np
import numpy.typing as npt
import torch
from sklearn import metrics
from torch import Tensor

from alphabet_study.errors import StudyError
from alphabet_study.registry.task import Task

Floats = npt.NDArray[np.float64]


def measure(name: str, outputs: Tensor, targets: Tensor) -> float:
    """The metric of outputs (N, K), logits or forecasts, for class indices (N,) or targets (N, K)."""
    if not torch.isfinite(outputs).all():
        raise StudyError(f"{name} cannot be computed: outputs are not finite")
    if name == "mse":
        return float((outputs.double() - targets.double()).square().mean())
    if name in ("auroc", "auprc"):
        return _average_over_labels(name, *one_versus_rest(outputs, targets))
    predicted, truth = outputs.argmax(dim=1).numpy(), targets.numpy()
    if name == "accuracy":
        return float(metrics.accuracy_score(truth, predicted))
    # Averages over the classes that occur; a class without examples has no recall.
    present = np.unique(truth)
    if name == "balanced_accuracy":
        return float(metrics.recall_score(truth, predicted, labels=present, average="macro", zero_division=0.0))
    if name == "macro_f1":
        return float(metrics.f1_score(truth, predicted, labels=present, average="macro", zero_division=0.0))
    raise StudyError(f"metric {name!r} is not known")


def one_versus_rest(outputs: Tensor, targets: Tensor) -> tuple[Floats, Floats]:
    """The scores and 0/1 truths (N, labels): the second class's for two classes, else one column per class or label."""
    if targets.ndim == 2:
        return outputs.double().numpy(), targets.double().numpy()
    scores = outputs.double().softmax(dim=1).numpy()
    if outputs.shape[1] == 2:
        # The difference of logits orders as the probability does, without its ties at 0 and 1.
        return (outputs[:, 1:] - outputs[:, :1]).double().numpy(), targets.unsqueeze(1).double().numpy()
    return scores, torch.nn.functional.one_hot(targets, outputs.shape[1]).double().numpy()


def _average_over_labels(name: str, scores: Floats, truths: Floats) -> float:
    """The unweighted mean over the labels that have both positive and negative examples."""
    function = metrics.roc_auc_score if name == "auroc" else metrics.average_precision_score
    usable = [k for k in range(truths.shape[1]) if 0 < truths[:, k].sum() < len(truths)]
    if not usable:
        raise StudyError(f"{name} cannot be computed: no label has both positive and negative examples")
    return float(np.mean([function(truths[:, k], scores[:, k]) for k in usable]))


def reported_metrics(task: Task) -> list[str]:
    """The metrics that a final reports: the task's own first, then the one that selected."""
    return list(dict.fromkeys((task.metric, task.selection_metric)))


def best_threshold(outputs: Tensor, targets: Tensor) -> float:
    """The threshold on the second class's logit margin with the best balanced accuracy, the lowest of equal ones."""
    margins = (outputs[:, 1] - outputs[:, 0]).double().numpy()
    false_rates, true_rates, thresholds = metrics.roc_curve(targets.numpy(), margins, drop_intermediate=False)
    gain = true_rates - false_rates
    return float(thresholds[np.flatnonzero(gain == gain.max())[-1]])


def balanced_accuracy_at(threshold: float, outputs: Tensor, targets: Tensor) -> float:
    """The balanced accuracy of two classes when the second is predicted from this logit margin on."""
    predicted = ((outputs[:, 1] - outputs[:, 0]).double() >= threshold).long()
    return float(metrics.recall_score(targets.numpy(), predicted.numpy(), labels=[0, 1], average="macro"))
