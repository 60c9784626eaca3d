"""Small models with heads of every kind, for objectives that ask about whole texts."""

from __future__ import annotations

import material
import torch

from glassformer.model import Model

SIZE = material.SIZE
BERT = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": SIZE,
        "intermediate_size": 48, "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # fmt: skip
GPT2 = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64, "vocab_size": SIZE}
XLNET = {"n_layer": 2, "d_model": 32, "n_head": 4, "d_inner": 48, "vocab_size": SIZE}
BART = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "max_position_embeddings": 64, "vocab_size": SIZE}  # fmt: skip
T5 = {"num_layers": 2, "d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48, "vocab_size": SIZE}
LLAMA = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": SIZE,
         "num_key_value_heads": 2, "intermediate_size": 48,
         "max_position_embeddings": 64}  # fmt: skip
FAMILIES = {
    "bert": ("bert-base", "Bert", material.wordpiece, BERT),
    "gpt2": ("gpt2", "GPT2", material.bytelevel, GPT2),
    "xlnet": ("xlnet-base", "XLNet", material.pieces, XLNET),
    "bart": ("bart-base", "Bart", material.bytelevel, BART),
    "llama": ("llama-7b", "Llama", material.letters, LLAMA),
    "t5": ("t5-small", "T5", material.sentinels, T5),
}


def make(family: str, kind: str, labels: tuple[str, ...] = (), **settings) -> Model:
    """A family's class that ends in `kind`; special tokens are the tokenizer's."""
    preset, start, tokenizer, sizes = FAMILIES[family]
    made, special = tokenizer(), tokenizer().special
    ids = {"pad_token_id": special.get("pad", 0), "eos_token_id": special.get("eos")}
    ids |= {"decoder_start_token_id": special.get("eos", 0)} if family in ("bart", "t5") else {}
    named = {str(i): label for i, label in enumerate(labels)}
    if labels:
        settings |= {"id2label": named, "label2id": {v: int(k) for k, v in named.items()}}
    return material.model(preset, made, f"{start}{kind}", **{**sizes, **ids, **settings})


def read(model, example, *, segments: bool = True, **inputs):
    """What the model says of one text by itself, without padding or mask."""
    if segments:
        inputs["token_type_ids"] = material.ids(example["segments"])
    return model(material.ids(example["tokens"]), **inputs).head_outputs


def knows_segments(model: Model) -> bool:
    stack = model.spec.last_stack
    return stack.embed.segments > 1 or stack.scores_segments


def learns(objective, model: Model, stored, metric: str, steps: int = 40) -> tuple[float, float]:
    """The metric before and after training on always the same batch."""

    def measured() -> float:
        model.eval()
        batch = objective.collate(material.varied(objective, stored))
        with torch.no_grad():
            return objective.measure(model, [batch])[metric]

    model.float()
    before = measured()
    first, last = material.falls(objective, model, stored, steps)
    assert last < 0.8 * first, (first, last)
    return before, measured()
