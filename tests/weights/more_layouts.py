"""Further layouts of published checkpoints: older libraries, shards, copies of tied tensors, and
parts that config.json switches on."""

from __future__ import annotations

import torch
from layouts import Layout, Tensors, copied, masks, of, old_norms, plus, under, without

ONES = torch.ones(32)
PYTORCH_TRANSFORMERS = {
    "finetuning_task": "mrpc",
    "is_decoder": False,
    "num_labels": 3,
    "output_attentions": False,
    "output_hidden_states": False,
    "output_past": True,
    "pruned_heads": {},
    "torchscript": False,
    "use_bfloat16": False,
}
V1_1 = {
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "n_positions": 512,
    "output_past": True,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32,
}
NEOX = {
    "attention_dropout": 0.0,
    "attention_probs_dropout_prob": 0,
    "hidden_dropout": 0.0,
    "hidden_dropout_prob": 0,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "use_parallel_residual": True,
}
WHISPER = {
    "_name_or_path": "./distil-large-v3-init",
    "apply_spec_augment": False,
    "forced_decoder_ids": [[1, 5], [2, 6]],
    "mask_feature_length": 10,
    "mask_time_prob": 0.05,
    "max_length": 448,
    "median_filter_length": 7,
    "use_weighted_layer_sum": False,
}
FROM_FAIRSEQ = {
    "add_bias_logits": False,
    "force_bos_token_to_be_generated": True,
    "num_beams": 6,
    "no_repeat_ngram_size": 3,
}
CONV = {"conv_kernel_size": 3, "conv_act": "gelu", "attention_head_size": 8}
QWEN1_5 = {
    "max_window_layers": 21,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
    "use_mrope": False,
}
PHI = {"partial_rotary_factor": 0.5, "qk_layernorm": False, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
OPT_350M = {
    "word_embed_proj_dim": 16,
    "do_layer_norm_before": False,
    "_remove_final_layer_norm": False,
    "activation_dropout": 0.0,
    "prefix": "</s>",
}


def tied(name: str, source: str) -> dict[str, str]:
    return {name.replace(".", "__"): source}


def no_layer_prefix(tensors: Tensors) -> Tensors:
    """facebook/opt names the decoder without the model around it."""
    return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}


