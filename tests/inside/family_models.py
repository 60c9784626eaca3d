"""One class of every family, the one that says most where there is one, and a text for it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch
from cases import NAMES, Case, Name, reads_signals, signals

SPEAKING = (
    "ForCausalLM",
    "LMHeadModel",
    "ForMaskedLM",
    "ForConditionalGeneration",
    "MarianMTModel",
    "ForImageClassification",
)
OTHERS = [  # heads of other kinds: for gaps, whole texts, tags, spans, rivals
    "RobertaForMaskedLM",
    "XLMRobertaForMaskedLM",
    "LongformerForSequenceClassification",
    "BertForSequenceClassification",
    "BertForMultipleChoice",
    "RobertaForTokenClassification",
    "BartForSequenceClassification",
    "T5ForSequenceClassification",
    "XLNetForQuestionAnswering",
    "GPT2DoubleHeadsModel",
    "BigBirdForQuestionAnswering",
    "AlbertForPreTraining",
    "LlamaForSequenceClassification",
    "ElectraForPreTraining",
    "DebertaV2ForSequenceClassification",
]


def chosen() -> list[Name]:
    found: list[Name] = []
    for kind in dict.fromkeys(name.model_type for name in NAMES):
        own = [name for name in NAMES if name.model_type == kind]
        speaking = [name for name in own if name.architecture.endswith(SPEAKING)]
        found.append((speaking or own)[0])
    return found


FAMILIES = chosen()
CONFIGS = [  # the same classes in every TINY config
    name
    for name in NAMES
    if any((f.model_type, f.architecture) == (name.model_type, name.architecture) for f in FAMILIES)
]
HEADS = [
    next(n for n in NAMES if n.architecture == architecture and n.index == 0)
    for architecture in OTHERS
]


@cache
def case_of(name: Name) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        return Case(name, Path(folder))


def text_of(case: Case, seed: int = 0, length: int = 9):
    """What `look` takes: a text, and what a decoder beside an encoder has written."""
    if case.hops:
        return torch.tensor(case.texts((3, 3, 3), seed)), case.texts((4,), seed + 9)[0]
    target = case.texts((5,), seed=7)[0] if case.both and not case.spec.shift_right else None
    if reads_signals(case.spec):
        return signals(case.spec.encoder, 1, seed)[0][0], target
    return case.texts((length,), seed)[0], target


def look(case: Case, seed: int = 0, **how):
    return case.model.look(*text_of(case, seed), **how)
