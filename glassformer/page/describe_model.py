"""Description of a model's structure for the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from glassformer.errors import GlassformerError
from glassformer.families.native import names_in_file
from glassformer.inside.attribute.occlusion import proposing_head
from glassformer.inside.attribute.predictions import (
    Predicts,
    output_names,
    predicting_heads,
    predicts,
)
from glassformer.inside.capture.model_inputs import start_token
from glassformer.page.model_description import (
    AttentionDescription,
    HeadDescription,
    LayerDescription,
    LayerKind,
    MaskToken,
    ModelKind,
    NormDescription,
    OutputDescription,
    PatternDescription,
    PredictionKind,
    StackDescription,
    StackDescriptions,
    StructureResponse,
)
from glassformer.page.request_types import AttentionType
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
from glassformer.tasks.heads import kind_of
from glassformer.tasks.model_protocol import TaskModel
from glassformer.weights.quantization import count_parameters

LAYER_KINDS: dict[type[LayerSpec], LayerKind] = {
    RecurrentSpec: "recurrent",
    ConvolutionalSpec: "convolutional",
    MemoryHopSpec: "hop",
}


def model_kind(spec: ModelSpec) -> ModelKind:
    """Returns "encoder", "decoder" or "encoder-decoder"."""
    if spec.encoder is None:
        return "decoder"
    return "encoder" if spec.decoder is None else "encoder-decoder"


def structure(id: str, model: TaskModel, tuned: str | None) -> StructureResponse:
    """Describes the structure of a model.

    Args:
        id: The id of the model.
        model: The model.
        tuned: The head that its tuned lens is for.

    Returns:
        The description.
    """
    spec = model.spec
    stacks: StackDescriptions = {}
    if spec.encoder is not None:
        stacks["encoder"] = describe_stack(spec.encoder)
    if spec.decoder is not None:
        stacks["decoder"] = describe_stack(spec.decoder)
    heads: list[str | None] = [head.name for head in predicting_heads(model)]
    return {
        "model": id,
        "kind": model_kind(spec),
        "architecture": model.architecture,
        "parameters": count_parameters(model),
        "reads": {
            "pair": reads_pairs(model),
            "target": len(stacks) == 2 and not spec.shift_right,
            "empty": reads_nothing(model),
        },
        "attention_types": attention_types(spec),
        "stacks": stacks,
        "last": "encoder" if spec.decoder is None else "decoder",
        "heads": [describe_head(model, head) for head in spec.heads],
        "outputs": [describe_output(model, name, tuned) for name in heads or [None]],
        "tie": list(spec.tied_weights),
    }


def prediction_kind(what: str) -> PredictionKind:
    """Returns the kind of a prediction with its literal type."""
    return cast(PredictionKind, what)


def describe_output(model: TaskModel, head: str | None, tuned: str | None) -> OutputDescription:
    """Describes what the page can show for a head; `head` is None if no head predicts anything."""
    predicted, why = prediction_of(model, head)
    what = None if predicted is None else prediction_kind(predicted.what)
    return {
        "head": head,
        "predicts": {
            "what": what,
            "why": why,
            "labels": list(predicted.labels) if predicted else [],
            "several": bool(predicted and predicted.several),
            "number": bool(predicted and predicted.number),
            "ends": (predicted.head.num_outputs or 0) if predicted and what == "span" else 0,
            "lens": bool(predicted and predicted.lens),
        },
        "tuned": bool(predicted and predicted.lens and head == tuned),
        "writes": what == "next" and model.tokenizer is not None,
        "mask": mask_of(model) if what == "masked" else None,
        "proposes": proposing_head(model, head) is not None,
    }


def prediction_of(model: TaskModel, head: str | None) -> tuple[Predicts | None, str | None]:
    """Returns what the head predicts, or the reason why it predicts nothing."""
    try:
        return predicts(model, head), None
    except GlassformerError as error:
        return None, str(error)


def attention_types(spec: ModelSpec) -> list[AttentionType]:
    """Returns the kinds of attention of a model: "encoder", "decoder", "cross"."""
    found: list[AttentionType] = []
    if spec.encoder is not None and spec.encoder.attention_blocks:
        found.append("encoder")
    if spec.decoder is not None and spec.decoder.attention_blocks:
        found.append("decoder")
    if spec.decoder is not None and any(b.cross for b in spec.decoder.attention_blocks):
        found.append("cross")
    return found


def reads_pairs(model: TaskModel) -> bool:
    """Whether the model can distinguish a second sentence from the first."""
    stack = model.spec.encoder or model.spec.last_stack
    return stack.embed.segments > 1 or stack.scores_segments or _frames_pairs(model)


def reads_nothing(model: TaskModel) -> bool:
    """Whether the model can read its start token alone."""
    return model.spec.encoder is None and start_token(model) is not None


def _frames_pairs(model: TaskModel) -> bool:
    """Whether an encoder without segments distinguishes sentences by separators between them."""
    if model.spec.encoder is None or model.spec.decoder is not None or model.tokenizer is None:
        return False
    return any(model.tokenizer.encode("a", "b").special_mask[1:-1])


def mask_of(model: TaskModel) -> MaskToken | None:
    tokenizer = model.tokenizer
    if tokenizer is None or "mask" not in tokenizer.special:
        return None
    token = tokenizer.special["mask"]
    return {"token": token, "text": tokenizer.token(token)}


def describe_stack(stack: StackSpec) -> StackDescription:
    embed, table = stack.embed, stack.embed.position
    words = embed if isinstance(embed, TokenEmbeddingSpec) else None
    return {
        "width": stack.width,
        "vocabulary": embed.vocabulary,
        "context": stack.context_length,
        "reads": "text" if words else "sound" if isinstance(embed, AudioFramesSpec) else "images",
        "embed": {
            "scale": words.scale if words else 1.0,
            "position": describe_position(table),
            "segments": embed.segments,
            "norm": describe_norm(words.norm if words else None),
            "factor": words.embedding_size if words else None,
        },
        "layers": [describe_layer(stack.blocks[index], index) for index in stack.order],
        "final_norm": describe_norm(stack.final_norm),
    }


def describe_layer(layer: LayerSpec, index: int) -> LayerDescription:
    if not isinstance(layer, BlockSpec):
        return {
            "block": index,
            "kind": LAYER_KINDS[type(layer)],
            "attention": None,
            "cross": None,
            "ffn": None,
            "norm": None,
            "placement": None,
            "residual": None,
            "position": None,
            "pattern": None,
        }
    ffn = layer.ffn
    return {
        "block": index,
        "kind": "attention",
        "attention": describe_attention(layer.attention),
        "cross": describe_attention(layer.cross),
        "ffn": {"width": ffn.width, "activation": ffn.activation, "gated": ffn.gated},
        "norm": describe_norm(layer.norm),
        "placement": layer.placement,
        "residual": layer.residual,
        "position": describe_position(layer.position),
        "pattern": describe_pattern(layer.pattern),
    }


def describe_attention(spec: AttentionSpec | None) -> AttentionDescription | None:
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


def describe_norm(norm: NormSpec | None) -> NormDescription | None:
    return None if norm is None else {"kind": norm.kind, "eps": norm.eps, "bias": norm.bias}


def describe_position(
    position: PositionSpec | PositionTableSpec | None,
) -> dict[str, Any] | None:
    if position is None:
        return None
    if isinstance(position, PositionTableSpec):
        kind = "learned" if position.layout == "learned" else "sinusoid"
    else:
        kind = position.name
    return {"kind": kind, **_page_fields(position)}


def _page_fields(part: PositionSpec | PositionTableSpec) -> dict[str, Any]:
    """Returns the fields of a spec under the names that the page knows, those of config.json."""
    names = names_in_file(type(part))
    return {names[field]: value for field, value in asdict(part).items()}


def describe_pattern(pattern: AttentionPattern | BlockSparsePattern) -> PatternDescription:
    if isinstance(pattern, BlockSparsePattern):
        return {
            "kind": "blocks",
            "left": None,
            "right": None,
            "dilation": 1,
            "block": pattern.block_size,
            "random": pattern.num_random_blocks,
            "whole": pattern.full_attention_length,
        }
    plain = pattern.left is None and pattern.dilation == 1 and pattern.block is None
    return {
        "kind": "window" if not plain else "full" if pattern.right is None else "causal",
        "left": pattern.left,
        "right": pattern.right,
        "dilation": pattern.dilation,
        "block": pattern.block,
        "random": None,
        "whole": None,
    }


def describe_head(model: TaskModel, head: HeadSpec) -> HeadDescription:
    kind = kind_of(head, model.spec)
    labels = list(output_names(model, head)) if kind in ("classify", "tag") else []
    return {"name": head.name, "kind": kind, "outputs": head.num_outputs, "labels": labels}
