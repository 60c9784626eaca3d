"""Heads that several families have, by the endings of their class names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from glassformer.errors import ConfigError
from glassformer.families._shared.common import labels
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule
from glassformer.spec import Activation, HeadSpec, NormSpec, SpanBeamSpec, TransformSpec


def pooler(width: int, act: Activation = "tanh") -> HeadSpec:
    """A dense layer on the first token's vector, which represents the text."""
    return HeadSpec(
        name="pooler", pooling="first", transform=TransformSpec(width=width, activation=act)
    )


def language_model(vocabulary: int, **details: Any) -> HeadSpec:
    return HeadSpec(name="lm", num_outputs=vocabulary, **{"bias": "none", **details})


def masked_language_model(vocabulary: int, width: int, act: Activation, norm: NormSpec) -> HeadSpec:
    """BERT's masked-LM head: dense layer, activation, norm, and the tied projection with bias."""
    transform = TransformSpec(width=width, activation=act, norm=norm)
    return HeadSpec(name="lm", transform=transform, num_outputs=vocabulary)


def classify_last(outputs: int) -> HeadSpec:
    """GPT's classification head: a projection of the last non-padding token's vector."""
    return HeadSpec(name="classify", pooling="last", num_outputs=outputs, bias="none")


def tag(outputs: int, dropout: float = 0.0) -> HeadSpec:
    return HeadSpec(name="tag", num_outputs=outputs, dropout=dropout)


def span() -> HeadSpec:
    """Question answering: start and end scores for every position."""
    return HeadSpec(name="span", num_outputs=2)


def encoder_heads(
    pooled: HeadSpec, masked: HeadSpec, count: int, dropout: float, dropout_in: float = 0.0
) -> dict[str, tuple[HeadSpec, ...]]:
    """Returns the heads of BERT-like models, by the endings of their class names.

    Args:
        pooled: The pooler.
        masked: The masked-LM head.
        count: The number of labels.
        dropout: The dropout before the output layer of classification heads.
        dropout_in: The dropout before the dense layer of the sequence classification head.
    """
    classify = replace(
        pooled, name="classify", num_outputs=count, dropout=dropout, dropout_in=dropout_in
    )
    choose = replace(pooled, name="choose", num_outputs=1, multiple_choice=True, dropout=dropout)
    return {
        "Model": (pooled,),
        "ForMaskedLM": (masked,),
        "ForCausalLM": (masked,),
        "LMHeadModel": (masked,),
        "ForSequenceClassification": (classify,),
        "ForMultipleChoice": (choose,),
        "ForTokenClassification": (tag(count, dropout),),
        "ForQuestionAnswering": (span(),),
    }


def tie_head(
    config: ConfigReader, heads: tuple[HeadSpec, ...], embedding: str, default: bool = True
) -> tuple[tuple[str, str], ...]:
    """Returns the tie of the language-model head to the embedding; empty if there is none."""
    tied = config.flag("tie_word_embeddings", default) and any(head.name == "lm" for head in heads)
    return ((embedding, "heads.lm.out.weight"),) if tied else ()


def masked_bias(hf: str, tied: bool) -> WeightRule:
    """Returns the rule for the vocabulary bias of a masked-LM head.

    The file contains it twice; the two are the same tensor if the weights are tied.
    """
    outer, inner = f"{hf}bias", f"{hf}decoder.bias"
    if tied:
        return WeightRule(outer, "heads.lm.out.bias", also=(inner,))
    return WeightRule(inner, "heads.lm.out.bias")


def classify_at_end(width: int, count: int, dropout: float) -> HeadSpec:
    """BART's classification head: reads the decoder at the end of the text, after all of it."""
    return HeadSpec(
        name="classify",
        pooling="eos",
        transform=TransformSpec(width=width, activation="tanh"),
        num_outputs=count,
        dropout_in=dropout,
        dropout=dropout,
    )


def decoder_heads(
    config: ConfigReader, kind: str, vocabulary: int, dropout: float, lm_bias: bool = False
) -> tuple[HeadSpec, ...]:
    """Returns the heads of GPT-like models for the class-name ending `kind`."""
    lm = language_model(vocabulary, bias="learned" if lm_bias else "none")
    count = len(labels(config))
    if kind == "DoubleHeadsModel":
        return (lm, multiple_choice_head(config))
    heads: dict[str, tuple[HeadSpec, ...]] = {
        "Model": (),
        "LMHeadModel": (lm,),
        "ForCausalLM": (lm,),
        "ForSequenceClassification": (classify_last(count),),
        "ForTokenClassification": (tag(count, dropout),),
        "ForQuestionAnswering": (span(),),
    }
    if kind not in heads:  # of a class of another type of the family
        raise ConfigError(
            f"config.json has the model_type {config.values.get('model_type')!r}, and that has no "
            f"class for {kind!r}; give one of its own as `architecture`."
        )
    return heads[kind]


def multiple_choice_head(config: ConfigReader) -> HeadSpec:
    """The multiple-choice head of the GPT papers, which reads the end of each candidate text."""
    picks: dict[str, Literal["last", "first", "mean"]] = {
        "cls_index": "last",
        "last": "last",
        "first": "first",
        "mean": "mean",
    }
    config.only("summary_type", *picks)
    config.only("summary_use_proj", True)
    config.only("summary_proj_to_labels", True)
    return HeadSpec(
        name="choose",
        pooling=picks[config.word("summary_type", "cls_index")],
        num_outputs=1,
        activation="tanh" if config.optional("summary_activation") == "tanh" else "linear",
        multiple_choice=True,
        dropout=config.dropout("summary_first_dropout", 0.1),
    )


def answer(config: ConfigReader, norm: NormSpec) -> HeadSpec:
    """The question-answering head of XLNet and XLM: top starts, and top ends for each start."""
    starts, ends = config.integer("start_n_top", 5), config.integer("end_n_top", 5)
    beam = SpanBeamSpec(starts=starts, ends=ends, norm=norm)
    return HeadSpec(name="answer", num_outputs=1, scalar=True, beam=beam)


def answer_rules(hf: str) -> tuple[WeightRule, ...]:
    """Returns the weight rules of the `answer` head."""
    return (
        WeightRule(f"{hf}start_logits.dense", "heads.answer.out"),
        WeightRule(f"{hf}end_logits.dense_0", "heads.answer.end.dense"),
        WeightRule(f"{hf}end_logits.LayerNorm", "heads.answer.end.norm"),
        WeightRule(f"{hf}end_logits.dense_1", "heads.answer.end_out"),
        WeightRule(f"{hf}answer_class.dense_0", "heads.answer.possible.dense"),
        WeightRule(f"{hf}answer_class.dense_1", "heads.answer.possible_out"),
    )
