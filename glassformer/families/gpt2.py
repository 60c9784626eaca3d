"""GPT-2 (Radford et al., 2019): a decoder with learned positions and the norm before each part."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families import common
from glassformer.families.config import Config
from glassformer.families.rules import TRANSPOSED, Rule

NAME = "GPT-2"
MODEL_TYPES = ("gpt2",)
CLASSES = {
    "GPT2Model": "",
    "GPT2LMHeadModel": "transformer.",
    "GPT2DoubleHeadsModel": "transformer.",
    "GPT2ForSequenceClassification": "transformer.",
    "GPT2ForTokenClassification": "transformer.",
    "GPT2ForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = {
    "reorder_and_upcast_attn": "the order of a computation whose result is the same",
    "n_ctx": "the same as n_positions",
    **{f"summary_{key}": "read by the multiple-choice head alone" for key in
       ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")},
}
DROPPED = {
    f"{{base}}h.{{i}}.{part}.{mask}": "the causal mask, which is computed"
    for part in ("attn", "crossattention")
    for mask in ("bias", "masked_bias")
}
TINY = (
    {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 160, "vocab_size": 99,
     "bos_token_id": 98, "eos_token_id": 98, "pad_token_id": 0},
    {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 144, "vocab_size": 61, "n_inner": 40,
     "activation_function": "relu", "scale_attn_by_inverse_layer_idx": True, "pad_token_id": 0,
     "bos_token_id": 3, "eos_token_id": 4, "tie_word_embeddings": False, "num_labels": 3},
    {"n_embd": 32, "n_layer": 1, "n_head": 8, "n_positions": 160, "vocab_size": 50,
     "add_cross_attention": True, "scale_attn_weights": False, "pad_token_id": 0,
     "bos_token_id": 3, "eos_token_id": 4, "summary_activation": "tanh",
     "activation_function": "gelu"},
)
PRESETS = {
    name: ("GPT2LMHeadModel", {"n_embd": width, "n_layer": layers, "n_head": heads})
    for name, width, layers, heads in (
        ("gpt2", 768, 12, 12),
        ("gpt2-medium", 1024, 24, 16),
        ("gpt2-large", 1280, 36, 20),
        ("gpt2-xl", 1600, 48, 25),
    )
}


def translate(config: Config, architecture: str) -> spec.ModelSpec:
    width = config.int("n_embd", 768)
    norm = spec.Norm(eps=config.float("layer_norm_epsilon", 1e-5))
    config.only("pruned_heads", {})
    heads = config.int("n_head", 12)
    dim = common.head_dim(config, width, heads)
    residual_dropout = config.float("resid_pdrop", 0.1)
    scale = dim**-0.5 if config.bool("scale_attn_weights", True) else 1.0
    by_layer = config.bool("scale_attn_by_inverse_layer_idx", False)
    crosses = config.bool("add_cross_attention", False)
    ffn = spec.FFN(
        width=config.int("n_inner", 4 * width),
        activation=common.activation(config, "activation_function", "gelu_new"),
    )

    def block(layer: int) -> spec.Block:
        attention = spec.Attention(
            heads=heads,
            head_dim=dim,
            scale=scale / (layer + 1) if by_layer else scale,
            dropout=config.float("attn_pdrop", 0.1),
        )
        return spec.Block(
            attention=attention,
            cross=attention if crosses else None,
            ffn=ffn,
            norm=norm,
            pattern=spec.CAUSAL,
            dropout=residual_dropout,
        )

    stack = spec.Stack(
        width=width,
        embed=spec.Embed(
            vocabulary=config.int("vocab_size", 50257),
            position=spec.Table(length=config.int("n_positions", 1024)),
            segments_are_tokens=True,
            dropout=config.float("embd_pdrop", 0.1),
        ),
        blocks=tuple(block(layer) for layer in range(config.int("n_layer", 12))),
        final_norm=norm,
    )
    chosen = own_heads(config, architecture.removeprefix("GPT2"), stack.embed.vocabulary)
    return spec.ModelSpec(
        decoder=stack,
        heads=chosen,
        tie=common.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, bos=50256, eos=50256),
        labels=common.labels(config),
        init=spec.Init(std=config.float("initializer_range", 0.02), shrink_residual=True),
    )


def own_heads(config: Config, kind: str, vocabulary: int) -> tuple[spec.Head, ...]:
    lm = common.language_model(vocabulary)
    count = len(common.labels(config))
    dropout = float(config.optional("classifier_dropout", 0.1))
    return {
        "Model": (),
        "LMHeadModel": (lm,),
        "DoubleHeadsModel": (lm, summary(config)),
        "ForSequenceClassification": (common.classify_last(count),),
        "ForTokenClassification": (common.tag(count, dropout),),
        "ForQuestionAnswering": (common.span(),),
    }[kind]


def summary(config: Config) -> spec.Head:
    """The multiple-choice head of the GPT papers, which reads the end of each rival text."""
    config.only("summary_type", "cls_index", "last", "first", "mean")
    picks = {"cls_index": "last", "last": "last", "first": "first", "mean": "mean"}
    config.only("summary_use_proj", True)
    config.only("summary_proj_to_labels", True)
    return spec.Head(
        name="choose",
        pick=picks[config.str("summary_type", "cls_index")],  # type: ignore[arg-type]
        outputs=1,
        activation="tanh" if config.optional("summary_activation") == "tanh" else "linear",
        choices=True,
        dropout=config.float("summary_first_dropout", 0.1),
    )


LAYER, OURS = "{base}h.{i}", "decoder.blocks.{i}"
HEAD_RULES = (
    Rule("lm_head", "heads.lm.out"),
    Rule("multiple_choice_head.summary", "heads.choose.out"),
    Rule("score", "heads.classify.out"),
    Rule("classifier", "heads.tag.out"),
    Rule("qa_outputs", "heads.span.out"),
)
LAYER_RULES = (
    Rule(f"{LAYER}.ln_1", f"{OURS}.attention_norm"),
    Rule(f"{LAYER}.attn.c_attn", f"{OURS}.attention.qkv", TRANSPOSED),
    Rule(f"{LAYER}.attn.c_proj", f"{OURS}.attention.out", TRANSPOSED),
    Rule(f"{LAYER}.ln_2", f"{OURS}.ffn_norm"),
    Rule(f"{LAYER}.mlp.c_fc", f"{OURS}.ffn.up", TRANSPOSED),
    Rule(f"{LAYER}.mlp.c_proj", f"{OURS}.ffn.down", TRANSPOSED),
)


def rules(model: spec.ModelSpec) -> tuple[Rule, ...]:
    return (
        Rule("{base}wte", "decoder.embed.token"),
        Rule("{base}wpe", "decoder.embed.position"),
        *LAYER_RULES,
        Rule(f"{LAYER}.ln_cross_attn", f"{OURS}.cross_norm"),
        Rule(f"{LAYER}.crossattention.q_attn", f"{OURS}.cross.q", TRANSPOSED),
        Rule(f"{LAYER}.crossattention.c_attn", f"{OURS}.cross.kv", TRANSPOSED),
        Rule(f"{LAYER}.crossattention.c_proj", f"{OURS}.cross.out", TRANSPOSED),
        Rule("{base}ln_f", "decoder.final_norm"),
        *HEAD_RULES,
    )
