"""XLM (Lample and Conneau, 2019): cross-lingual BERT.

Each token may have a language embedding. Trained for masked or causal language modeling.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families import electra
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "XLM"
MODEL_TYPES = ("xlm",)
HEADS = (
    "WithLMHeadModel",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnsweringSimple",
    "ForQuestionAnswering",
)
CLASSES = {"XLMModel": "", **{f"XLM{head}": "transformer." for head in HEADS}}
IGNORED = {
    **dict.fromkeys(
        ("id2lang", "lang2id", "langs", "lang_id", "mask_index", "mask_token_id", "unk_index"),
        "names of languages and tokens, read by the tokenizer",
    ),
    **dict.fromkeys(("max_vocab", "min_count"), "how the vocabulary was made"),
    **dict.fromkeys(("same_enc_dec", "share_inout_emb"), "of a decoder that was never published"),
    "embed_init_std": "fresh embeddings are drawn like the rest",
}
UNUSED_TENSORS = {"{base}position_ids": "counts from 0, which is computed"}
INDEX = {"pad": 2, "bos": 0, "eos": 1}
SUMMARY = {
    "summary_activation": "linear",
    "summary_first_dropout": 0.1,
    "summary_last_dropout": 0.0,
}
SMALL = {
    "emb_dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "vocab_size": 99,
    "n_langs": 3,
    "max_position_embeddings": 160,
    "start_n_top": 1,
    "end_n_top": 1,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "emb_dim": 24,
        "n_layers": 3,
        "n_heads": 2,
        "gelu_activation": False,
        "sinusoidal_embeddings": True,
        "use_lang_emb": False,
        "layer_norm_eps": 1e-6,
        "summary_activation": "tanh",
        "tie_word_embeddings": False,
        "num_labels": 5,
    },
    {**SMALL, "n_layers": 1, "n_heads": 8, "causal": True, "n_langs": 2, "pad_token_id": 4},
)
SIZES = {
    "en-2048": (30145, 2048, 12, 16, 1),
    "enfr-1024": (64139, 1024, 6, 8, 2),
    "ende-1024": (64699, 1024, 6, 8, 2),
    "xnli15-1024": (95000, 1024, 12, 8, 15),
}
PRESETS = {
    f"xlm-{name}": (
        "XLMWithLMHeadModel",
        {
            "vocab_size": words,
            "emb_dim": width,
            "n_layers": layers,
            "n_heads": count,
            "n_langs": languages,
        },
    )
    for name, (words, width, layers, count, languages) in SIZES.items()
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    stack = body(config)
    count, dropout = len(common.labels(config)), config.dropout("dropout", 0.1)
    config.only("summary_proj_to_labels", True)
    # a candidate's score is a weighted sum of its label scores
    choose = electra.choose(config.with_defaults(SUMMARY), count)
    assert choose.transform is not None
    classify = spec.HeadSpec(
        name="classify",
        pooling=choose.pooling,
        num_outputs=count,
        activation=choose.transform.activation,
        dropout=choose.dropout_in,
    )
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "WithLMHeadModel": (heads.language_model(stack.embed.vocabulary, bias="learned"),),
        "ForSequenceClassification": (classify,),
        "ForMultipleChoice": (choose,),
        "ForTokenClassification": (heads.tag(count, dropout),),
        "ForQuestionAnsweringSimple": (heads.span(),),
        "ForQuestionAnswering": (heads.answer(config, stack.attention_blocks[0].norm),),
    }[architecture.removeprefix("XLM")]
    pad, bos, eos = (config.id(f"{name}_index", i) for name, i in INDEX.items())
    causal = config.flag("causal", False)
    place = "decoder" if causal else "encoder"
    return spec.ModelSpec(
        encoder=None if causal else stack,
        decoder=stack if causal else None,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, f"{place}.embed.token.weight"),
        tokens=common.special_tokens(config, pad=pad, bos=bos, eos=eos),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def body(config: ConfigReader) -> spec.StackSpec:
    config.only("is_encoder", True)
    config.only("asm", False)
    width, count = config.integer("emb_dim", 2048), config.integer("n_heads", 16)
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-12))
    dropout, languages = config.dropout("dropout", 0.1), config.integer("n_langs", 1)
    named = config.flag("use_lang_emb", True) and languages > 1
    smooth = config.flag("gelu_activation", True)
    fixed = config.flag("sinusoidal_embeddings", False)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count),
            dropout=config.dropout("attention_dropout", 0.1),
        ),
        ffn=spec.FeedForwardSpec(width=4 * width, activation="gelu" if smooth else "relu"),
        norm=norm,
        placement="post",
        pattern=spec.CAUSAL if config.flag("causal", False) else spec.FULL,
        dropout=dropout,
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", config.integer("n_words", 30145)),
        position=spec.PositionTableSpec(
            length=config.integer("max_position_embeddings", 512),
            layout="interleaved" if fixed else "learned",
        ),
        segments_are_tokens=True,
        languages=languages if named else 0,
        norm=norm,
        dropout=dropout,
    )
    return spec.StackSpec(width=width, embed=embed, blocks=(block,) * config.layers("n_layers", 12))


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    names = ("q_lin", "k_lin", "v_lin", "out_lin")
    local = "{stack}.blocks.{i}"
    return (
        WeightRule("{base}embeddings", "{stack}.embed.token"),
        WeightRule("{base}position_embeddings", "{stack}.embed.position"),
        WeightRule("{base}lang_embeddings", "{stack}.embed.language"),
        WeightRule("{base}layer_norm_emb", "{stack}.embed.norm"),
        *projections("{base}attentions.{i}.", f"{local}.attention", *names),
        WeightRule("{base}layer_norm1.{i}", f"{local}.attention_norm"),
        WeightRule("{base}ffns.{i}.lin1", f"{local}.ffn.up"),
        WeightRule("{base}ffns.{i}.lin2", f"{local}.ffn.down"),
        WeightRule("{base}layer_norm2.{i}", f"{local}.ffn_norm"),
        WeightRule("pred_layer.proj", "heads.lm.out"),
        WeightRule("sequence_summary.summary", "heads.classify.out"),
        WeightRule("sequence_summary.summary", "heads.choose.transform.dense"),
        WeightRule("logits_proj", "heads.choose.out"),
        WeightRule("classifier", "heads.tag.out"),
        WeightRule("qa_outputs", "heads.span.out"),
        *heads.answer_rules("qa_outputs."),
    )
