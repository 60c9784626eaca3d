"""The sequence of computation steps from a text to a prediction, through one layer and head.

Each step names the tensor to display and the facts its formula needs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.capture.names import Axes
from glassformer.inside.explain.recompute import Layer, has_cross, layer_of, rotary_of
from glassformer.spec import AttentionSpec, NormSpec, StackSpec, TokenEmbeddingSpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

STREAM: Axes = ("position", "width")
ROWS: Axes = ("head", "position", "dim")
KEYS: Axes = ("key head", "key", "dim")
SQUARE: Axes = ("head", "query", "key")
NEURONS: Axes = ("position", "neuron")
NARROW = ("embed_token", "embed_position", "embed_type", "embed", "embed_norm")  # at table width


@dataclass(frozen=True)
class ExplanationStep:
    """One computation step.

    `array` is the tensor's name for `recompute.array`, None if there is nothing to display;
    `origin` holds the ids of the steps that it is computed from.
    """

    id: str
    kind: str
    stack: str
    layer: int | None
    array: str | None
    axes: Axes
    shape: tuple[int, ...]
    origin: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)


class Steps:
    """Collects steps; each follows the previous one unless its origin is given."""

    def __init__(self, view: View, stack: str, depth: int, head: int) -> None:
        self.view, self.stack, self.depth, self.head = view, stack, depth, head
        spec = getattr(view.model.spec, stack)
        if not isinstance(spec, StackSpec):
            raise UnsupportedError(f"{view.model.architecture} has no {stack}.")
        self.spec = spec
        check_index(depth, len(spec.order), f"layer of the {stack}")
        at = layer_of(view, stack, depth)
        if at is None:
            raise ConfigError(f"Layer {depth} of the {stack} has no attention.")
        self.at: Layer = at
        check_index(head, at.block.spec.attention.heads, "head")
        self.weights = f"{stack}.blocks.{spec.order[depth]}."  # prefix of its parameters
        self.found: list[ExplanationStep] = []
        self.predicted: Predicted | None = None
        with suppress(GlassformerError):
            self.predicted = Predicted(view)

    def add(
        self,
        kind: str,
        array: str | None,
        axes: Axes = (),
        *,
        of: tuple[str, ...] | None = None,
        layer: bool = True,
        stack: str | None = None,
        **facts: Any,
    ) -> str:
        where = stack or self.stack
        front = f"{where}.blocks.{self.depth}." if layer else f"{where}."
        whole = array if array in (None, "logits", "probabilities") else front + str(array)
        if of is None:
            of = (self.found[-1].id,) if self.found else ()
        id = f"{where}.{kind}"
        depth = self.depth if layer else None
        step = ExplanationStep(
            id, kind, where, depth, whole, axes, self.shape(axes, kind, where), of, facts
        )
        self.found.append(step)
        return id

    def shape(self, axes: Axes, kind: str, stack: str) -> tuple[int, ...]:
        if self.predicted is not None and axes == self.predicted.axes:
            return self.predicted.shape
        block = self.at.block.spec
        cross = kind.startswith("cross_")
        attention = block.cross if cross and block.cross is not None else block.attention
        model_inputs = self.view.model_inputs
        tokens, keys = getattr(model_inputs, stack), getattr(model_inputs, stack)
        if cross:
            keys = model_inputs.encoder
        count = len(keys)
        if attention.compression_factor is not None:  # the first key alone, then groups of keys
            count = 1 + count // attention.compression_factor
        spec = getattr(self.view.model.spec, stack)
        width, embed = spec.width, spec.embed
        if kind.endswith("joined"):
            width = attention.heads * attention.head_dim
        elif (
            isinstance(embed, TokenEmbeddingSpec)
            and embed.embedding_size is not None
            and kind in NARROW
        ):
            width = embed.embedding_size if embed.project == "sum" else width
        sizes = {
            "position": len(tokens),
            "query": len(tokens),
            "key": count,
            "head": attention.heads,
            "key head": attention.key_heads,
            "dim": attention.head_dim,
            "width": width,
            "neuron": block.ffn.width,
        }
        return tuple(sizes[axis] for axis in axes)


def steps(view: View, stack: str, layer: int, head: int) -> list[ExplanationStep]:
    """Returns the steps through the embedding, one layer and the output.

    Args:
        view: The view.
        stack: "encoder" or "decoder".
        layer: The layer.
        head: The attention head.

    Returns:
        The steps in the order of computation.
    """
    way = Steps(view, stack, layer, head)
    before = _embedding(way)
    before = _attention(way, before)
    if has_cross(way.at):
        before = _cross(way, before)
    _feed_forward(way, before)
    _ending(way)
    return way.found


def _embedding(way: Steps) -> str:
    embed = way.spec.embed
    first = way.add("tokens", None, ("position",), layer=False, of=())
    if not isinstance(embed, TokenEmbeddingSpec) or embed.bag is not None:
        return way.add("embed", "embed", STREAM, layer=False)
    facts: dict[str, Any] = {
        "scale": embed.scale,
        "factor": embed.embedding_size,
        "vocabulary": embed.vocabulary,
    }
    facts |= {"weight": f"{way.stack}.embed.token.weight"} if embed.adaptive is None else {}
    parts = [way.add("embed_token", "embed.token", STREAM, layer=False, **facts)]
    if embed.position is not None:
        layout = {"layout": embed.position.layout}
        made = way.add(
            "embed_position", "embed.position", STREAM, layer=False, of=(first,), **layout
        )
        parts.append(made)
    if embed.segments:
        made = way.add("embed_type", "embed.type", STREAM, layer=False, of=(first,))
        parts.append(made)
    more = embed.norm is not None or embed.embedding_size is not None
    whole = "embed.sum" if more else "embed"
    added = way.add("embed", whole, STREAM, layer=False, of=tuple(parts), parts=len(parts))
    projects = embed.embedding_size is not None and embed.project == "sum"
    if embed.norm is not None:
        name = "embed.normed" if projects else "embed"
        added = way.add("embed_norm", name, STREAM, layer=False, **_norm(embed.norm))
    if projects:
        weight = f"{way.stack}.embed.project.weight"
        added = way.add("embed_project", "embed", STREAM, layer=False, weight=weight)
    return added


def _attention(way: Steps, before: str) -> str:
    """Adds the steps up to the residual stream after attention; returns the last step's id."""
    block = way.at.block.spec
    if way.depth:  # the output of the previous layers
        before = way.add("stream", "resid_pre", STREAM, of=(before,), layers=way.depth)
    normed = block.attention_normed and block.placement != "post"
    facts = _norm(block.norm) if normed else {"norm": None}
    read = way.add("norm", "attention_in", STREAM, of=(before,), **facts)
    predicted = _heads(way, "", "", block.attention, (read, read))
    return _written(way, "residual", "resid_mid", (before, predicted))


