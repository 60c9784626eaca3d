"""Backward pass of a logit direction through a stack that records each component's contribution."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.baselines.memory_network import MemoryNetworkHop
from glassformer.baselines.recurrent import RecurrentLayer
from glassformer.core.block import Block
from glassformer.core.embedding import Embedding
from glassformer.core.input_rules import text_ids
from glassformer.core.pass_context import count_positions
from glassformer.core.stack import Stack
from glassformer.inside.attribute.linearize import Back, exact, linear_back, linear_of, norm_of
from glassformer.inside.capture.names import names_of

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

Parts = dict[tuple[str, int | None, int | None], float]  # by kind, layer, head (or neuron)
WRITTEN = ("resid_pre", "z", "attn_out", "resid_mid", "ffn_out", "resid_post")


def needed(view: View, neurons: Collection[int] = ()) -> list[str]:
    """Returns the names of the last stack's tensors that `BackwardAttribution` reads.

    Args:
        view: The view to attribute.
        neurons: Layers whose feed-forward part is split by neuron.

    Returns:
        The names to capture.
    """
    front = f"{view.stack}."
    memory = view.model.encoder is not None
    more = [view.name(layer, "ffn_post") for layer in neurons]
    return more + [
        name
        for name in names_of(view.model.spec)
        if name.startswith(front)
        and (name in (f"{front}embed", f"{front}final") or name.split(".")[-1] in WRITTEN)
        and (memory or ".cross." not in name)
        and ".global." not in name
    ]


class BackwardAttribution:
    """Propagates a direction backward through a view's last stack at some positions.

    Directions are [row, width]. The contributions accumulate in `parts`.

    Args:
        view: The view, with the tensors of `needed` captured.
        rows: The positions.
        neurons: Layers whose feed-forward part is split by neuron.
    """

    def __init__(self, view: View, rows: Tensor, neurons: Collection[int] = ()) -> None:
        self.view, self.rows, self.neurons = view, rows, neurons
        stack = getattr(view.model, view.stack)
        assert isinstance(stack, Stack)
        self.stack = stack
        self.parts: Parts = {}

    def add(self, kind: str, layer: int | None, head: int | None, value: Tensor) -> None:
        key = (kind, layer, head)
        self.parts[key] = self.parts.get(key, 0.0) + float(value)

    def rows_of(self, depth: int | None, name: str) -> Tensor:
        """A captured tensor at the rows: [row, ...], or [head, row, dim] for per-head tensors."""
        where = "" if depth is None else f"blocks.{depth}."
        whole = self.view.cache[f"{self.view.stack}.{where}{name}"][0]
        return exact(whole[..., self.rows, :])

    def back(self, u: Tensor) -> None:
        """Propagates a direction from the last hidden state to the embedding."""
        spec, stack = self.stack.spec, self.stack
        depths = len(spec.order)
        x = self.rows_of(depths - 1, "resid_post")
        if depths == 1 and spec.convolution is not None:
            x = norm_of(stack.convolution.norm, x + self.near())[0]
        if spec.projection_width is not None:
            u, _ = linear_back(stack.project, u)
        if spec.final_norm is not None:
            u = self.through_norm("norm bias", None, stack.final_norm, x, u)
        for depth in reversed(range(depths)):
            found = self.layer(depth, u)
            if found is None:
                return
            u = found
        self.embedding(u)

    def layer(self, depth: int, u: Tensor) -> Tensor | None:
        """Returns the direction before a layer, or None if the layer has no residual connection."""
        spec, module = self.stack.spec, self.stack.blocks[self.stack.spec.order[depth]]
        post = self.rows_of(depth, "resid_post")
        if depth == 0 and spec.convolution is not None:
            near = self.near()
            u = self.through_norm("norm bias", depth, self.stack.convolution.norm, post + near, u)
            self.add("convolution", depth, None, (u * near).sum())
        if isinstance(module, Block):
            u = self.block(depth, module, u)
        elif isinstance(module, RecurrentLayer):  # no residual connection
            self.add("recurrent layer", depth, None, (u * post).sum())
            return None
        elif isinstance(module, MemoryNetworkHop):
            self.add("head", depth, 0, (u * self.rows_of(depth, "attn_out")).sum())
            if module.project is not None:
                u, _ = linear_back(module.project, u)
        else:
            pre, scale = self.rows_of(depth, "resid_pre"), float(module.spec.scale)  # type: ignore[union-attr,arg-type]
            u = u * scale
            self.add("convolution", depth, None, (u * (post / scale - pre)).sum())
        if depth and hasattr(self.stack, "tables"):
            table = self.rows_of(depth, "resid_pre") - self.rows_of(depth - 1, "resid_post")
            self.add("position", depth, None, (u * table).sum())
        elif depth > 1 or (depth and spec.convolution is None):
            self.add_edit(
                u,
                self.rows_of(depth, "resid_pre"),
                self.rows_of(depth - 1, "resid_post"),
                depth - 1,
            )
        return u

    def block(self, depth: int, block: Block, u: Tensor) -> Tensor:
        pre, mid, post = (self.rows_of(depth, f"resid_{name}") for name in ("pre", "mid", "post"))
        if block.spec.residual != "serial":
            written = self.rows_of(depth, "ffn_out")
            self.add_edit(u, post, mid + written, depth)
            self.feed_forward(depth, block, u)
            return self.attention(depth, block, pre, mid, u)
        before = mid
        if block.spec.cross is not None and f"{self.view.stack}.blocks.{depth}.cross.z" in (
            self.view.cache
        ):
            before = self.residual_after(
                depth, block, "cross", mid, self.rows_of(depth, "cross.attn_out")
            )
        u, change = self.write(depth, block, "ffn", before, self.rows_of(depth, "ffn_out"), post, u)
        self.feed_forward(depth, block, change)
        if before is not mid:
            output = self.rows_of(depth, "cross.attn_out")
            u, change = self.write(depth, block, "cross", mid, output, before, u)
            self.heads(depth, block.cross.out, "cross.", change)
        return self.attention(depth, block, pre, mid, u)

    def attention(self, depth: int, block: Block, pre: Tensor, mid: Tensor, u: Tensor) -> Tensor:
        output = self.rows_of(depth, "attn_out")
        u, change = self.write(depth, block, "attention", pre, output, mid, u)
        self.heads(depth, block.attention.out, "", change)
        return u

    def feed_forward(self, depth: int, block: Block, u: Tensor) -> None:
        whole = (u * self.rows_of(depth, "ffn_out")).sum()
        if depth not in self.neurons:
            self.add("feed-forward", depth, None, whole)
            return
        before, _ = linear_back(block.ffn.down, u)
        values = (before * self.rows_of(depth, "ffn_post")).sum(0)  # [neuron]
        for neuron, value in enumerate(values.tolist()):
            self.parts["neuron", depth, neuron] = value
        self.add("feed-forward bias", depth, None, whole - values.sum())

    def residual_after(
        self, depth: int, block: Block, part: str, x: Tensor, change: Tensor
    ) -> Tensor:
        """Recomputes the residual stream after a component.

        No hook point shows it between cross-attention and feed-forward.
        """
        if block.spec.placement == "sandwich":
            change = norm_of(getattr(block, f"{part}_norm_out"), change)[0]
        x = x + change
        return (
            norm_of(getattr(block, f"{part}_norm"), x)[0] if block.spec.placement == "post" else x
        )

    def write(
        self, depth: int, block: Block, part: str, x: Tensor, change: Tensor, out: Tensor, u: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the directions before a component's output was added.

        Returns:
            The direction of the residual stream, and that of the component's output.
        """
        self.add_edit(u, out, self.residual_after(depth, block, part, x, change), depth)
        inner = change
        if block.spec.placement == "sandwich":
            inner, _ = norm_of(getattr(block, f"{part}_norm_out"), change)
        if block.spec.placement == "post":
            u = self.through_norm("norm bias", depth, getattr(block, f"{part}_norm"), x + inner, u)
        own = u
        if block.spec.placement == "sandwich":
            norm = getattr(block, f"{part}_norm_out")
            own = self.through_norm("norm bias", depth, norm, change, u)
        return u, own

    def heads(self, depth: int, out: torch.nn.Module, scope: str, u: Tensor) -> None:
        """Records each head's contribution through its columns of the output projection.

        The remainder is that layer's bias, and what an adapter or an edit added to it.
        """
        z = self.rows_of(depth, f"{scope}z")  # [head, row, dim]
        before, _ = linear_back(out, u)
        by_head = before.view(len(u), z.shape[0], -1)
        values = torch.einsum("hrd,rhd->h", z, by_head)
        kind = "cross" if scope else "attention"
        for head, value in enumerate(values):
            self.add("cross head" if scope else "head", depth, head, value)
        rest = (u * self.rows_of(depth, f"{scope}attn_out")).sum() - values.sum()
        self.add(f"{kind} bias", depth, None, rest)

    def through_norm(
        self, kind: str, depth: int | None, norm: torch.nn.Module, x: Tensor, u: Tensor
    ) -> Tensor:
        _, back = norm_of(norm, x)
        u, constant = back(u)
        self.add(kind, depth, None, constant)
        return u

    def add_edit(self, u: Tensor, out: Tensor, computed: Tensor, depth: int) -> None:
        """Records what an edit of the residual stream itself added."""
        if self.view.edits:
            self.add("edit", depth, None, (u * (out - computed)).sum())

    def near(self) -> Tensor:
        """The output of the convolution beside the first layer."""
        embedded = self.view.cache[f"{self.view.stack}.embed"]
        convolution = self.stack.convolution
        near = convolution.activation(
            convolution.over_tokens(embedded.transpose(1, 2)).transpose(1, 2)
        )
        return exact(near[0, self.rows])

    def embedding(self, u: Tensor) -> None:
        """Records the contribution of each embedding table.

        If the tables do not reproduce the embedding output, it is recorded as one part.
        """
        embed, first = self.stack.embed, self.rows_of(None, "embed")
        self.add_edit(u, self.rows_of(0, "resid_pre"), first, 0)
        tables = self.tables(embed) if isinstance(embed, Embedding) else {}
        steps: list[Back] = []
        if tables and isinstance(embed, Embedding):
            x = torch.stack(list(tables.values())).sum(0)
            if embed.spec.norm is not None:
                x, back = norm_of(embed.norm, x)
                steps.append(back)
            if embed.spec.embedding_size is not None and embed.spec.project == "sum":
                x, back = linear_of(embed.project, x)
                steps.append(back)
            if not torch.allclose(x, first, atol=1e-4, rtol=1e-4):  # changed by an adapter or edit
                tables = {}
        if not tables:
            self.add("embedding", None, None, (u * first).sum())
            return
        for back in reversed(steps):
            u, constant = back(u)
            self.add("embedding bias", None, None, constant)
        for kind, value in tables.items():
            self.add(kind, None, None, (u * value).sum())

    def tables(self, embed: Embedding) -> dict[str, Tensor]:
        """The output of each embedding table, [row, width]; empty for bag-of-words embeddings."""
        spec, inputs = embed.spec, self.view.model_inputs.inputs
        if spec.bag is not None:
            return {}
        tokens = text_ids(inputs)
        if self.view.model.spec.shift_right and self.view.stack == "decoder":
            ids = [token.id or 0 for token in self.view.tokens]
            tokens = torch.tensor([ids], device=tokens.device)
        x = embed.token(tokens)[0, self.rows] * spec.scale
        if spec.embedding_size is not None and spec.project == "token":
            x = F.linear(x, embed.project.weight)
        found = {"token": exact(x)}
        segments = inputs.get("token_type_ids")
        if spec.segments:
            row = (
                embed.segment.weight[0]
                if segments is None
                else embed.segment(segments)[0, self.rows]
            )
            found["segment"] = exact(row.expand(len(self.rows), -1))
        if spec.position is not None:
            pad = spec.position.padding_idx
            real = None if pad is None else tokens.ne(pad)
            places = count_positions(real, tokens.shape[1], tokens.device)
            found["position"] = exact(embed.position(places)[0, self.rows])
        return found
