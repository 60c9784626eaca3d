"""The loss of a head's logits against labels, as transformers defines it.

The labels of a decoder alone are always the text itself: the logits at a position predict the next
label. transformers does not shift them for a few such classes (BART, Marian, Whisper, XLM, and the
masked-LM class of a decoder).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import InputError, UnsupportedError
from glassformer.spec import HeadSpec, ModelSpec, head_among

IGNORED = -100
"""The label of positions without a loss."""


def heads_loss(
    spec: ModelSpec,
    heads: Sequence[HeadSpec],
    results: Mapping[str, Tensor],
    labels: Tensor | Mapping[str, Tensor],
    mask: Tensor | None,
    problem_type: str | None,
) -> Tensor:
    """Computes the loss of the first head, or the weighted sum over the named heads.

    Args:
        spec: The model's architecture.
        heads: The computed heads that have outputs.
        results: The outputs of the heads, by name.
        labels: The targets of the first head, or of several heads by name.
        mask: As in `labels_loss`, like `problem_type`.
    """
    if not heads:
        raise UnsupportedError(
            "This model has no head with outputs, so there is no loss for `labels`; load a class "
            "that has one.",
            field="labels",
        )
    named = labels if isinstance(labels, Mapping) else {heads[0].name: labels}
    for target in named.values():
        check_labels(target)
    losses = []
    for name, target in named.items():
        head = head_among(heads, name, " with outputs")
        loss = labels_loss(spec, head, results[name], target, mask, problem_type)
        losses.append(loss if len(named) == 1 else loss * head.loss_weight)
    return torch.stack(losses).sum()


def check_labels(labels: object) -> None:
    if not isinstance(labels, Tensor):
        raise InputError(f"labels must be a tensor, not {type(labels).__name__}.")


def labels_loss(
    spec: ModelSpec,
    head: HeadSpec,
    logits: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    problem_type: str | None = None,
) -> Tensor:
    """Computes the mean loss of a head.

    Args:
        spec: The model's architecture. A decoder without an encoder predicts the next token.
        head: The head that computed the logits.
        logits: The head's output.
        labels: Token ids, [batch, position]; class ids, [batch] or [batch, position]; for several
            labels per text, numbers of [batch, class]; for regression, numbers of [batch]; for
            answer spans, the first and last position, [batch, 2]. -100 is ignored.
        mask: True at real tokens, [batch, position].
        problem_type: "regression", "single_label_classification" or "multi_label_classification",
            if the model's config says so.
    """
    if head.adaptive is not None or head.beam is not None or head.pixel_shuffle:
        raise UnsupportedError(
            f"The loss of the head {head.name!r} is not computed from `labels`; compute it from "
            "the logits.",
            field="labels",
        )
    logits = logits.float()
    if head.scalar:
        return _binary(logits, labels, mask)
    if head.name == "span":
        return _span(logits, labels)
    if head.multiple_choice or head.pooling == "each":
        return _classes(logits, labels, shift=spec.is_causal and head.name == "lm")
    if problem_type is None:
        problem_type = _problem_type(logits, labels)
    if problem_type == "regression":
        return F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view_as(logits.squeeze(-1)))
    if problem_type == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    return _classes(logits, labels)


def _classes(logits: Tensor, labels: Tensor, shift: bool = False) -> Tensor:
    if shift:
        logits, labels = logits[..., :-1, :], labels[..., 1:]
    if logits.shape[:-1].numel() != labels.numel():
        raise InputError(
            f"The labels are {list(labels.shape)}, and the logits {list(logits.shape)}; give one "
            "label for each vector of logits."
        )
    try:
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long(), ignore_index=IGNORED
        )
    except IndexError as error:  # raised on a CPU
        raise InputError(
            f"A label is not among the {logits.shape[-1]} classes of the head: {error}"
        ) from None


def _binary(logits: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
    real = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask
    return F.binary_cross_entropy_with_logits(logits[real], labels[real].to(logits.dtype))


def _span(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of the first and last position; positions beyond the text are ignored."""
    if labels.shape != (len(logits), 2):
        raise InputError(
            f"The labels are {list(labels.shape)}; give the first and last position of each "
            "answer, [batch, 2]."
        )
    length = logits.shape[1]
    losses = [
        F.cross_entropy(logits[..., i], labels[:, i].long().clamp(0, length), ignore_index=length)
        for i in (0, 1)
    ]
    return torch.stack(losses).mean()


def _problem_type(logits: Tensor, labels: Tensor) -> str:
    if logits.shape[-1] == 1:
        return "regression"
    whole = not labels.is_floating_point()
    return "single_label_classification" if whole else "multi_label_classification"
