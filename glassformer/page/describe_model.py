"""Description of a model's structure for the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.families.native import names_in_file
from glassformer.inside.attribute.predicted import (
    Predicts,
    output_names,
    predicting_heads,
    predicts,
)
from glassformer.spec import (
    AttentionPattern,
    AttentionSpec,
    AudioFramesSpec,
    BlockSparsePattern,
    BlockSpec,
    ConvolutionalSpec,
    HeadSpec,
    LayerSpec,
    MemoryHopSpec,
    ModelSpec,
    NormSpec,
    PositionSpec,
    PositionTableSpec,
    RecurrentSpec,
    StackSpec,
    TokenEmbeddingSpec,
)
from glassformer.tasks.model_protocol import TaskModel, kind_of
from glassformer.weights.quantization import count_parameters

KINDS = {RecurrentSpec: "recurrent", ConvolutionalSpec: "convolutional", MemoryHopSpec: "hop"}
OF_BLOCKS = (
    "attention",
    "cross",
    "ffn",
    "norm",
    "placement",
    "residual",
    "position",
    "pattern",
)
Facts = dict[str, Any]


def model_kind(spec: ModelSpec) -> str:
    """Returns "encoder", "decoder" or "encoder-decoder"."""
    if spec.encoder is None:
        return "decoder"
    return "encoder" if spec.decoder is None else "encoder-decoder"


def structure(model: TaskModel, tuned: str | None) -> Facts:
    """Returns the structure of a model; `tuned` is the head that its tuned lens is for."""
    spec = model.spec
    stacks = {"encoder": spec.encoder, "decoder": spec.decoder}
    there = {name: stack for name, stack in stacks.items() if stack is not None}
    speaking: list[str | None] = [head.name for head in predicting_heads(model)]
    return {
        "kind": model_kind(spec),
        "architecture": model.architecture,
        "parameters": count_parameters(model.net),
        "reads": {"pair": reads_pairs(model), "target": len(there) == 2 and not spec.shift_right},
        "sights": sights(spec),
        "stacks": {name: stack_facts(stack) for name, stack in there.items()},
        "last": "encoder" if spec.decoder is None else "decoder",
        "heads": [head_facts(model, head) for head in spec.heads],
        "outputs": [output_facts(model, name, tuned) for name in speaking or [None]],
        "tie": [list(pair) for pair in spec.tied_weights],
    }


def output_facts(model: TaskModel, head: str | None, tuned: str | None) -> Facts:
    """Describes what the page can show for a head; `head` is None if no head predicts anything."""
    said, why = said_by(model, head)
    return {
        "head": head,
        "predicts": {
            "what": said and said.what,
            "why": why,
            "labels": list(said.labels) if said else [],
            "several": bool(said and said.several),
            "number": bool(said and said.number),
            "ends": (said.head.num_outputs or 0) if said and said.what == "span" else 0,
            "lens": bool(said and said.lens),
        },
        "tuned": bool(said and said.lens and head == tuned),
        "writes": bool(said and said.what == "next" and model.tokenizer is not None),
        "mask": mask_of(model) if said and said.what == "masked" else None,
    }


def said_by(model: TaskModel, head: str | None) -> tuple[Predicts | None, str | None]:
    """Returns what the head predicts, or the reason why it predicts nothing."""
    try:
        return predicts(model, head), None
    except GlassformerError as error:
        return None, str(error)


def sights(spec: ModelSpec) -> list[str]:
    """Returns the kinds of attention of a model: "encoder", "decoder", "cross"."""
    found = []
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if stack is not None and stack.attention_blocks:
            found.append(name)
    if spec.decoder is not None and any(b.cross for b in spec.decoder.attention_blocks):
        found.append("cross")
    return found


def reads_pairs(model: TaskModel) -> bool:
    """Whether the model can distinguish a second sentence from the first."""
    stack = model.spec.encoder or model.spec.last_stack
    return stack.embed.segments > 1 or stack.scores_segments or _frames_pairs(model)


def _frames_pairs(model: TaskModel) -> bool:
    """Whether an encoder without segments distinguishes sentences by separators between them."""
    if model.spec.encoder is None or model.spec.decoder is not None or model.tokenizer is None:
        return False
    return any(model.tokenizer.encode("a", "b").special_mask[1:-1])


def mask_of(model: TaskModel) -> Facts | None:
    tokenizer = model.tokenizer
    if tokenizer is None or "mask" not in tokenizer.special:
        return None
    token = tokenizer.special["mask"]
    return {"token": token, "text": tokenizer.token(token)}


def stack_facts(stack: StackSpec) -> Facts:
    embed, table = stack.embed, stack.embed.position
    words = embed if isinstance(embed, TokenEmbeddingSpec) else None
    return {
        "width": stack.width,
        "vocabulary": embed.vocabulary,
        "context": stack.context_length,
        "reads": "text" if words else "sound" if isinstance(embed, AudioFramesSpec) else "images",
        "embed": {
            "scale": words.scale if words else 1.0,
            "position": position_facts(table),
            "segments": embed.segments,
            "norm": norm_facts(words.norm if words else None),
            "factor": words.embedding_size if words else None,
        },
        "layers": [layer_facts(stack.blocks[index], index) for index in stack.order],
        "final_norm": norm_facts(stack.final_norm),
    }


def layer_facts(layer: LayerSpec, index: int) -> Facts:
    if not isinstance(layer, BlockSpec):
        return {"block": index, "kind": KINDS[type(layer)], **dict.fromkeys(OF_BLOCKS)}
    ffn = layer.ffn
    return {
        "block": index,
        "kind": "attention",
        "attention": attention_facts(layer.attention),
        "cross": attention_facts(layer.cross),
        "ffn": {"width": ffn.width, "activation": ffn.activation, "gated": ffn.gated},
        "norm": norm_facts(layer.norm),
        "placement": layer.placement,
        "residual": layer.residual,
        "position": position_facts(layer.position),
        "pattern": pattern_facts(layer.pattern),
    }


def attention_facts(spec: AttentionSpec | None) -> Facts | None:
    if spec is None:
        return None
    return {
        "heads": spec.heads,
        "key_heads": spec.key_heads,
        "head_dim": spec.head_dim,
        "scale": spec.head_dim**-0.5 if spec.scale is None else spec.scale,
        "softcap": spec.softcap,
        "qk_norm": spec.qk_norm is not None,
        "score": spec.score,
    }


def norm_facts(norm: NormSpec | None) -> Facts | None:
    return None if norm is None else {"kind": norm.kind, "eps": norm.eps, "bias": norm.bias}


def position_facts(position: PositionSpec | PositionTableSpec | None) -> Facts | None:
    if position is None:
        return None
    if isinstance(position, PositionTableSpec):
        kind = "learned" if position.layout == "learned" else "sinusoid"
    else:
        kind = position.name
    return {"kind": kind, **_wire(position)}


def pattern_facts(pattern: AttentionPattern | BlockSparsePattern) -> Facts:
    none = {
        "left": None,
        "right": None,
        "dilation": 1,
        "block": None,
        "random": None,
        "whole": None,
    }
    if isinstance(pattern, BlockSparsePattern):
        own = {
            "block": pattern.block_size,
            "random": pattern.num_random_blocks,
            "whole": pattern.full_attention_length,
        }
        return {**none, "kind": "blocks", **own}
    plain = pattern.left is None and pattern.dilation == 1 and pattern.block is None
    kind = "window" if not plain else "full" if pattern.right is None else "causal"
    return {**none, "kind": kind, **_wire(pattern)}


def _wire(part: PositionSpec | PositionTableSpec | AttentionPattern) -> Facts:
    """Returns the fields of a spec under the names that the page knows, those of config.json."""
    names = names_in_file(type(part))
    return {names[field]: value for field, value in asdict(part).items()}


def head_facts(model: TaskModel, head: HeadSpec) -> Facts:
    kind = kind_of(head, model.spec)
    labels = list(output_names(model, head)) if kind in ("classify", "tag") else []
    return {"name": head.name, "kind": kind, "outputs": head.num_outputs, "labels": labels}
