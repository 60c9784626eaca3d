"""Explanation of one number of a tensor by the numbers it was computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from glassformer.core.heads import Head
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.capture.names import full_name
from glassformer.inside.explain.recompute import (
    Layer,
    array,
    embedded,
    has_cross,
    layer_of,
    rotary_of,
)
from glassformer.inside.explain.terms import Cell, CellContext, Term
from glassformer.spec import RotarySpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

SUMS = ("embed.sum", "embed.normed")


@torch.no_grad()
def cell(
    view: View, name: str, row: int, col: int, *, head: int | None = None, limit: int = 12
) -> Cell:
    """Explains one number of a tensor.

    Args:
        view: The view.
        name: The tensor's name (see `recompute.py`).
        row: The row.
        col: The column.
        head: The head, if the tensor has a head axis. Keys shared by several heads are selected by
            the head that reads them.
        limit: The number of terms listed separately.

    Returns:
        The number with its terms.
    """
    full = name if name in ("logits", "probabilities") else full_name(view.model.spec, name)
    found = array(view, full)
    values = found.array
    if found.axes[0] in ("head", "key head"):
        if head is None:
            raise ConfigError(f"{name!r} has heads; give the index of one of them.")
        group = _group(view, full) if found.axes[0] == "key head" else 1
        check_index(head // group, len(values), "head")
        values = values[head // group]
    check_index(row, values.shape[0], "row")
    check_index(col, values.shape[1], "column")
    place = BlockCells(view, full, row, col, head or 0, limit, float(values[row, col]))
    return place.explain()


def _group(view: View, name: str) -> int:
    at = _layer(view, name)
    spec = at.attention("cross." if ".cross." in name else "")
    return spec.heads // spec.key_heads


def _layer(view: View, name: str) -> Layer:
    stack, _, rest = name.partition(".blocks.")
    at = layer_of(view, stack, int(rest.split(".")[0])) if rest else None
    if at is None:
        raise UnsupportedError(f"The computation of {name!r} cannot be explained step by step.")
    return at


class EmbeddingAndHeadCells(CellContext):
    """Explains the numbers of embeddings, the final norm and the head."""

    def embedding(self, stack: str, rest: str) -> Cell:
        sums = tables = embedded(self.view, stack)
        module = getattr(self.view.model, stack).embed
        token = getattr(self.view.model_inputs, stack)[self.row]
        tables = {name: table for name, table in tables.items() if name not in SUMS}
        if rest in tables:
            parts: dict[str, float | str] = {"token": token.text, "position": self.row}
            if rest == "embed.token":
                parts |= {"id": token.id, "scale": module.spec.scale}
            return Cell(self.value, "lookup", (), parts)
        terms = tuple(
            Term(name.removeprefix("embed."), float(table[self.row, self.col]))
            for name, table in tables.items()
            if self.col < table.shape[1]
        )
        spec = module.spec
        if rest == "embed" and tables and spec.embedding_size is not None and spec.project == "sum":
            x = sums["embed.normed" if spec.norm is not None else "embed.sum"][self.row]
            return self.dot(x, module.project.weight[self.col], "width")
        if rest == "embed.sum" or not tables or spec.norm is None:
            return Cell(self.value, "sum", terms)
        return self.normed(module.norm, sums["embed.sum"][self.row], terms)

    def final(self, stack: str) -> Cell:
        module = getattr(self.view.model, stack)
        last = len(module.spec.order) - 1
        x = array(self.view, f"{stack}.blocks.{last}.resid_post").array[self.row]
        if module.spec.final_norm is None or module.spec.projection_width is not None:
            return Cell(self.value, "sum", (Term(f"layer {last}", self.value),))
        return self.normed(module.final_norm, x, (Term("stream", float(x[self.col])),))

    def logit(self) -> Cell:
        view = self.view
        predicted = Predicted(view)
        module = view.model.heads[predicted.head.name]
        assert isinstance(module, Head)
        weight = getattr(module.out, "weight", None)
        if weight is None:
            raise UnsupportedError(
                "The adaptive softmax of this head cannot be explained step by step."
            )
        position, output = predicted.logit_place(self.row, self.col)
        hidden = array(view, f"{view.stack}.final").array[None]
        x = module.features(hidden, predicted.where())[0]
        x = x if position is None else x[position]
        return self.dot(x, weight[output], "width", cap=module.spec.softcap)

    def probability(self) -> Cell:
        predicted = Predicted(self.view)
        if predicted.by.several:
            raise UnsupportedError(
                "The probability of an independent label is e^x / (1 + e^x) of its logit x; it "
                "has no other terms."
            )
        row = predicted.logits([self.row])[0].float()
        return self.exponents(row, predicted.text)


class BlockCells(EmbeddingAndHeadCells):
    """Explains the numbers of a transformer block."""

    def explain(self) -> Cell:
        stack, _, rest = self.name.partition(".")
        if self.name in ("logits", "probabilities"):
            return self.logit() if self.name == "logits" else self.probability()
        if rest.startswith("embed"):
            return self.embedding(stack, rest)
        if rest == "final":
            return self.final(stack)
        what = rest.split(".", 2)[2]
        scope, what = ("cross.", what.removeprefix("cross.")) if "cross." in what else ("", what)
        explanations: dict[str, Callable[[Layer, str], Cell]] = {
            "resid_pre": self.stream,
            "attention_in": self.read,
            "in": self.read,
            "ffn_in": self.read,
            "q": self.projected,
            "k": self.projected,
            "v": self.projected,
            "q_raw": self.projected,
            "k_raw": self.projected,
            "dot": self.product,
            "scaled": self.scaled,
            "capped": self.capped,
            "bias": lambda at, scope: Cell(self.value, "lookup"),
            "scores": self.masked,
            "pattern": self.softmax,
            "z": self.weighted,
            "joined": self.output_projection_input,
            "attn_out": self.out,
            "resid_mid": self.residual_sum,
            "resid_cross": self.residual_sum,
            "resid_post": self.residual_sum,
            "ffn_pre": self.up,
            "ffn_up": self.up,
            "ffn_post": self.activated,
            "ffn_out": self.down,
        }
        if what not in explanations:
            raise UnsupportedError(
                f"The computation of {self.name!r} cannot be explained step by step."
            )
        return explanations[what](_layer(self.view, self.name), scope)

    def stream(self, at: Layer, scope: str) -> Cell:
        """The sum of everything written so far if there are no norms after the components."""
        module = getattr(self.view.model, at.stack)
        plain = all(block.placement == "pre" for block in module.spec.attention_blocks)
        extra = hasattr(module, "tables") or module.spec.convolution is not None
        if not plain or extra:
            return Cell(self.value, "sum", (Term(f"layer {at.depth - 1}", self.value),))
        names = [f"{at.stack}.embed"]
        for depth in range(at.depth):
            front = f"{at.stack}.blocks.{depth}."
            names.append(f"{front}attn_out")
            before = layer_of(self.view, at.stack, depth)
            if before is not None and has_cross(before):
                names.append(f"{front}cross.attn_out")
            names.append(f"{front}ffn_out")
        self.view.capture(names)
        numbers = [float(self.view.cache[name][0, self.row, self.col]) for name in names]
        labels = [name.removeprefix(f"{at.stack}.") for name in names]
        return Cell(self.value, "sum", self.largest(labels, numbers))

    def read(self, at: Layer, scope: str) -> Cell:
        part = {"attention_in": "attention", "in": "cross"}.get(self.name.split(".")[-1], "ffn")
        x = at.tap("resid_pre" if part == "attention" else "resid_mid")[0]
        spec = at.block.spec
        if part == "ffn" and has_cross(at):
            x = array(self.view, f"{at.stack}.blocks.{at.depth}.resid_cross").array
        if part == "ffn" and spec.residual != "serial":
            x = at.tap("resid_pre")[0]
            part = "ffn" if spec.residual == "parallel" else "attention"
        term = Term("stream", float(x[self.row, self.col]))
        if spec.placement == "post":
            return Cell(self.value, "sum", (term,))
        return self.normed(getattr(at.block, f"{part}_norm"), x[self.row], (term,))

    def projected(self, at: Layer, scope: str) -> Cell:
        what = self.name.split(".")[-1]
        rotary = rotary_of(at)
        if rotary is not None and what in ("q", "k") and not scope:
            return self.rotated(at, what, rotary)
        spec = at.attention(scope)
        if spec.qk_norm is not None and what[0] != "v":
            return Cell(self.value, "norm", (), {"norm": "heads"})
        front = f"{at.stack}.blocks.{at.depth}."
        number = "qkv".index(what[0])
        if scope and number:
            x, module = array(self.view, "encoder.final").array, at.block.cross.kv
            number -= 1
        elif scope:
            x, module = array(self.view, f"{front}cross.in").array, at.block.cross.q
        else:
            x, module = array(self.view, f"{front}attention_in").array, at.block.attention.qkv
        if self.row >= len(x) or spec.compression_factor is not None:
            raise UnsupportedError(
                "Compressed keys and keys of a memory cannot be explained step by step."
            )
        shared = spec.heads // spec.key_heads if what[0] != "q" else 1
        within = self.head // shared * spec.head_dim + self.col
        weight = module.weight[sum(module.parts[:number]) + within]
        return self.dot(x[self.row], weight, "width")

    def rotated(self, at: Layer, what: str, rotary: RotarySpec) -> Cell:
        front = f"{at.stack}.blocks.{at.depth}."
        raw = array(self.view, f"{front}{what}_raw").array
        spec = at.attention()
        group = spec.heads // spec.key_heads if what == "k" else 1
        x = raw[self.head // group, self.row]
        if self.col >= rotary.dim:
            return Cell(self.value, "rotate", (Term("as it is", float(x[self.col])),))
        half = rotary.dim // 2
        if rotary.pairing == "halves":
            first = self.col < half
            other = self.col + half if first else self.col - half
        else:
            first = self.col % 2 == 0
            other = self.col + 1 if first else self.col - 1
        place = getattr(self.view.model, at.stack)
        module = place.positions[place.position_of[place.spec.order[at.depth]]]
        device = x.device
        cos, sin = module.angles(torch.tensor([[self.row]], device=device), torch.float32)
        turn = float(sin[0, 0, 0, self.col]) * (-1 if first else 1)
        own, near = float(x[self.col]), float(x[other])
        cosine = float(cos[0, 0, 0, self.col])
        terms = (Term("cos", own, cosine, own * cosine), Term("sin", near, turn, near * turn))
        return Cell(self.value, "rotate", terms, {"partner": other, "position": self.row})

    def product(self, at: Layer, scope: str) -> Cell:
        q = at.tap(f"{scope}q")[0, self.head, self.row]
        k = at.module(scope).attend.repeat(at.tap(f"{scope}k"))[0, self.head, self.col]
        return self.dot(q, k, "dim")

    def scaled(self, at: Layer, scope: str) -> Cell:
        scale = at.module(scope).attend.scale
        before = self.square(at, f"{scope}dot")
        return Cell(self.value, "scale", (Term("dot", before, scale, before * scale),))

    def capped(self, at: Layer, scope: str) -> Cell:
        cap = at.attention(scope).softcap
        term = Term("scaled", self.square(at, f"{scope}scaled"))
        return Cell(self.value, "cap", (term,), {} if cap is None else {"cap": cap})

    def masked(self, at: Layer, scope: str) -> Cell:
        if at.attention(scope).score != "dot":
            return Cell(self.value, "mask", (), {"score": "additive"})
        hidden = self.square(at, f"{scope}mask")
        terms = (
            Term("scaled", self.square(at, f"{scope}capped")),
            Term("bias", self.square(at, f"{scope}bias")),
        )
        return Cell(self.value, "mask", terms, {"hidden": hidden})

    def softmax(self, at: Layer, scope: str) -> Cell:
        return self.exponents(
            at.tap(f"{scope}scores")[0, self.head, self.row].float(), self.key(scope)
        )

    def weighted(self, at: Layer, scope: str) -> Cell:
        pattern = at.tap(f"{scope}pattern")[0, self.head, self.row]
        v = at.module(scope).attend.repeat(at.tap(f"{scope}v"))[0, self.head, :, self.col]
        return self.dot(pattern, v, self.key(scope), how="weighted")

    def output_projection_input(self, at: Layer, scope: str) -> Cell:
        size = at.attention(scope).head_dim
        head, dim = divmod(self.col, size)
        return Cell(self.value, "join", (), {"head": head, "dim": dim})

    def out(self, at: Layer, scope: str) -> Cell:
        x = array(self.view, f"{at.stack}.blocks.{at.depth}.{scope}joined").array[self.row]
        return self.dot(x, at.module(scope).out.weight[self.col], "width")

    def residual_sum(self, at: Layer, scope: str) -> Cell:
        """The residual stream after a component's output was added."""
        end = self.name.split("_")[-1]
        part, name, before = {
            "mid": ("attention", "attn_out", "resid_pre"),
            "cross": ("cross", "cross.attn_out", "resid_mid"),
            "post": ("ffn", "ffn_out", "resid_cross" if has_cross(at) else "resid_mid"),
        }[end]
        x = array(self.view, f"{at.stack}.blocks.{at.depth}.{before}").array[self.row]
        output = at.tap(name)[0, self.row]
        if at.block.spec.placement == "sandwich":
            output = getattr(at.block, f"{part}_norm_out")(output)
        terms = (Term("stream", float(x[self.col])), Term(name, float(output[self.col])))
        if at.block.spec.placement != "post":
            return Cell(self.value, "sum", terms)
        return self.normed(getattr(at.block, f"{part}_norm"), x + output, terms)

    def up(self, at: Layer, scope: str) -> Cell:
        ffn = at.block.ffn
        x = array(self.view, f"{at.stack}.blocks.{at.depth}.ffn_in").array[self.row]
        second = self.name.endswith("ffn_up") and ffn.spec.gated
        return self.dot(x, ffn.up.weight[self.col + (ffn.spec.width if second else 0)], "width")

    def activated(self, at: Layer, scope: str) -> Cell:
        ffn = at.block.ffn
        x = at.tap("ffn_pre")[0, self.row, self.col]
        facts: dict[str, float | str] = {"activation": ffn.spec.activation, "x": float(x)}
        if not ffn.spec.gated:
            return Cell(self.value, "activation", (Term("x", float(x)),), facts)
        gate = float(ffn.activation(x))
        front = f"{at.stack}.blocks.{at.depth}."
        up = float(array(self.view, f"{front}ffn_up").array[self.row, self.col])
        return Cell(self.value, "product", (Term("gate", gate, up, gate * up),), facts)

    def down(self, at: Layer, scope: str) -> Cell:
        x = at.tap("ffn_post")[0, self.row]
        return self.dot(x, at.block.ffn.down.weight[self.col], "neuron")

    def square(self, at: Layer, what: str) -> float:
        found = array(self.view, f"{at.stack}.blocks.{at.depth}.{what}")
        return float(found.array[self.head, self.row, self.col])

    def key(self, scope: str) -> Callable[[int], str]:
        stack = "encoder" if scope else self.name.partition(".")[0]
        tokens = getattr(self.view.model_inputs, stack)
        return lambda place: tokens[place].text if place < len(tokens) else str(place)
