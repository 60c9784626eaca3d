"""XLNet (Yang et al., 2019): Transformer-XL's attention in both directions.

It is trained to predict tokens in any order, with a second stream that knows a token's position but
not its content.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families import electra
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import SINGLE, PerHeadQKV, WeightRule

NAME = "XLNet"
MODEL_TYPES = ("xlnet",)
HEADS = (
    "LMHeadModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForMultipleChoice",
    "ForQuestionAnsweringSimple",
    "ForQuestionAnswering",
)
CLASSES = {"XLNetModel": "", **{f"XLNet{head}": "transformer." for head in HEADS}}
IGNORED = {
    **dict.fromkeys(("use_mems_eval", "use_mems_train"), "a memory is given as `cache`, or not"),
    "untie_r": "every layer has biases of its own, whatever it says",
}
UNUSED_TENSORS: dict[str, str] = {}
SUMMARY = {"summary_type": "last", "summary_activation": "tanh", "summary_first_dropout": 0.0}
SMALL = {
    "d_model": 32,
    "n_layer": 2,
    "n_head": 4,
    "d_inner": 64,
    "vocab_size": 99,
    "start_n_top": 1,
    "end_n_top": 1,
    "pad_token_id": 5,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "d_model": 24,
        "n_layer": 3,
        "n_head": 2,
        "d_inner": 40,
        "ff_activation": "relu",
        "clamp_len": 7,
        "layer_norm_eps": 1e-6,
        "mem_len": 9,
        "reuse_len": 4,
        "num_labels": 5,
        "tie_word_embeddings": False,
        "summary_type": "first",
        "summary_activation": "gelu",
    },
    {
        **SMALL,
        "n_layer": 1,
        "n_head": 8,
        "attn_type": "uni",
        "mem_len": None,
        "summary_type": "mean",
    },
)
PRESETS = {
    "xlnet-base": (
        "XLNetLMHeadModel",
        {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072, "mem_len": None},
    ),
    "xlnet-large": ("XLNetLMHeadModel", {"mem_len": None}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    stack = body(config)
    count = len(common.labels(config))
    config = config.with_defaults(SUMMARY)
    config.only("summary_proj_to_labels", False)
    choose = electra.choose(config, stack.width)
    classify = spec.HeadSpec(
        name="classify",
        pooling=choose.pooling,
        transform=choose.transform,
        num_outputs=count,
        dropout=choose.dropout,
    )
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "LMHeadModel": (heads.language_model(stack.embed.vocabulary, bias="learned"),),
        "ForSequenceClassification": (classify,),
        "ForMultipleChoice": (choose,),
        "ForTokenClassification": (heads.tag(count),),
        "ForQuestionAnsweringSimple": (heads.span(),),
        "ForQuestionAnswering": (heads.answer(config, stack.attention_blocks[0].norm),),
    }[architecture.removeprefix("XLNet")]
    causal = stack.attention_blocks[0].pattern == spec.CAUSAL
    place = "decoder" if causal else "encoder"
    return spec.ModelSpec(
        encoder=None if causal else stack,
        decoder=stack if causal else None,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, f"{place}.embed.token.weight"),
        tokens=common.special_tokens(config, pad=5, bos=1, eos=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def body(config: ConfigReader) -> spec.StackSpec:
    config.only("bi_data", False)
    config.only("attn_type", "bi", "uni")
    causal = config.word("attn_type", "bi") == "uni"
    if causal:
        config.only("same_length", False)
    config.flag("same_length", False)
    width, count = config.integer("d_model", 1024), config.integer("n_head", 16)
    dropout, clamp = config.dropout("dropout", 0.1), config.integer("clamp_len", -1, least=-1)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count, "d_head"),
            bias=False,
            out_bias=False,
            dropout=dropout,
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("d_inner", 4096),
            activation=common.activation(config, "ff_activation", "gelu"),
            dropout=dropout,
        ),
        norm=spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-12)),
        placement="post",
        position=spec.RelativePositionSpec(
            clamp_length=clamp if clamp > 0 else None, bidirectional=not causal, segments=True
        ),
        pattern=spec.CAUSAL if causal else spec.FULL,
        dropout=dropout,
    )
    return spec.StackSpec(
        width=width,
        embed=spec.TokenEmbeddingSpec(
            vocabulary=config.integer("vocab_size", 32000), has_query_stream=True, dropout=dropout
        ),
        blocks=(block,) * config.layers("n_layer", 24),
        dropout=dropout,
        memory=spec.MemorySpec(
            length=config.nullable_integer("mem_len", 512, least=0) or None,
            reuse_length=config.nullable_integer("reuse_len", None, least=0) or None,
        ),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layer.{i}", "{stack}.blocks.{i}"
    attention = f"{hf}.rel_attn"
    count = model.last_stack.attention_blocks[0].attention.heads
    qkv = tuple(f"{attention}.{part}" for part in "qkv")
    return (
        WeightRule("{base}word_embedding", "{stack}.embed.token"),
        WeightRule("{base}mask_emb", "{stack}.embed.ask", SINGLE),
        WeightRule(qkv, f"{local}.attention.qkv.weight", PerHeadQKV(count)),
        WeightRule(f"{attention}.r", f"{local}.attention.position_key.weight", PerHeadQKV(count)),
        WeightRule(
            f"{attention}.o", f"{local}.attention.out.weight", PerHeadQKV(count, transposed=False)
        ),
        WeightRule(f"{attention}.r_w_bias", "{stack}.positions.{i}.content"),
        WeightRule(f"{attention}.r_r_bias", "{stack}.positions.{i}.position"),
        WeightRule(f"{attention}.r_s_bias", "{stack}.positions.{i}.segment"),
        WeightRule(f"{attention}.seg_embed", "{stack}.positions.{i}.segments"),
        WeightRule(f"{attention}.layer_norm", f"{local}.attention_norm"),
        WeightRule(f"{hf}.ff.layer_1", f"{local}.ffn.up"),
        WeightRule(f"{hf}.ff.layer_2", f"{local}.ffn.down"),
        WeightRule(f"{hf}.ff.layer_norm", f"{local}.ffn_norm"),
        WeightRule("lm_loss", "heads.lm.out"),
        *(
            WeightRule("sequence_summary.summary", f"heads.{name}.transform.dense")
            for name in ("classify", "choose")
        ),
        *(WeightRule("logits_proj", f"heads.{name}.out") for name in ("classify", "choose")),
        WeightRule("classifier", "heads.tag.out"),
        WeightRule("qa_outputs", "heads.span.out"),
        *heads.answer_rules(""),
    )