def _cross(way: Steps, before: str) -> str:
    block = way.at.block.spec
    assert block.cross is not None
    memory = way.add(
        "memory", "final", STREAM, layer=False, stack="encoder", of=(), tokens="encoder"
    )
    facts = _norm(block.norm) if block.placement != "post" else {"norm": None}
    read = way.add("cross_norm", "cross.in", STREAM, of=(before,), **facts)
    predicted = _heads(way, "cross_", "cross.", block.cross, (read, memory))
    return _written(way, "cross_residual", "resid_cross", (before, predicted))


def _heads(way: Steps, kind: str, scope: str, spec: AttentionSpec, read: tuple[str, str]) -> str:
    """Adds the steps from the input of attention to its output.

    `read` holds the ids of the steps that provide the inputs of the queries and of the keys.
    """
    at, head = way.at, way.head
    group = spec.heads // spec.key_heads
    shared: dict[str, Any] = {"head": head, "key_head": head // group, "dim": spec.head_dim}
    rotary = None if scope else rotary_of(at)
    q_name, k_name = (f"{scope}q", f"{scope}k") if rotary is None else ("q_raw", "k_raw")
    rows = {part: _rows(way, scope, part) for part in "qkv"}
    q = way.add(f"{kind}q", q_name, ROWS, of=(read[0],), **shared, **rows["q"])
    k = way.add(f"{kind}k", k_name, KEYS, of=(read[1],), **shared, **rows["k"])
    v = way.add(f"{kind}v", f"{scope}v", KEYS, of=(read[1],), **shared, **rows["v"])
    if rotary is not None:
        theta = rotary.theta
        q = way.add(f"{kind}rotate_q", "q", ROWS, of=(q,), theta=theta, **shared)
        k = way.add(f"{kind}rotate_k", "k", KEYS, of=(k,), theta=theta, **shared)
    if spec.score == "dot":
        scale = at.module(scope).attend.scale
        way.add(f"{kind}dot", f"{scope}dot", SQUARE, of=(q, k), **shared)
        scores = way.add(f"{kind}scale", f"{scope}scaled", SQUARE, scale=scale, **shared)
        if spec.softcap is not None:
            scores = way.add(f"{kind}cap", f"{scope}capped", SQUARE, cap=spec.softcap, **shared)
        if not scope and at.block.spec.position is not None and rotary is None:
            position = at.block.spec.position.name
            added = way.add(
                f"{kind}bias", f"{scope}bias", SQUARE, of=(), position=position, **shared
            )
            scores, added = added, scores
            way.add(f"{kind}mask", f"{scope}scores", SQUARE, of=(added, scores), **shared)
        else:
            way.add(f"{kind}mask", f"{scope}scores", SQUARE, of=(scores,), **shared)
    else:
        way.add(f"{kind}mask", f"{scope}scores", SQUARE, of=(q, k), score=spec.score, **shared)
    pattern = way.add(f"{kind}softmax", f"{scope}pattern", SQUARE, **shared)
    way.add(f"{kind}weighted", f"{scope}z", ROWS, of=(pattern, v), **shared)
    way.add(f"{kind}joined", f"{scope}joined", STREAM, heads=spec.heads, dim=spec.head_dim)
    weight = f"{way.weights}{scope or 'attention.'}out.weight"
    return way.add(
        f"{kind}projected", f"{scope}attn_out", STREAM, bias=spec.out_bias, weight=weight
    )


def _rows(way: Steps, scope: str, part: str) -> dict[str, Any]:
    """The parameter, rows and bias flag of a head's query, key or value projection."""
    spec = way.at.attention(scope)
    joined = "q" if scope and part == "q" else "kv" if scope else "qkv"
    parts = getattr(way.at.module(scope), joined).parts
    head = way.head if part == "q" else way.head // (spec.heads // spec.key_heads)
    first = sum(parts[: joined.index(part)]) + head * spec.head_dim
    name = f"{way.weights}{scope or 'attention.'}{joined}.weight"
    bias = spec.bias and (part != "k" or spec.key_bias)
    return {"weight": name, "rows": f"{first}:{first + spec.head_dim}", "bias": bias}


def _written(way: Steps, kind: str, array: str, of: tuple[str, ...]) -> str:
    """Adds the residual stream after a component, normalized if the block has norms there."""
    block = way.at.block.spec
    facts = {} if block.placement == "pre" else _norm(block.norm)
    return way.add(kind, array, STREAM, of=of, placement=block.placement, **facts)


def _feed_forward(way: Steps, before: str) -> None:
    block = way.at.block.spec
    ffn = block.ffn
    parallel = block.residual != "serial"
    norm_step = next(step for step in way.found if step.kind == "norm")
    origin = norm_step.origin if parallel else (before,)
    facts = _norm(block.norm) if block.placement != "post" else {"norm": None}
    read = way.add("norm_ffn", "ffn_in", STREAM, of=origin, residual=block.residual, **facts)
    shape: dict[str, Any] = {"activation": ffn.activation, "gated": ffn.gated, "bias": ffn.bias}
    up_weight: dict[str, Any] = {"weight": f"{way.weights}ffn.up.weight"}
    if ffn.gated:
        first, second = (f"{n * ffn.width}:{(n + 1) * ffn.width}" for n in (0, 1))
        shape |= up_weight
        gate = way.add("ffn_gate", "ffn_pre", NEURONS, of=(read,), rows=first, **shape)
        up = way.add("ffn_up", "ffn_up", NEURONS, of=(read,), rows=second, **shape)
        way.add("ffn_act", "ffn_post", NEURONS, of=(gate, up), **shape)
    else:
        way.add("ffn_up", "ffn_pre", NEURONS, **shape | up_weight)
        way.add("ffn_act", "ffn_post", NEURONS, **shape)
    shape["weight"] = f"{way.weights}ffn.down.weight"
    predicted = way.add("ffn_down", "ffn_out", STREAM, **shape)
    _written(way, "residual_ffn", "resid_post", (before, predicted))


def _ending(way: Steps) -> None:
    norm = way.spec.final_norm
    later = len(way.spec.order) - 1 - way.depth
    facts = {"norm": None} if norm is None else _norm(norm)
    way.add("norm_final", "final", STREAM, layer=False, layers=later, **facts)
    if way.stack != way.view.stack:
        return
    if way.predicted is None:
        return
    head = way.predicted.head
    head_facts: dict[str, Any] = {"scale": head.scale, "transform": head.transform is not None}
    head_facts |= {"cap": head.softcap, "pick": head.pooling}
    own = f"heads.{head.name}.out.weight"
    head_facts |= {"tied": any(own in pair for pair in way.view.model.spec.tied_weights)}
    head_facts |= {} if head.adaptive is not None else {"weight": own}
    way.add("logits", "logits", way.predicted.axes, layer=False, **head_facts)
    if way.predicted.by.number:
        return
    several = way.predicted.by.several
    way.add("probabilities", "probabilities", way.predicted.axes, layer=False, several=several)
    way.add("choice", None, layer=False)


def _norm(norm: NormSpec) -> dict[str, Any]:
    return {"norm": norm.kind, "eps": norm.eps, "norm_bias": norm.bias}
