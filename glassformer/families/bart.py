"""BART (Lewis et al., 2019): an encoder-decoder with learned positions and embedding norms."""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "BART"
MODEL_TYPES = ("bart",)
CLASSES = {
    "BartModel": "",
    "BartForConditionalGeneration": "model.",
    "BartForCausalLM": "model.",
    "BartForSequenceClassification": "model.",
    "BartForQuestionAnswering": "model.",
}
IGNORED = fairseq_like.IGNORED
UNUSED_TENSORS = {"{base}shared.weight": "a copy that is not used where embeddings are not tied"}
TINY = (
    {**fairseq_like.SMALL, "vocab_size": 99},
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "scale_embedding": True,
        "activation_function": "relu",
        "tie_word_embeddings": False,
        "num_labels": 5,
    },
)
PRESETS = {
    "bart-base": (
        "BartForConditionalGeneration",
        {
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
    ),
    "bart-large": ("BartForConditionalGeneration", {}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    tokens = common.special_tokens(config, pad=1, bos=0, eos=2, start=2)
    labels = common.labels(config, default=3)
    return assemble(config, architecture.removeprefix("Bart"), tokens, labels)


def assemble(
    config: ConfigReader,
    kind: str,
    tokens: spec.SpecialTokens,
    labels: tuple[str, ...],
    pre: bool = False,
) -> spec.ModelSpec:
    """Builds the stacks and the head for the class-name ending `kind`.

    `pre` selects pre-norm instead of post-norm.
    """
    vocabulary = config.integer("vocab_size", 50265)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 1024), offset=2
    )
    encoder, decoder = (
        fairseq_like.stack(config, side, vocabulary, positions, norm=spec.NormSpec(), pre=pre)
        for side in ("encoder", "decoder")
    )
    count = len(labels)
    dropout = config.dropout("classifier_dropout", 0.0)
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "ForConditionalGeneration": (heads.language_model(vocabulary, bias="fixed"),),
        "ForCausalLM": (heads.language_model(vocabulary),),
        "ForSequenceClassification": (heads.classify_at_end(encoder.width, count, dropout),),
        "ForQuestionAnswering": (heads.span(),),
    }[kind]
    alone = kind == "ForCausalLM"
    tied = config.flag("tie_word_embeddings", True)
    stacks = ("decoder",) if alone else ("encoder", "decoder")
    return spec.ModelSpec(
        encoder=None if alone else encoder,
        decoder=decoder,
        heads=chosen,
        tied_weights=fairseq_like.ties(stacks, chosen) if tied else (),
        tokens=tokens,
        labels=labels,
        shift_right=kind in ("ForSequenceClassification", "ForQuestionAnswering"),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        *fairseq_like.embeddings(shared=bool(model.tied_weights)),
        *fairseq_like.BODY,
        WeightRule("classification_head.dense", "heads.classify.transform.dense"),
        WeightRule("classification_head.out_proj", "heads.classify.out"),
        WeightRule("qa_outputs", "heads.span.out"),
    )