MORE_LAYOUTS: list[Layout] = [
    of(
        "pytorch_transformers 1.2, fine-tuned",
        "bert",
        "BertForSequenceClassification",
        old_norms,
        named=None,
        loads="BertForSequenceClassification",
        keys=PYTORCH_TRANSFORMERS,
        lacks=("model_type",),
        pickled=True,
    ),
    of(
        "simcse: a pooler saved under another prefix",
        "bert",
        "BertModel",
        under("bert."),
        plus(bert__embeddings__position_ids=torch.arange(160)[None]),
    ),
    of(
        "koelectra",
        "electra",
        "ElectraForPreTraining",
        plus(electra__embeddings__position_ids=torch.arange(160)[None]),
        keys={"summary_activation": "gelu", "summary_last_dropout": 0.1, "summary_type": "first",
              "summary_use_proj": True},
        lacks=("model_type",),
    ),
    of(
        "electra generator with a copy of its embeddings",
        "electra",
        "ElectraForMaskedLM",
        copied(**tied("generator_lm_head.weight", "electra.embeddings.word_embeddings.weight")),
        pickled=True,
    ),
    of(
        "t5-v1_1",
        "t5",
        "T5ForConditionalGeneration",
        copied(**tied("encoder.embed_tokens.weight", "shared.weight")),
        copied(**tied("decoder.embed_tokens.weight", "shared.weight")),
        plus(
            decoder__block__0__layer__1__EncDecAttention__relative_attention_bias__weight=(
                torch.ones(32, 4)
            )
        ),
        keys=V1_1,
        pickled=True,
    ),
    of(
        "gpt-neox-20b",
        "gpt_neox",
        "GPTNeoXForCausalLM",
        masks(
            "gpt_neox.layers",
            "attention.bias",
            "attention.masked_bias",
            "attention.rotary_emb.inv_freq",
        ),
        keys=NEOX,
    ),
    of(
        "distil-whisper",
        "whisper",
        "WhisperForConditionalGeneration",
        copied(**tied("proj_out.weight", "model.decoder.embed_tokens.weight")),
        keys=WHISPER,
    ),
    of(
        "opus-mt of 2020",
        "marian",
        "MarianMTModel",
        copied(**tied("model.encoder.embed_tokens.weight", "model.shared.weight")),
        copied(**tied("model.decoder.embed_tokens.weight", "model.shared.weight")),
        copied(**tied("lm_head.weight", "model.shared.weight")),
        keys={**FROM_FAIRSEQ, "add_final_layer_norm": False, "static_position_embeddings": True,
              "bad_words_ids": [[98]], "num_hidden_layers": 2},
        pickled=True,
    ),
    of(
        "xlm-roberta of a sentence encoder",
        "xlm-roberta",
        "XLMRobertaModel",
        plus(embeddings__position_ids=torch.arange(160)[None]),
        keys={"output_past": True, "gradient_checkpointing": False},
        pickled=True,
    ),
    of(
        "xlm-roberta with the body of a language model",
        "xlm-roberta",
        "XLMRobertaForMaskedLM",
        copied(**tied("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight")),
        copied(**tied("lm_head.decoder.bias", "lm_head.bias")),
        plus(
            roberta__pooler__dense__weight=torch.ones(32, 32), roberta__pooler__dense__bias=ONES
        ),
    ),
    of(
        "deberta-v2-xlarge",
        "deberta-v2",
        "DebertaV2Model",
        under("deberta."),
        plus(
            deberta__embeddings__position_embeddings__weight=torch.ones(160, 32),
            lm_predictions__lm_head__bias=torch.ones(99),
            lm_predictions__lm_head__dense__weight=torch.ones(32, 32),
            lm_predictions__lm_head__dense__bias=ONES,
            lm_predictions__lm_head__LayerNorm__weight=ONES,
            lm_predictions__lm_head__LayerNorm__bias=ONES,
            mask_predictions__dense__weight=torch.ones(32, 32),
            mask_predictions__dense__bias=ONES,
            mask_predictions__LayerNorm__weight=ONES,
            mask_predictions__LayerNorm__bias=ONES,
            mask_predictions__classifier__weight=torch.ones(1, 32),
            mask_predictions__classifier__bias=torch.ones(1),
        ),
        named=None,
        loads="DebertaV2Model",
        keys=CONV,
        pickled=True,
    ),
    of(
        "gpt2 of 2019, without a prefix",
        "gpt2",
        "GPT2LMHeadModel",
        without("transformer."),
        masks("h", "attn.bias", "attn.masked_bias"),
        keys={"initializer_range": 0.02, "predict_special_tokens": True, "n_ctx": 160},
        pickled=True,
    ),
    of(
        "gemma with a copy of its embeddings",
        "gemma",
        "GemmaForCausalLM",
        copied(**tied("lm_head.weight", "model.embed_tokens.weight")),
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        keys={"hidden_act": "gelu", "hidden_activation": None, "rope_scaling": None},
    ),
    of(
        "phi-1_5",
        "phi",
        "PhiForCausalLM",
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        keys=PHI,
    ),
    of("opt-350m", "opt", "OPTForCausalLM", no_layer_prefix, keys=OPT_350M, pickled=True),
    of(
        "qwen1.5",
        "qwen2",
        "Qwen2ForCausalLM",
        copied(**tied("lm_head.weight", "model.embed_tokens.weight")),
        keys=QWEN1_5,
    ),
    of(
        "code llama: linear positions of an older library",
        "llama",
        "LlamaForCausalLM",
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        keys={"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 1000000.0,
              "pretraining_tp": 1, "max_sequence_length": 16384},
        pickled=True,
    ),
    of(
        "bart-large-xsum",
        "bart",
        "BartForConditionalGeneration",
        copied(**tied("lm_head.weight", "model.shared.weight")),
        plus(model__encoder__version=torch.tensor([3.0]), model__decoder__version=torch.ones(1)),
        keys={**FROM_FAIRSEQ, "extra_pos_embeddings": 2, "classif_dropout": 0.0,
              "static_position_embeddings": False, "normalize_embedding": True},
        pickled=True,
    ),
    of(
        "vit fine-tuned with the pooler of its base",
        "vit",
        "ViTForImageClassification",
        plus(vit__pooler__dense__weight=torch.ones(32, 32), vit__pooler__dense__bias=ONES),
        keys={"problem_type": "single_label_classification", "num_channels": 3},
    ),
    of(
        "xlnet classifier of 2019",
        "xlnet",
        "XLNetForSequenceClassification",
        keys={"summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh",
              "ff_activation": "gelu", "attn_type": "bi", "bi_data": False, "clamp_len": -1,
              "same_length": False, "untie_r": True, "finetuning_task": None, "num_labels": 2,
              "output_past": True, "pruned_heads": {}},
        lacks=("model_type",),
        pickled=True,
    ),
]  # fmt: skip
