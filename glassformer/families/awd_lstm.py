"""AWD-LSTM (Merity et al., 2017) as used by ULMFiT (Howard and Ruder, 2018).

Three recurrent layers with dropout of whole words, dimensions and weights. Tensor names and sizes
are those of fastai's files; `n_hid` was 1150 before 2019. The classifier pools over the whole text,
whereas fastai's ignores all but about the last 1,440 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "AWD-LSTM"
MODEL_TYPES = ("awd-lstm",)
CLASSES = {
    "AwdLstmModel": "",
    "AwdLstmForCausalLM": "0.",
    "AwdLstmForSequenceClassification": "0.module.",
}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    "{base}rnns.{i}.module.weight_hh_l0": "what dropout had left of weight_hh_l0_raw when saved",
}
TINY: tuple[dict[str, Any], ...] = (
    {"vocab_size": 60, "emb_sz": 16, "n_hid": 24, "n_layers": 3},
    {
        "vocab_size": 50,
        "emb_sz": 20,
        "n_hid": 12,
        "n_layers": 2,
        "num_labels": 5,
        "lin_ftrs": 9,
        "tie_word_embeddings": False,
        "out_bias": False,
        "pad_token_id": 0,
    },
    {"vocab_size": 40, "emb_sz": 12, "n_hid": 30, "n_layers": 1, "num_labels": 3},
)
PRESETS = {
    "awd-lstm": ("AwdLstmForCausalLM", {"vocab_size": 60_000}),
    "ulmfit": ("AwdLstmForSequenceClassification", {"vocab_size": 60_000}),
}
DROPOUTS = {  # for the language model and the classifier
    "ForCausalLM": {
        "input_p": 0.25,
        "hidden_p": 0.15,
        "embed_p": 0.02,
        "weight_p": 0.2,
        "output_p": 0.1,
    },
    "ForSequenceClassification": {
        "input_p": 0.4,
        "hidden_p": 0.3,
        "embed_p": 0.05,
        "weight_p": 0.5,
        "output_p": 0.4,
    },
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("AwdLstm")
    config = config.with_defaults(DROPOUTS.get(kind, DROPOUTS["ForCausalLM"]))
    config.only("bidir", False)
    width, inner = config.integer("emb_sz", 400), config.integer("n_hid", 1152)
    layers = config.layers("n_layers", 3)
    vocabulary = config.integer("vocab_size")
    hidden, output = config.dropout("hidden_p"), config.dropout("output_p")

    def layer(depth: int) -> spec.RecurrentSpec:
        last = depth == layers - 1
        after = (output if kind == "ForCausalLM" else 0.0) if last else hidden
        return spec.RecurrentSpec(
            width=width if last else inner,
            dropout_in=config.dropout("input_p") if depth == 0 else 0.0,
            weight_dropout=config.dropout("weight_p"),
            dropout=after,
        )

    bias = config.flag("out_bias", True)
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "ForCausalLM": (heads.language_model(vocabulary, bias="learned" if bias else "none"),),
        "ForSequenceClassification": (classifier(config, output),),
    }[kind]
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=spec.TokenEmbeddingSpec(
                vocabulary=vocabulary, word_dropout=config.dropout("embed_p")
            ),
            blocks=tuple(map(layer, range(layers))),
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, pad=1),
        labels=common.labels(config),
        init=spec.InitSpec(kind="uniform", std=0.1),
    )


def classifier(config: ConfigReader, dropout: float) -> spec.HeadSpec:
    """The concatenated last state, maximum and mean, then two linear layers, each after a norm."""
    norm = spec.NormSpec(kind="batch")
    return spec.HeadSpec(
        name="classify",
        pooling="concat",
        norm=norm,
        dropout_in=dropout,
        transform=spec.TransformSpec(
            width=config.integer("lin_ftrs", 50), activation="relu", norm=norm, bias=False
        ),
        dropout=config.dropout("ps", 0.1),
        num_outputs=len(common.labels(config)),
        bias="none",
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}rnns.{i}.", "decoder.blocks.{i}.ahead."
    return (
        WeightRule("{base}encoder", "decoder.embed.token", also=("{base}encoder_dp.emb",)),
        WeightRule(f"{hf}weight_hh_l0_raw", f"{local}weight_state"),
        WeightRule(f"{hf}module.weight_ih_l0", f"{local}weight_in"),
        WeightRule(f"{hf}module.bias_ih_l0", f"{local}bias_in"),
        WeightRule(f"{hf}module.bias_hh_l0", f"{local}bias_state"),
        WeightRule("1.decoder", "heads.lm.out"),
        WeightRule("1.layers.0.0", "heads.classify.norm.norm"),
        WeightRule("1.layers.0.2", "heads.classify.transform.dense", also=("1.layers.0.1",)),
        WeightRule("1.layers.1.0", "heads.classify.transform.norm.norm"),
        WeightRule("1.layers.1.2", "heads.classify.out", also=("1.layers.1.1",)),
    )
