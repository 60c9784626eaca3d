"""The effect of each input token on an output, measured by changing the text.

`occlusion` leaves each token out and `swap` puts other tokens into its place; both run the model on
every changed text, in batches. The results are exact: each is what a forward pass of its own gives.
Gradients and attention only estimate them, and `InputEffects.agreement` says how well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.model_output import ModelOutput
from glassformer.errors import UnsupportedError
from glassformer.inside.attribute.gradients import AttributedOutput
from glassformer.inside.attribute.input_effects import InputEffects, TextChange
from glassformer.inside.attribute.predictions import Predicted, predicting_heads, vocabulary_id
from glassformer.inside.capture.cancellation import report_progress
from glassformer.inside.capture.model_inputs import InputToken
from glassformer.inside.capture.named_tensor import NamedTensor, check_index
from glassformer.spec import AttentionPattern
from glassformer.tasks.heads import kind_of
from glassformer.tasks.model_protocol import TaskModel

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

BATCH_TOKENS = 1024  # per forward pass
INPUTS = {"encoder": "input_ids", "decoder": "decoder_input_ids"}
Replacements = Mapping[int, Sequence[int | str]]
Place = tuple[str, int]  # a stack and a position
Change = tuple[int, int | None]  # a position, and the token put there; None leaves it out


@torch.no_grad()
def occlusion(
    view: View,
    token: int | str | None = None,
    *,
    position: int | None = None,
    head: str | None = None,
) -> InputEffects:
    """Leaves out each token and measures how far a logit falls.

    Args:
        view: The view.
        token: A token or label by index or name; None is the predicted one.
        position: The position, for heads that read each one.
        head: The head, by default that of the view.

    Returns:
        The effects. Tokens that the tokenizer added are not left out, nor the token that a masked
        or tagging head predicts at.
    """
    _check_edits(view)
    measured = MeasuredOutput.of(view, token, position, head)
    changed = {
        (stack, at): [None]
        for stack, at in changeable(measured)
        if measured.after(stack, (at, None)) is not None
    }
    return _effects("occlusion", measured, changed)


@torch.no_grad()
def swap(
    view: View,
    token: int | str | None = None,
    *,
    position: int | None = None,
    head: str | None = None,
    replacements: Replacements | None = None,
    stack: str | None = None,
    count: int = 4,
) -> InputEffects:
    """Swaps each token for others and measures how far a logit falls.

    Args:
        view: The view.
        token: A token or label by index or name; None is the predicted one.
        position: The position, for heads that read each one.
        head: The head, by default that of the view.
        replacements: The tokens to put at each position, by id or text. By default the `count`
            tokens other than the real one that the model itself finds most probable there.
        stack: The stack that the positions of `replacements` count in, by default the last.
        count: The number of replacements per position.

    Returns:
        The effects.
    """
    measured = MeasuredOutput.of(view, token, position, head)
    if replacements is None:
        allowed = set(changeable(measured))
        found = proposals(view, count)
        chosen = {place: ids for place, ids in found.items() if place in allowed}
    else:
        chosen = _chosen(view, replacements, stack or view.stack)
    return _effects("swap", measured, chosen)


def _check_edits(view: View) -> None:
    """Positions of edits mean other tokens in a text without one of its tokens."""
    for edit in (one.edit for edits in view.edits for one in edits.resolved):
        if edit.positions is not None or edit.kind == "patch":
            raise UnsupportedError(
                f"An edit of {edit.at} names positions, which shift when a token is left out; swap "
                "tokens instead, or remove the edit."
            )


def _chosen(view: View, replacements: Replacements, stack: str) -> dict[Place, list[int]]:
    tokens: tuple[InputToken, ...] = getattr(view.model_inputs, stack, ())
    found: dict[Place, list[int]] = {}
    for at, wanted in replacements.items():
        check_index(at, len(tokens), "position")
        found[stack, at % len(tokens)] = [vocabulary_id(view, one, stack) for one in wanted]
    return found


# --- which tokens are changed, and into what ------------------------------------------------------


def token_inputs(view: View) -> dict[str, str]:
    """Returns the name of each stack's token input; stacks of audio or images have none."""
    inputs = view.model_inputs.inputs
    if "memory_tokens" in inputs:
        raise UnsupportedError(
            f"{view.model.architecture} reads sentences, so single tokens cannot be left out; "
            "inspect its hops."
        )
    both = bool(view.model_inputs.encoder and view.model_inputs.decoder)
    names = INPUTS if both else {view.stack: "input_ids"}
    return {
        stack: name
        for stack, name in names.items()
        if name in inputs and not inputs[name].is_floating_point()
    }


