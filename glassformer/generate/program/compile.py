"""Compiles the spec of a model into the program of its decoder step."""

from __future__ import annotations

from typing import Any

from glassformer.generate.program.fields import consuming, unsupported
from glassformer.generate.program.ops import (
    AttendOp,
    EmbedOp,
    KeyValueShape,
    LinearOp,
    NormOp,
    Operation,
    Rows,
    StepProgram,
    WriteKeysOp,
)
from glassformer.spec import (
    AlibiSpec,
    AttentionPattern,
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    HeadSpec,
    ModelSpec,
    NormSpec,
    PositionSpec,
    RotarySpec,
    StackSpec,
    T5BiasSpec,
    TokenEmbeddingSpec,
)


def compile_program(spec: ModelSpec) -> StepProgram:
    """Returns the program of a model's decoder step.

    Args:
        spec: The model.

    Returns:
        The program, whose last operation writes the logits.

    Raises:
        UnsupportedError: The model has a part that no program expresses; `field` names it.
    """
    return _Compiler().program(spec)


class _Compiler:
    """Appends the operations of one part after another."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.buffers: dict[str, int] = {}
        self.self_attention: list[KeyValueShape] = []
        self.cross_attention: list[KeyValueShape] = []
        self.uncounted_token: int | None = None
        self.uncounted_position = 0
        self.reads_source = False  # else cross-attention has nothing to read and is left out

    def program(self, spec: ModelSpec) -> StepProgram:
        # modules run the encoder; the ties and the first weights are no part of a computation
        without_effect = (
            *("heads", "tied_weights", "optional_ties", "tokens", "labels", "init"),
            *("shift_right", "decoder_start"),  # of inputs that a head reads
        )
        with consuming(spec, "model", *without_effect) as model:
            head = model.lm_head
            if model.decoder is None:
                raise unsupported("model.decoder", None)
            if head is None:
                raise unsupported("model.heads", None)
            self.reads_source = model.encoder is not None
            self.stack(model.decoder, head)
        return StepProgram(
            operations=tuple(self.operations),
            buffers=self.buffers,
            self_attention=tuple(self.self_attention),
            cross_attention=tuple(self.cross_attention),
            uncounted_token=self.uncounted_token,
            uncounted_position=self.uncounted_position,
        )

    def stack(self, spec: StackSpec, head: HeadSpec) -> None:
        with consuming(spec, "decoder", "dropout", "layer_dropout") as stack:
            if not isinstance(stack.embed, TokenEmbeddingSpec):
                raise unsupported("decoder.embed", stack.embed)
            self.buffer("x", stack.width)
            every_layer = self.embedding(stack.embed, stack.width)
            for depth, index in enumerate(stack.order):
                if every_layer and depth > 0:
                    self.add(EmbedOp(target="x", positions=f"decoder.tables.{depth - 1}"))
                layer = stack.blocks[index]
                if not isinstance(layer, BlockSpec):
                    raise unsupported(f"decoder.blocks.{index}", layer)
                self.block(layer, f"decoder.blocks.{index}", depth, index, stack.width)
            norm = None
            if stack.final_norm is not None:
                norm = self.norm(stack.final_norm, "decoder.final_norm")
            source, width = "x", stack.width
            if stack.projection_width is not None:
                self.linear("decoder.project", source, "projected", stack.projection_width, norm)
                source, width, norm = "projected", stack.projection_width, None
            self.head(head, source, width, norm)

    def embedding(self, spec: TokenEmbeddingSpec, width: int) -> bool:
        """Returns whether every layer has a table of positions."""
        without_effect = (
            *("vocabulary", "dropout", "word_dropout"),
            *("segments_are_tokens", "languages", "has_query_stream"),  # ids that no step gives
            "zero_padding",  # no step reads padding
        )
        with consuming(spec, "decoder.embed", *without_effect) as embed:
            path, every_layer = "decoder.embed", False
            positions = segments = None
            if embed.position is not None:
                with consuming(embed.position, f"{path}.position", "length", "layout") as table:
                    self.uncounted_token, every_layer = table.padding_idx, table.every_layer
                    self.uncounted_position = max(-1, -table.offset)  # the row before the first
                positions = f"{path}.position"
            if embed.segments:
                segments = f"{path}.segment"
            first, narrow, project = "x", embed.embedding_size, embed.project
            if narrow is not None:
                first = self.buffer("embedding", narrow)
            token = f"{path}.token"
            if narrow is None or project == "sum":
                of_token: dict[str, Any] = {"table": token, "scale": embed.scale}
            else:
                self.add(EmbedOp(target=first, table=token, scale=embed.scale))
                self.linear(f"{path}.project", first, "x", width)
                first, of_token = "x", {}
            self.add(EmbedOp(target=first, segments=segments, positions=positions, **of_token))
            if embed.norm is not None:
                norm = self.norm(embed.norm, f"{path}.norm")
                self.add(NormOp(norm=norm, source=first, target=first))
            if first != "x":
                self.linear(f"{path}.project", first, "x", width)
        return every_layer

    def block(self, spec: BlockSpec, path: str, depth: int, index: int, width: int) -> None:
        with consuming(spec, path, "dropout") as block:
            post = block.placement == "post"
            self.norm(block.norm, f"{path}.norm")
            normed = block.attention_normed
            attention_norm = f"{path}.attention_norm" if normed else None
            before = None if post else attention_norm
            self.attention(block.attention, block, path, depth, index, before)
            if block.residual != "serial":
                shared = block.residual == "parallel_shared_norm"
                self.buffer("both", width)
                self.linear(f"{path}.attention.out", "attended", "both", width, add="x")
                ffn_norm = attention_norm if shared else f"{path}.ffn_norm"
                self.feed_forward_in(block.ffn, path, ffn_norm)
                self.linear(f"{path}.ffn.down", "hidden", "x", width, add="both")
                return
            self.residual(f"{path}.attention.out", "attended", path, "attention", spec, width)
            if block.cross is not None and self.reads_source:
                before = None if post else f"{path}.cross_norm"
                self.cross(block.cross, path, depth, index, before)
                self.residual(f"{path}.cross.out", "attended", path, "cross", spec, width)
            self.feed_forward_in(block.ffn, path, None if post else f"{path}.ffn_norm")
            self.residual(f"{path}.ffn.down", "hidden", path, "ffn", spec, width)

    def residual(
        self, layer: str, source: str, path: str, part: str, spec: BlockSpec, width: int
    ) -> None:
        """Adds the output of a part to the residual stream, with the norm that may follow."""
        if spec.placement == "sandwich":
            self.linear(layer, source, "part", width)
            self.add(NormOp(norm=f"{path}.{part}_norm_out", source="part", target="x", adds=True))
            return
        self.linear(layer, source, "x", width, add="x")
        if spec.placement == "post" and (part != "attention" or spec.attention_normed):
            self.add(NormOp(norm=f"{path}.{part}_norm", source="x", target="x"))

    def attention(
        self,
        spec: AttentionSpec,
        block: BlockSpec,
        path: str,
        depth: int,
        index: int,
        norm: str | None,
    ) -> None:
        pattern = block.pattern
        if not isinstance(pattern, AttentionPattern):
            raise unsupported(f"{path}.pattern", pattern)
        position = self.position(block.position, path)
        with consuming(pattern, f"{path}.pattern") as seen:
            if seen.right != 0:
                raise unsupported(f"{path}.pattern.right", seen.right)
            left, dilation, window_block = seen.left, seen.dilation, seen.block
        shape, scale, softcap, query_norm, key_norm = self.heads(spec, f"{path}.attention")
        self.self_attention.append(shape)
        width = (spec.heads + 2 * shape.heads) * spec.head_dim
        self.linear(f"{path}.attention.qkv", "x", "qkv", width, norm)
        rotary, bias = (position, None) if isinstance(position, RotarySpec) else (None, position)
        self.add(
            WriteKeysOp(
                depth=depth,
                block=index,
                source="qkv",
                heads=spec.heads,
                shape=shape,
                query_norm=query_norm,
                key_norm=key_norm,
                position=rotary,
            )
        )
        self.add(
            AttendOp(
                depth=depth,
                block=index,
                source="qkv",
                target=self.buffer("attended", spec.heads * spec.head_dim),
                heads=spec.heads,
                shape=shape,
                scale=scale,
                softcap=softcap,
                left=left,
                dilation=dilation,
                window_block=window_block,
                position=bias,
            )
        )

    def cross(
        self, spec: AttentionSpec, path: str, depth: int, index: int, norm: str | None
    ) -> None:
        shape, scale, softcap, query_norm, _ = self.heads(spec, f"{path}.cross")
        self.cross_attention.append(shape)
        width = spec.heads * spec.head_dim
        self.linear(f"{path}.cross.q", "x", "cross_query", width, norm)
        of_layer: dict[str, Any] = {
            "depth": depth,
            "block": index,
            "source": "cross_query",
            "heads": spec.heads,
            "shape": shape,
            "cross": True,
        }
        if query_norm is not None:
            self.add(WriteKeysOp(**of_layer, query_norm=query_norm))
        target = self.buffer("attended", width)
        self.add(AttendOp(**of_layer, target=target, scale=scale, softcap=softcap))

    def heads(
        self, spec: AttentionSpec, path: str
    ) -> tuple[KeyValueShape, float, float | None, str | None, str | None]:
        """Returns shape of keys, scale, softcap, and the norms of queries and of keys."""
        biases = "bias", "key_bias", "out_bias"  # the linear layers have them
        with consuming(spec, path, "dropout", *biases) as attention:
            heads, kv_heads, head_dim = attention.heads, attention.kv_heads, attention.head_dim
            shape = KeyValueShape(heads=heads if kv_heads is None else kv_heads, head_dim=head_dim)
            scale = head_dim**-0.5 if attention.scale is None else attention.scale
            norms: tuple[str | None, str | None] = None, None
            if attention.qk_norm is not None:
                self.norm(attention.qk_norm, f"{path}.q_norm")
                norms = f"{path}.q_norm", f"{path}.k_norm"
            return shape, scale, attention.softcap, *norms

    def position(
        self, spec: PositionSpec | None, path: str
    ) -> RotarySpec | T5BiasSpec | AlibiSpec | None:
        if spec is None:
            return None
        if not isinstance(spec, RotarySpec | T5BiasSpec | AlibiSpec):
            raise unsupported(f"{path}.position", spec)
        # the module has its numbers
        angles = "dim", "theta", "pairing", "scaling", "length"
        buckets = "num_buckets", "max_distance", "bidirectional"
        with consuming(spec, f"{path}.position", *angles, *buckets):
            return spec

    def feed_forward_in(self, spec: FeedForwardSpec, path: str, norm: str | None) -> None:
        with consuming(spec, f"{path}.ffn", "bias", "dropout") as ffn:
            gated, activation = ffn.gated, ffn.activation
            self.linear(
                f"{path}.ffn.up", "x", "hidden", ffn.width, norm, activation=activation, gated=gated
            )

    def head(self, spec: HeadSpec, source: str, width: int, norm: str | None) -> None:
        """Appends the head; its first operation selects the rows."""
        without_effect = "name", "bias", "loss_weight", "dropout_in", "dropout"
        path = f"heads.{spec.name}"
        rows: Rows = "select"
        with consuming(spec, path, *without_effect) as head:
            if head.norm is not None:
                if norm is not None:
                    target = self.buffer("normed", width)
                    self.add(NormOp(norm=norm, source=source, target=target, rows=rows))
                    source, rows = target, "selected"
                norm = self.norm(head.norm, f"{path}.norm")
            scale = head.scale
            if head.transform is not None:
                with consuming(head.transform, f"{path}.transform", "bias") as transform:
                    layer, width = f"{path}.transform.dense", transform.width
                    activation = transform.activation
                    after = transform.norm
                self.linear(
                    layer, source, "transformed", width, norm, rows, scale, activation=activation
                )
                source, rows, scale, norm = "transformed", "selected", 1.0, None
                if after is not None:
                    norm = self.norm(after, f"{path}.transform.norm")
            assert head.num_outputs is not None
            self.linear(
                f"{path}.out",
                source,
                "logits",
                head.num_outputs,
                norm,
                rows,
                scale,
                softcap=head.softcap,
            )

    def norm(self, spec: NormSpec, path: str) -> str:
        """Returns the path of a norm, whose numbers the module holds."""
        with consuming(spec, path, "eps", "bias", "unit_offset") as norm:
            if norm.kind == "batch":
                raise unsupported(f"{path}.kind", norm.kind)
        return path

    def linear(
        self,
        layer: str,
        source: str,
        target: str,
        width: int,
        norm: str | None = None,
        rows: Rows = "all",
        scale: float = 1.0,
        **options: Any,
    ) -> None:
        self.buffer(target, width)
        self.add(
            LinearOp(
                layer=layer,
                source=source,
                target=target,
                norm=norm,
                rows=rows,
                scale=scale,
                **options,
            )
        )

    def buffer(self, name: str, width: int) -> str:
        """Returns the name of a buffer, which is as wide as the widest use of it."""
        self.buffers[name] = max(width, self.buffers.get(name, 0))
        return name

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
