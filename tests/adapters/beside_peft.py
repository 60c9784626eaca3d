"""A tiny model twice: as the reference has it, with peft around it, and as ours."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import reference
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer import adapters

warnings.filterwarnings("ignore", module="peft")
import peft  # noqa: E402

TOLERANCE = 1e-5
SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": {
        "model_type": "gpt2", "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2,
        "n_positions": 40, "bos_token_id": 0, "eos_token_id": 0,
    },
    "LlamaForCausalLM": {
        "model_type": "llama", **SIZES, "num_attention_heads": 4, "num_key_value_heads": 2,
        "bos_token_id": 0, "eos_token_id": 0,
    },
    "GPTNeoXForCausalLM": {
        "model_type": "gpt_neox", **SIZES, "bos_token_id": 0, "eos_token_id": 0,
    },
    "BertForSequenceClassification": {"model_type": "bert", **SIZES, "num_labels": 3},
    "DebertaV2ForSequenceClassification": {
        "model_type": "deberta-v2", **SIZES, "relative_attention": True, "position_buckets": 8,
        "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0, "pooler_hidden_size": 16,
    },
    "T5ForConditionalGeneration": {
        "model_type": "t5", "vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24,
        "num_layers": 3, "num_heads": 2, "decoder_start_token_id": 0,
    },
    "BartForConditionalGeneration": {
        "model_type": "bart", "vocab_size": 40, "d_model": 16, "encoder_layers": 3,
        "decoder_layers": 3, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 40,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    },
}  # fmt: skip
TARGETS = {
    "GPT2LMHeadModel": ["c_attn", "mlp.c_proj"],
    "LlamaForCausalLM": ["q_proj", "v_proj", "up_proj"],
    "GPTNeoXForCausalLM": ["query_key_value", "dense_h_to_4h"],
    "BertForSequenceClassification": ["query", "value"],
    "DebertaV2ForSequenceClassification": ["query_proj", "value_proj"],
    "T5ForConditionalGeneration": ["q", "v", "wo"],
    "BartForConditionalGeneration": ["q_proj", "v_proj", "fc1"],
}
TASKS = {
    "GPT2LMHeadModel": "CAUSAL_LM",
    "LlamaForCausalLM": "CAUSAL_LM",
    "GPTNeoXForCausalLM": "CAUSAL_LM",
    "BertForSequenceClassification": "SEQ_CLS",
    "DebertaV2ForSequenceClassification": "SEQ_CLS",
    "T5ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "BartForConditionalGeneration": "SEQ_2_SEQ_LM",
}


class Pair:
    def __init__(self, architecture: str, folder: Path) -> None:
        self.architecture, self.folder = architecture, folder
        self.both = TASKS[architecture] == "SEQ_2_SEQ_LM"
        self.reference = reference.make(CONFIGS[architecture], architecture, seed=1)
        reference.save(self.reference, folder)
        generator = torch.Generator().manual_seed(2)
        self.tokens = torch.randint(3, 40, (2, 9), generator=generator)
        self.mask = torch.ones_like(self.tokens)
        self.mask[1, 6:] = 0

    def model(self, **options: Any) -> gf.Model:
        return gf.load(self.folder, **options)

    def with_peft(self, config: Any) -> Any:
        """A new adapter of peft's, of random values."""
        model = peft.get_peft_model(copy.deepcopy(self.reference), config).eval()
        scatter(p for p in model.parameters() if p.requires_grad)
        return model

    def read_by_peft(self, folder: Path) -> Any:
        return peft.PeftModel.from_pretrained(copy.deepcopy(self.reference), folder).eval()

    @torch.no_grad()
    def theirs(self, model: Any) -> Tensor:
        more = {"decoder_input_ids": self.tokens[:, :5]} if self.both else {}
        out = model(input_ids=self.tokens, attention_mask=self.mask, **more).logits
        return self.real(out)

    @torch.no_grad()
    def ours(self, model: gf.Model) -> Tensor:
        return self.real(self.logits(model))

    def logits(self, model: gf.Model) -> Tensor:
        mask = self.mask.bool()
        if self.both:
            out = model(
                decoder_input_ids=self.tokens[:, :5], input_ids=self.tokens, attention_mask=mask
            )
        else:
            out = model(self.tokens, mask)
        assert out.logits is not None
        return out.logits

    def real(self, logits: Tensor) -> Tensor:
        """What is said about real tokens; peft's logits are also of virtual ones."""
        if logits.ndim == 2 or self.both:
            return logits
        return logits[:, -self.tokens.shape[1] :][self.mask.bool()]


def scatter(parameters: Any, spread: float = 0.1) -> None:
    """Random values, which differ from the first ones, by which an adapter changes nothing."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)


def adapted(model: gf.Model, settings: adapters.AdapterConfig) -> gf.Model:
    """With an adapter of random values."""
    model.adapters.add(settings)
    adapter = adapters.active(model)
    assert adapter is not None
    scatter(adapter.parameters())
    return model


def far(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def trained(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]