def changeable(measured: MeasuredOutput) -> Iterator[Place]:
    """Yields the stack and position of each token of the text that the output may depend on."""
    view = measured.view
    for stack in token_inputs(view):
        tokens: tuple[InputToken, ...] = getattr(view.model_inputs, stack)
        last = len(tokens)
        if stack == "decoder" and measured.by_position and _is_causal(view):
            last = measured.row + 1
        for at, one in enumerate(tokens[:last]):
            if not one.special and one.id is not None:
                yield stack, at


def _is_causal(view: View) -> bool:
    patterns = [block.pattern for block in view.spec.attention_blocks]
    return all(isinstance(one, AttentionPattern) and one.right == 0 for one in patterns)


def proposing_head(model: TaskModel, preferred: str | None) -> str | None:
    """Returns the head whose candidates can replace tokens of the last stack, if there is one."""
    heads = [one.name for one in predicting_heads(model) if kind_of(one, model.spec) == "lm"]
    masks = model.tokenizer is not None and "mask" in model.tokenizer.special
    if not heads or (model.spec.decoder is None and not masks):
        return None
    return preferred if preferred in heads else heads[0]


def proposals(view: View, count: int) -> dict[Place, list[int]]:
    """Returns the tokens that the model finds most probable at each position of the last stack.

    A decoder's candidates are those after the tokens before; an encoder's those for a mask.
    """
    head = proposing_head(view.model, view.head)
    if head is None:
        raise UnsupportedError(
            f"{view.model.architecture} has no head for the vocabulary that could propose other "
            "tokens; name `replacements`, or use occlusion."
        )
    known, tokens = view.model.tokenizer, getattr(view.model_inputs, view.stack)
    if view.stack == "encoder":
        assert known is not None
        changes = [(at, known.special["mask"]) for at in range(len(tokens))]
        outs = _passes(view, "encoder", changes, head)
        rows = [
            out.head_outputs[head][i, at] for out, part in outs for i, (at, _) in enumerate(part)
        ]
    else:
        rows = [*view.output.head_outputs[head][0][: len(tokens) - 1]]
    first = len(tokens) - len(rows)  # nothing predicts the first token of a decoder
    added = [] if known is None else list(known.target_tokenizer.special_ids)
    found = {}
    for at, logits in enumerate(rows, first):
        scores = logits.float().clone()
        scores[[id for id in (*added, tokens[at].id) if id is not None and id < len(scores)]] = -inf
        found[view.stack, at] = scores.topk(min(count, len(scores))).indices.tolist()
    return found


# --- passes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeasuredOutput:
    """The output whose logit is measured: an outcome in a row of predictions."""

    view: View
    predicted: Predicted
    question: AttributedOutput

    @classmethod
    def of(
        cls, view: View, token: int | str | None, position: int | None, head: str | None
    ) -> MeasuredOutput:
        question = AttributedOutput.of(view, token, position, head)
        return cls(view, Predicted(view, question.head), question)

    @cached_property
    def row(self) -> int:
        """The row of predictions."""
        if self.predicted.what == "span":
            return self.question.output
        return self.question.position or 0

    @cached_property
    def outcome(self) -> int:
        """The outcome in that row."""
        if self.predicted.what == "span":
            return self.question.position or 0
        return self.question.output

    @property
    def by_position(self) -> bool:
        """Whether rows are positions."""
        return self.predicted.what not in ("classify", "span")

    def after(self, stack: str, change: Change) -> tuple[int, int] | None:
        """Returns the row and the outcome in a changed text; None if it has no such output."""
        at, replacement = change
        if replacement is not None or stack != self.view.stack:
            return self.row, self.outcome
        if self.predicted.what == "span":
            moved = self.outcome - (at < self.outcome)
            return None if at == self.outcome else (self.row, moved)
        if not self.by_position:
            return self.row, self.outcome
        if at == self.row:  # the next token is then predicted after the token before
            return (at - 1, self.outcome) if self.predicted.what == "next" and at else None
        return self.row - (at < self.row), self.outcome

    def results(
        self, out: ModelOutput, stack: str, changes: Sequence[Change]
    ) -> Iterator[TextChange]:
        """Yields the result of each row of a batch."""
        places = [self.after(stack, change) for change in changes]
        rows, outcomes = zip(*(place for place in places if place is not None), strict=True)
        each = range(len(changes))
        found = out.head_outputs[self.question.head].float()
        if self.predicted.head.scalar:
            found = found.unsqueeze(-1)
        if self.predicted.what == "span":
            found = found.mT
        logits = found if self.predicted.what == "classify" else found[each, rows]
        shares = self.predicted.log_probs(logits).exp()
        if self.predicted.by.number:
            shares = torch.full_like(shares, float("nan"))
        for i, (at, id), best in zip(each, changes, logits.argmax(-1).tolist(), strict=True):
            shifts = self.predicted.what == "span" and id is None and stack == self.view.stack
            yield TextChange(
                stack,
                at,
                id,
                None if id is None else self.view.token_text(id),
                float(logits[i, outcomes[i]]),
                float(shares[i, outcomes[i]]),
                self.predicted.text(best + (shifts and best >= at)),
                float(shares[i, best]),
            )


