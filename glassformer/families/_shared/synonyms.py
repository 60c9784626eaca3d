"""Alternative names that the reference implementation accepts for a family's config keys.

A config.json that contains such a name sets the key with it.
"""

from __future__ import annotations

from collections.abc import Mapping

GPT = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
}
SEQ2SEQ = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}
T5 = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
XLM = {
    "hidden_size": "emb_dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "n_words": "vocab_size",
    "bos_index": "bos_token_id",
    "eos_index": "eos_token_id",
    "pad_index": "pad_token_id",
}
XLNET = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "n_token": "vocab_size",
}

SYNONYMS: Mapping[str, Mapping[str, str]] = {  # model type -> alternative name -> key
    **dict.fromkeys(("gpt2", "openai-gpt", "gptj", "ctrl"), GPT),
    **dict.fromkeys(("bart", "mbart", "m2m_100", "marian", "pegasus"), SEQ2SEQ),
    "fsmt": {**SEQ2SEQ, "vocab_size": "tgt_vocab_size"},
    "whisper": {**SEQ2SEQ, "num_key_value_heads": "encoder_attention_heads"},
    **dict.fromkeys(("t5", "mt5"), T5),
    "distilbert": {
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    },
    "gpt_neo": {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
    "xlm": XLM,
    "xlnet": XLNET,
}
