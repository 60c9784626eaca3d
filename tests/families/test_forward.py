"""Optional results of `forward`, for every class: the loss, hidden states and attentions."""

from __future__ import annotations

import inspect

import pytest
import reference
import torch
import torch.nn.functional as F
from cases import TOLERANCE, Name, in_transformers, reads_signals

from glassformer.errors import UnsupportedError

LENGTH = (9, 9, 9, 9)


def parameters(name: Name) -> set[str]:
    found = reference.find_class(name.architecture)
    return set(inspect.signature(found.forward).parameters)


def takes_labels(name: Name) -> bool:
    heads = name.spec.heads
    return in_transformers(name) and any(head.num_outputs is not None for head in heads)


def is_text(name: Name) -> bool:
    return in_transformers(name) and not reads_signals(name.spec)


def targets(case) -> dict[str, torch.Tensor]:
    """Labels under the reference's names, for the class's head."""
    head = next(head for head in case.spec.heads if head.num_outputs is not None)
    draw = torch.Generator().manual_seed(5)
    batch = case.batch(LENGTH, "right")
    texts = len(batch.mask)
    if head.name == "span":
        places = torch.randint(9, (2, texts), generator=draw)
        return {"start_positions": places[0], "end_positions": places[1]}
    if head.multiple_choice:
        return {"labels": torch.randint(batch.mask.shape[1], (texts,), generator=draw)}
    if head.scalar:
        return {"labels": torch.randint(2, batch.mask.shape, generator=draw)}
    if head.pooling == "each":
        labels = torch.randint(head.num_outputs, batch.mask.shape, generator=draw)
        return {"labels": labels.masked_fill(torch.rand(labels.shape, generator=draw) < 0.3, -100)}
    if head.num_outputs == 1:
        return {"labels": torch.rand(texts, generator=draw)}
    return {"labels": torch.randint(head.num_outputs, (texts,), generator=draw)}


@pytest.mark.over(once_per="class", which=takes_labels)
def test_the_loss_is_the_references(case):
    known = parameters(case.name)
    given = targets(case)
    theirs_named = {key: value for key, value in given.items() if key in known}
    labels = given.get("labels")
    if labels is None:
        labels = torch.stack((given["start_positions"], given["end_positions"]), -1)
    inputs = case.inputs(case.batch(LENGTH, "right"))
    known_inputs = known_by_the_reference(case, inputs)
    head = next(head for head in case.spec.heads if head.num_outputs is not None)
    if head.beam is not None or head.pixel_shuffle or head.adaptive is not None:
        with pytest.raises(UnsupportedError, match="is not computed from `labels`"):
            case.model(**inputs, labels=labels)
        return
    with torch.no_grad():
        ours = case.model(**inputs, labels=labels).loss
    same = head.name != "lm" or shifts_alike(case)
    with torch.no_grad():
        out = case.reference(**known_inputs, **(theirs_named if same else {}))
    theirs = out.get("loss")
    if theirs is None:
        names = ("logits", "prediction_logits", "last_hidden_state")  # FSMTModel's are logits
        logits = next(out[name] for name in names if name in out)
        theirs = cross_entropy(logits, labels, shift=case.spec.encoder is None)
    assert ours.ndim == 0 and float((ours - theirs).abs()) <= TOLERANCE


def shifts_alike(case) -> bool:
    """Whether the reference shifts the labels of a decoder alone, and no others."""
    quirks = ("BartFor", "MBartFor", "MarianFor", "PegasusFor", "WhisperFor", "XLMWith", "XLNetLM")
    decoder, name = case.spec.encoder is None, case.name.architecture
    if decoder:
        return not name.startswith(quirks) and not name.endswith(("ForPreTraining", "ForMaskedLM"))
    return not name.endswith(("ForCausalLM", "BertLMHeadModel"))


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, shift: bool) -> torch.Tensor:
    if shift:
        logits, labels = logits[..., :-1, :], labels[..., 1:]
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def known_by_the_reference(case, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs under the reference's names, without those that it does not take."""
    known, named = parameters(case.name), dict(inputs)
    if "language_ids" in named:
        named["langs"] = named.pop("language_ids")
    if "DoubleHeads" in case.name.architecture:
        named["mc_token_ids"] = named.pop("attention_mask").sum(-1) - 1
    if case.spec.last_stack.memory is not None:
        named.pop("attention_mask")
    named = {k: v.long() if v.dtype == torch.bool else v for k, v in named.items() if k in known}
    if hasattr(case.reference.config, "use_cache"):
        named["use_cache"] = False
    return named


@pytest.mark.over(once_per="body", which=is_text)
def test_hidden_states_and_attentions_are_the_references(case):
    batch = case.batch(LENGTH, "right")
    inputs = case.inputs(batch)
    named = known_by_the_reference(case, inputs)
    with torch.no_grad():
        ours = case.model(**inputs, output_hidden_states=True, output_attentions=True)
        theirs = case.reference(**named, output_hidden_states=True, output_attentions=True)
    plain = theirs.get("hidden_states") or theirs.get("decoder_hidden_states")
    assert len(ours.hidden_states) == len(plain)
    for own, other in zip(ours.hidden_states, plain, strict=True):
        assert float((own - other.view_as(own)).abs().max()) <= TOLERANCE
    assert len(ours.attentions) == len(case.spec.last_stack.order)