def _passes(
    view: View, stack: str, changes: Sequence[Change], head: str
) -> Iterator[tuple[ModelOutput, Sequence[Change]]]:
    """Yields the output of each batch of changed texts, one row per change."""
    length = len(getattr(view.model_inputs, stack))
    size = max(1, BATCH_TOKENS // length)
    for start in range(0, len(changes), size):
        part = changes[start : start + size]
        yield view.run(None, heads=(head,), **_changed(view, stack, part)), part


def _changed(view: View, stack: str, changes: Sequence[Change]) -> dict[str, Tensor]:
    """The model inputs with one change per row: all leave a token out, or all replace one."""
    inputs, own = view.model_inputs.inputs, token_inputs(view)[stack]
    found = {name: x.expand(len(changes), *x.shape[1:]) for name, x in inputs.items()}
    ids = inputs[own]
    if changes[0][1] is not None:
        found[own] = ids.repeat(len(changes), 1)
        for row, (at, id) in enumerate(changes):
            assert id is not None
            found[own][row, at] = id
        return found
    left = [[i for i in range(ids.shape[1]) if i != at] for at, _ in changes]
    for name in (own, "token_type_ids"):
        if name in inputs and inputs[name].shape == ids.shape:
            found[name] = inputs[name][0][torch.tensor(left, device=ids.device)]
    return found


def _effects(
    kind: str, measured: MeasuredOutput, chosen: Mapping[Place, Sequence[int | None]]
) -> InputEffects:
    view, question = measured.view, measured.question
    by_stack = defaultdict[str, list[Change]](list)
    for (stack, at), ids in chosen.items():
        by_stack[stack].extend((at, id) for id in ids)
    total, found = sum(map(len, by_stack.values())), list[TextChange]()
    for stack, changes in by_stack.items():
        for out, part in _passes(view, stack, changes, question.head):
            found.extend(measured.results(out, stack, part))
            report_progress(len(found), total)
    falls = {stack: _falls(view, stack, question.logit, found) for stack in token_inputs(view)}
    share = measured.predicted.log_probs(measured.predicted.logits([measured.row])).exp()
    return InputEffects(
        kind,
        measured.outcome,
        question.text
        if measured.predicted.what != "span"
        else measured.predicted.text(measured.outcome),
        question.position,
        question.logit,
        float("nan") if measured.predicted.by.number else float(share[0, measured.outcome]),
        tuple(found),
        falls[view.stack] if view.stack in falls else _falls(view, view.stack, question.logit, []),
        falls.get("encoder") if view.stack == "decoder" else None,
    )


def _falls(view: View, stack: str, logit: float, changes: Sequence[TextChange]) -> NamedTensor:
    """The mean fall of the logit per token of a stack."""
    tokens: tuple[InputToken, ...] = getattr(view.model_inputs, stack)
    each = defaultdict[int, list[float]](list)
    for one in changes:
        if one.stack == stack:
            each[one.position].append(logit - one.logit)
    values = [sum(each[at]) / len(each[at]) if at in each else nan for at in range(len(tokens))]
    words = {"position": [token.text for token in tokens]}
    return NamedTensor(torch.tensor(values), ("position",), words, "fall of the logit")
