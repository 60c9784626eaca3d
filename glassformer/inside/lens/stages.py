"""The stages of a lens (residual streams by name), and the head that decodes them."""

from __future__ import annotations

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.names import names_of
from glassformer.spec import HeadSpec, ModelSpec, head_among
from glassformer.tasks.model_protocol import TaskModel

STAGES = {"embed": "embedding", "resid_mid": "attention", "resid_post": "feed-forward"}


def stage_names(spec: ModelSpec) -> list[str]:
    """Returns the names of the residual streams that can be decoded.

    In baseline models, some streams have another width than the last and are left out.
    """
    stack, front = spec.last_stack, "encoder." if spec.decoder is None else "decoder."
    widths = {f"{front}embed": stack.width}
    for depth, width in enumerate(stack.widths[1:]):
        widths[f"{front}blocks.{depth}.resid_mid"] = stack.widths[depth]
        widths[f"{front}blocks.{depth}.resid_post"] = width
    known = names_of(spec)
    return [name for name, width in widths.items() if name in known and width == stack.widths[-1]]


def stage_at(spec: ModelSpec, layer: int | None, part: str = "resid_post") -> str:
    """Returns the stage after a layer; `layer` None is the embedding.

    `part` "resid_mid" is the stage after the layer's attention.
    """
    stages = stage_names(spec)
    front = stages[0].partition(".")[0]
    name = f"{front}.embed" if layer is None else f"{front}.blocks.{layer}.{part}"
    if name not in stages:
        raise ConfigError(f"There is no stage {name!r}; stages are {', '.join(stages)}.")
    return name


def stage_of(name: str) -> tuple[int | None, str]:
    """Returns the layer of a stage, and the component before it."""
    parts = name.split(".")
    return int(parts[2]) if parts[1] == "blocks" else None, STAGES[parts[-1]]


def stage_label(name: str) -> str:
    layer, part = stage_of(name)
    return part if layer is None else f"{layer} {part}"


def language_head(model: TaskModel, name: str | None = None) -> HeadSpec:
    """Returns the named (by default the first) head that predicts a token or tag per position."""
    each = [
        h for h in model.spec.heads if h.pooling == "each" and not (h.auxiliary or h.pixel_shuffle)
    ]
    each = [head for head in each if (head.num_outputs or 1) > 1]
    if not each:
        raise UnsupportedError(
            f"{model.architecture} has no language modeling head, so there is no lens; attention, "
            "residuals, rollout, edits and (with another head) attributions work without one."
        )
    return head_among(each, name, " that reads every position")
