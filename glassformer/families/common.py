"""Room 4, families: what several families' config files have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.families.config import Config
from glassformer.families.rules import Rule
from glassformer.spec import Activation, Head, Norm, SpecialTokens, Transform

ACTIVATION_NAMES: dict[str, Activation] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "mish": "mish",
    "linear": "linear",
}


def activation(config: Config, key: str, default: str) -> Activation:
    name = config.str(key, default)
    if name not in ACTIVATION_NAMES:
        raise GlassformerError(
            f"config.json has {key} = {name!r}; known activations are "
            f"{', '.join(sorted(ACTIVATION_NAMES))}."
        )
    return ACTIVATION_NAMES[name]


def head_dim(config: Config, width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise GlassformerError(
            f"config.json asks for {heads} heads over a width of {width}, which is not a multiple."
        )
    return width // heads


def labels(config: Config, default: int = 2) -> tuple[str, ...]:
    """The classes of a classification head, by `id2label` or just counted."""
    names = config.optional("id2label")
    config.optional("label2id")
    count = config.optional("num_labels")
    if names is None:
        return tuple(f"LABEL_{i}" for i in range(default if count is None else count))
    try:
        by_id = {int(key): str(name) for key, name in names.items()}
        return tuple(by_id[i] for i in range(len(by_id)))
    except (AttributeError, KeyError, ValueError):
        raise config.wrong("id2label", "a name for every id from 0 on") from None


def special_tokens(config: Config, **defaults: int | None) -> SpecialTokens:
    return SpecialTokens(
        pad=config.id("pad_token_id", defaults.get("pad")),
        bos=config.id("bos_token_id", defaults.get("bos")),
        eos=config.id("eos_token_id", defaults.get("eos")),
        start=config.id("decoder_start_token_id", defaults.get("start")),
    )


# --- heads that families share ---------------------------------------------------------------


def pooler(width: int) -> Head:
    """The first token's vector through a dense layer with tanh: a text in one vector."""
    return Head(name="pooler", pick="first", transform=Transform(width=width, activation="tanh"))


def language_model(vocabulary: int, **details: Any) -> Head:
    return Head(name="lm", outputs=vocabulary, **{"bias": "none", **details})


def masked_language_model(vocabulary: int, width: int, act: Activation, norm: Norm) -> Head:
    """BERT's: a dense layer, its activation and a norm before the tied projection with bias."""
    transform = Transform(width=width, activation=act, norm=norm)
    return Head(name="lm", transform=transform, outputs=vocabulary)


def classify_last(outputs: int) -> Head:
    """GPT's: the last real token's vector, projected."""
    return Head(name="classify", pick="last", outputs=outputs, bias="none")


def tag(outputs: int, dropout: float = 0.0) -> Head:
    return Head(name="tag", outputs=outputs, dropout=dropout)


def span() -> Head:
    """Start and end scores of an answer for every position."""
    return Head(name="span", outputs=2)


def encoder_heads(
    pooled: Head, masked: Head, count: int, dropout: float, dropout_in: float = 0.0
) -> dict[str, tuple[Head, ...]]:
    """The heads of BERT and its children, by what their class names end in."""
    classify = replace(
        pooled, name="classify", outputs=count, dropout=dropout, dropout_in=dropout_in
    )
    choose = replace(pooled, name="choose", outputs=1, choices=True, dropout=dropout)
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
    config: Config, heads: tuple[Head, ...], embedding: str, default: bool = True
) -> tuple[tuple[str, str], ...]:
    """The language-model head, if there is one, shares the embedding's matrix."""
    tied = config.bool("tie_word_embeddings", default) and any(head.name == "lm" for head in heads)
    return ((embedding, "heads.lm.out.weight"),) if tied else ()


def masked_bias(theirs: str, tied: bool) -> Rule:
    """The vocabulary's bias stands in the file twice, as one tensor if the weights are tied."""
    outer, inner = f"{theirs}bias", f"{theirs}decoder.bias"
    if tied:
        return Rule(outer, "heads.lm.out.bias", also=(inner,))
    return Rule(inner, "heads.lm.out.bias")
