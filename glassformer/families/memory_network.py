"""End-to-end memory network (Sukhbaatar et al., 2015).

The model answers a question (`tokens`) about a story (`source`, [batch, sentence, word]) with one
word, in several hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from glassformer import spec
from glassformer.families._shared import common
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Memory network"
MODEL_TYPES = ("memory-network",)
CLASSES = {"MemoryNetworkModel": "", "MemoryNetworkForQuestionAnswering": "model."}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {"vocab_size": 60, "hidden_size": 16, "num_hops": 3, "memory_size": 12, "pad_token_id": 0},
    {
        "vocab_size": 50,
        "hidden_size": 20,
        "num_hops": 2,
        "memory_size": 9,
        "weight_tying": "layer-wise",
        "position_encoding": False,
        "pad_token_id": 0,
    },
    {"vocab_size": 40, "hidden_size": 12, "num_hops": 1, "memory_size": None, "pad_token_id": 3},
)
PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "memory-network": ("MemoryNetworkForQuestionAnswering", {"vocab_size": 200}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    """Builds the model; with `memory_size` null, sentences have no temporal encoding."""
    vocabulary = config.integer("vocab_size")
    bag: Literal["ordered", "plain"]
    bag = "ordered" if config.flag("position_encoding", True) else "plain"
    length = config.nullable_integer("memory_size", 50)
    config.only("weight_tying", "adjacent", "layer-wise")
    adjacent = config.word("weight_tying", "adjacent") == "adjacent"
    question = spec.TokenEmbeddingSpec(vocabulary=vocabulary, bag=bag)
    sentence = spec.TokenEmbeddingSpec(
        vocabulary=vocabulary,
        bag=bag,
        position=None if length is None else spec.PositionTableSpec(length=length),
    )
    hops = config.layers("num_hops", 3)
    answers = architecture.endswith("QuestionAnswering")
    head = spec.HeadSpec(name="answer", pooling="first", num_outputs=vocabulary, bias="none")
    return spec.ModelSpec(
        encoder=spec.StackSpec(
            width=config.integer("hidden_size", 50),
            embed=question,
            blocks=(spec.MemoryHopSpec(memory=sentence, project=not adjacent),) * hops,
        ),
        heads=(head,) if answers else (),
        tied_weights=tuple(ties(hops, adjacent, timed=length is not None, answers=answers)),
        tokens=common.special_tokens(config, pad=0),
        init=spec.InitSpec(std=config.number("initializer_range", 0.1, least=0)),
    )


def ties(hops: int, adjacent: bool, timed: bool, answers: bool) -> Iterator[tuple[str, str]]:
    """Yields the tied weights.

    Adjacent: a hop's values are the next hop's keys, the question embedding is the first hop's key
    table, and the answer matrix the last hop's value table. Layer-wise: all hops share their
    weights.
    """
    tables = ("token", "position") if timed else ("token",)
    for hop in range(1, hops):
        here, before = (f"encoder.blocks.{i}." for i in (hop, hop - 1))
        for table in tables:
            if adjacent:
                yield f"{before}value.{table}.weight", f"{here}key.{table}.weight"
            else:
                yield f"encoder.blocks.0.key.{table}.weight", f"{here}key.{table}.weight"
                yield f"encoder.blocks.0.value.{table}.weight", f"{here}value.{table}.weight"
        if not adjacent:
            yield "encoder.blocks.0.project.weight", f"{here}project.weight"
    if adjacent:
        yield "encoder.embed.token.weight", "encoder.blocks.0.key.token.weight"
        if answers:
            yield f"encoder.blocks.{hops - 1}.value.token.weight", "heads.answer.out.weight"


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}hops.{i}.", "encoder.blocks.{i}."
    return (
        WeightRule("{base}question", "encoder.embed.token"),
        *(
            WeightRule(f"{hf}{side}_{name}", f"{local}{side}.{table}")
            for side in ("key", "value")
            for name, table in (("words", "token"), ("times", "position"))
        ),
        WeightRule(f"{hf}state", f"{local}project"),
        WeightRule("answer", "heads.answer.out"),
    )
