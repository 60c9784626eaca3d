"""The rarely used inputs and settings of a forward pass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypedDict

from torch import Tensor

from glassformer.core.pass_context import TreeMask
from glassformer.core.permutation import Permutation
from glassformer.spec import HeadSpec, ModelSpec


class PassOptions(TypedDict, total=False):
    """Further keyword arguments of `Transformer.forward`.

    Attributes:
        document_ids: Document number of each token, [batch, position]. Attention stays within equal
            numbers, and positions restart in each document.
        cu_seqlens: Offsets in the flattened batch at which texts and padding begin; they must agree
            with the mask and the documents.
        encoder_attention_mask: Nonzero at real positions of `encoder_hidden_states`; for an
            encoder-decoder it defaults to `attention_mask`.
        prefix_length: [batch]: number of first tokens of a row that all its tokens attend to.
        language_ids: Language id of each token, [batch, position].
        permutation: The factorization order (XLNet). If it has targets, hidden states and logits
            are theirs.
        tree_mask: The new tokens are alternative continuations, not one text.
        global_attention_mask: Nonzero at tokens that attend to all and are attended to by all.
        bool_masked_pos: True at image patches to mask.
        memory_tokens: The word ids of a memory network's sentences, [batch, sentence, word].
        memory_tokens_mask: Nonzero at real words of `memory_tokens`.
        head_positions: [batch]: the position read by heads that read a single one.
        heads: Names of the only heads to compute.
        return_features: Each head returns the input of its output layer.
        auxiliary_heads: Also compute heads that are used only in training.
        attn_implementation: "eager" uses plain attention instead of fused kernels.
        use_cache: Creates a cache, and returns it as `past_key_values`.
    """

    document_ids: Tensor | None
    cu_seqlens: Tensor | None
    encoder_attention_mask: Tensor | None
    prefix_length: Tensor | None
    language_ids: Tensor | None
    permutation: Permutation | None
    tree_mask: TreeMask | None
    global_attention_mask: Tensor | None
    bool_masked_pos: Tensor | None
    memory_tokens: Tensor | None
    memory_tokens_mask: Tensor | None
    head_positions: Tensor | None
    heads: Collection[str] | None
    return_features: bool
    auxiliary_heads: bool
    attn_implementation: Literal["eager"] | None
    use_cache: bool


def check_options(options: PassOptions) -> None:
    """Raises a TypeError, as Python does, for a keyword argument that is no option."""
    for name in options:
        if name not in PassOptions.__annotations__:
            raise TypeError(f"forward() got an unexpected keyword argument {name!r}")


def wanted_heads(spec: ModelSpec, options: PassOptions) -> list[HeadSpec]:
    """Returns the heads that a pass computes."""
    names = options.get("heads")
    if names is not None:
        return [head for head in spec.heads if head.name in names]
    auxiliary = options.get("auxiliary_heads", False)
    return [head for head in spec.heads if auxiliary or not head.auxiliary]
