"""Layouts of published checkpoints, made of small random models: the keys that config.json has, the
class it names, and the tensors and names that the file has beside those of the class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.families import families

Tensors = dict[str, Tensor]
Change = Callable[[Tensors], Tensors]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """`made_by` is the class whose tensors the file holds, `named` the one in config.json (None: no
    class), `loads` the one that is loaded. `keys` stand in config.json beside the sizes, and those
    of `lacks` do not. `wrap` is what the pickle holds instead of the tensors."""

    name: str
    kind: str
    made_by: str
    named: str | None = ""
    loads: str = ""
    keys: Mapping[str, Any] | None = None
    lacks: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    tiny: int = 0
    pickled: bool = False
    wrap: Callable[[Tensors], Any] | None = None
    config_name: str = "config.json"

    @property
    def sizes(self) -> dict[str, Any]:
        return {"model_type": self.kind, **families()[self.kind].TINY[self.tiny]}

    @property
    def config(self) -> dict[str, Any]:
        """What the reference is made of."""
        return {**self.sizes, **(self.keys or {})}

    @property
    def written(self) -> dict[str, Any]:
        """What stands in config.json."""
        named = self.made_by if self.named == "" else self.named
        config = {**self.config, "architectures": [named]}
        if named is None:
            del config["architectures"]
        return {key: value for key, value in config.items() if key not in self.lacks}

    @property
    def wanted(self) -> str:
        return self.loads or self.named or self.made_by

    def tensors(self, plain: Tensors) -> Tensors:
        for change in self.changes:
            plain = change(plain)
        return plain


def old_norms(tensors: Tensors) -> Tensors:
    """The first checkpoints were converted from TensorFlow, with its names."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for name, tensor in tensors.items():
        for new, first in old.items():
            name = name.replace(new, first)
        renamed[name] = tensor
    return renamed


def under(prefix: str) -> Change:
    return lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()}


def without(prefix: str) -> Change:
    return lambda tensors: {n.removeprefix(prefix): tensor for n, tensor in tensors.items()}


def lacking(beginning: str) -> Change:
    return lambda tensors: {n: t for n, t in tensors.items() if not n.startswith(beginning)}


def plus(**named: Tensor) -> Change:
    """Names with _ for a dot at a double underscore: `bert__pooler` is bert.pooler."""
    extra = {name.replace("__", "."): tensor for name, tensor in named.items()}
    return lambda tensors: {**tensors, **extra}


def copied(**named: str) -> Change:
    def change(tensors: Tensors) -> Tensors:
        copies = {n.replace("__", "."): tensors[source].clone() for n, source in named.items()}
        return {**tensors, **copies}

    return change


def masks(layers: str, *names: str) -> Change:
    """Buffers in every layer, as versions before 4.31 wrote them."""

    def change(tensors: Tensors) -> Tensors:
        extra = {}
        for i in range(2):
            for name in names:
                extra[f"{layers}.{i}.{name}"] = {
                    "bias": torch.ones(1, 1, 20, 20, dtype=torch.bool).tril(),
                    "masked_bias": torch.tensor(-1e9),
                }.get(name.rpartition(".")[2], torch.ones(4))
        return {**tensors, **extra}

    return change


def compiled_inside(tensors: Tensors) -> Tensors:
    return {name.replace("encoder.", "encoder._orig_mod.", 1): t for name, t in tensors.items()}


def weight_normed(name: str, length: str, direction: str) -> Change:
    """As PyTorch keeps a weight in two parts, under its old or its new names."""

    def change(tensors: Tensors) -> Tensors:
        whole = tensors.pop(f"{name}.weight")
        layer = torch.nn.Linear(*reversed(whole.shape))
        layer.weight.data = whole
        state = torch.nn.utils.parametrizations.weight_norm(layer).state_dict()
        parts = {length: state[LENGTH], direction: state[DIRECTION]}
        return {**tensors, **{f"{name}.{part}": tensor for part, tensor in parts.items()}}

    return change


LENGTH, DIRECTION = (f"parametrizations.weight.original{i}" for i in range(2))
IDS = torch.arange(160)[None]
PRETRAINED = ("BertForPreTraining", "BertForMaskedLM")
HUB = {
    "gradient_checkpointing": False,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "use_cache": True,
}
POOLER = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
TAGS = {
    "id2label": {str(i): name for i, name in enumerate(("O", "B-PER", "I-PER"))},
    "label2id": {"O": 0, "B-PER": 1, "I-PER": 2},
}
SUMMARIES = {"task_specific_params": {"summarization": {"num_beams": 4, "prefix": "summarize: "}}}
SUMMARY = {
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
}
GOOGLE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "type_vocab_size": 2,
}
BART = {
    "_num_labels": 3,
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "classif_dropout": 0.0,
    "early_stopping": True,
    "extra_pos_embeddings": 2,
    "is_encoder_decoder": True,
    "max_length": 142,
    "normalize_before": False,
    "normalize_embedding": True,
    "output_past": True,
    "prefix": " ",
    "static_position_embeddings": False,
    "num_hidden_layers": 2,
    **SUMMARIES,
}
LLAMA = {
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_sequence_length": 2048,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "float32",
    "pretraining_tp": 1,
}


def of(name: str, kind: str, made_by: str, *changes: Change, **details: Any) -> Layout:
    return Layout(name=name, kind=kind, made_by=made_by, changes=changes, **details)


BERTS = [
    of("bert-base-uncased", "bert", PRETRAINED[0], old_norms, named=PRETRAINED[1], keys=HUB),
    of(
        "bert-base-cased",
        "bert",
        PRETRAINED[0],
        old_norms,
        copied(cls__predictions__decoder__weight="bert.embeddings.word_embeddings.weight"),
        named=PRETRAINED[1],
        keys={"model_type": "bert", **HUB},
    ),
    of("bert-base-chinese", "bert", PRETRAINED[0], old_norms, named=PRETRAINED[1], keys=POOLER),
    of(
        "bert-base-multilingual-cased",
        "bert",
        PRETRAINED[0],
        named=PRETRAINED[1],
        keys={**HUB, **POOLER},
        pickled=True,
    ),
    of(
        "bert-base-uncased, pytorch_model.bin",
        "bert",
        PRETRAINED[0],
        old_norms,
        named=PRETRAINED[1],
        pickled=True,
    ),
    of(
        "bert-large squad",
        "bert",
        "BertForQuestionAnswering",
        plus(
            bert__embeddings__position_ids=IDS,
            bert__pooler__dense__bias=torch.ones(32),
            bert__pooler__dense__weight=torch.ones(32, 32),
        ),
    ),
    of(
        "dslim/bert-base-NER",
        "bert",
        "BertForTokenClassification",
        plus(
            bert__pooler__dense__weight=torch.ones(32, 32), bert__pooler__dense__bias=torch.ones(32)
        ),
        keys={"_num_labels": 3, **TAGS},
    ),
    of(
        "dbmdz conll03",
        "bert",
        "BertForTokenClassification",
        plus(
            bert__pooler__dense__weight=torch.ones(32, 32),
            bert__pooler__dense__bias=torch.ones(32),
            bert__embeddings__position_ids=IDS,
        ),
        keys={"_num_labels": 3, **TAGS, **POOLER},
    ),
    of(
        "nlptown sentiment",
        "bert",
        "BertForSequenceClassification",
        plus(bert__embeddings__position_ids=IDS),
        keys={
            **POOLER,
            "_num_labels": 2,
            "finetuning_task": "sentiment-analysis",
            "output_past": True,
        },
    ),
    of(
        "ms-marco cross-encoder",
        "bert",
        "BertForSequenceClassification",
        keys={
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
            "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
        },
    ),
    of(
        "sentence-transformers MiniLM",
        "bert",
        "BertModel",
        plus(embeddings__position_ids=IDS),
        keys=HUB,
    ),
    of("BertModel named, MaskedLM saved", "bert", PRETRAINED[0], named="BertModel"),
    of(
        "Google's bert_config.json",
        "bert",
        "BertForMaskedLM",
        old_norms,
        named=None,
        keys={**GOOGLE, **POOLER},
        lacks=("model_type",),
        config_name="bert_config.json",
    ),
    of(
        "config.json of 2019",
        "bert",
        "BertForSequenceClassification",
        old_norms,
        keys={
            **GOOGLE,
            "num_labels": 2,
            "finetuning_task": "mrpc",
            "torchscript": False,
            "output_attentions": False,
            "pruned_heads": {},
        },
        lacks=("model_type",),
        pickled=True,
    ),
    of(
        "trainer's words",
        "bert",
        "BertForMaskedLM",
        keys={
            "total_flos": 108544770048000,
            "tie_encoder_decoder": False,
            "is_encoder_decoder": False,
            "max_input_length": 512,
            "use_embedding_model": True,
        },
    ),
    of("no class, no head", "bert", "BertModel", named=None, keys=HUB),
    of("no class, pre-trained", "bert", PRETRAINED[0], named=None),
    of(
        "a class in TensorFlow's words",
        "bert",
        "BertForSequenceClassification",
        named="TFBertForSequenceClassification",
        loads="BertForSequenceClassification",
    ),
    of(
        "a class of one's own",
        "bert",
        "BertForSequenceClassification",
        named="BertForSentiment",
        loads="BertForSequenceClassification",
    ),
]
WRAPPED = [
    of(
        "DistributedDataParallel",
        "bert",
        "BertForTokenClassification",
        under("module."),
        pickled=True,
    ),
    of("torch.compile", "bert", "BertForMaskedLM", under("_orig_mod.")),
    of("torch.compile of a part", "bert", "BertForMaskedLM", compiled_inside),
    of(
        "compiled and distributed",
        "gpt2",
        "GPT2LMHeadModel",
        under("_orig_mod.module."),
        pickled=True,
    ),
    of(
        "lightning",
        "bert",
        "BertForSequenceClassification",
        under("model."),
        pickled=True,
        wrap=lambda t: {
            "epoch": 3,
            "global_step": 7,
            "pytorch-lightning_version": "2.1.0",
            "state_dict": t,
            "optimizer_states": [{"state": {0: torch.ones(3)}}],
        },
    ),
    of(
        "lightning, a Llama",
        "llama",
        "LlamaForCausalLM",
        under("model."),
        pickled=True,
        wrap=lambda t: {"state_dict": t},
    ),
    of(
        "model and optimizer",
        "gpt2",
        "GPT2LMHeadModel",
        pickled=True,
        wrap=lambda t: {"model": t, "optimizer": {"state": {}, "lr": 1e-3}, "iter_num": 3},
    ),
    of(
        "model_state_dict",
        "t5",
        "T5ForConditionalGeneration",
        pickled=True,
        wrap=lambda t: {"epoch": 1, "model_state_dict": t},
    ),
    of("DeepSpeed", "llama", "LlamaForCausalLM", pickled=True, wrap=lambda t: {"module": t}),
    of(
        "a number beside the tensors",
        "gpt2",
        "GPT2LMHeadModel",
        pickled=True,
        wrap=lambda t: {**t, "step": 300},
    ),
    of(
        "weight norm",
        "roberta",
        "RobertaForMaskedLM",
        weight_normed("roberta.encoder.layer.0.output.dense", LENGTH, DIRECTION),
        weight_normed("roberta.encoder.layer.1.output.dense", "weight_g", "weight_v"),
    ),
]
ENCODERS = [
    of(
        "distilbert-base-uncased",
        "distilbert",
        "DistilBertForMaskedLM",
        keys={"tie_weights_": True, "qa_dropout": 0.1},
    ),
    of(
        "distilbert sst-2",
        "distilbert",
        "DistilBertForSequenceClassification",
        plus(distilbert__embeddings__position_ids=IDS),
        keys={
            "tie_weights_": True,
            "finetuning_task": "sst-2",
            "output_past": True,
            "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        },
    ),
    of(
        "distilbert squad",
        "distilbert",
        "DistilBertForQuestionAnswering",
        keys={"tie_weights_": True, "sinusoidal_pos_embds": False},
    ),
    of(
        "distilbert with BERT's words",
        "distilbert",
        "DistilBertForMaskedLM",
        keys={
            "attention_probs_dropout_prob": 0.1,
            "hidden_act": "gelu",
            "intermediate_size": 512,
            "type_vocab_size": 2,
            "num_attention_heads": 2,
        },
    ),
    of(
        "roberta-base",
        "roberta",
        "RobertaForMaskedLM",
        plus(
            roberta__embeddings__position_ids=IDS,
            roberta__pooler__dense__weight=torch.ones(32, 32),
            roberta__pooler__dense__bias=torch.ones(32),
        ),
        copied(
            lm_head__decoder__weight="roberta.embeddings.word_embeddings.weight",
            lm_head__decoder__bias="lm_head.bias",
        ),
        pickled=True,
    ),
    of(
        "roberta-large-mnli",
        "roberta",
        "RobertaForSequenceClassification",
        plus(
            roberta__embeddings__position_ids=IDS,
            roberta__pooler__dense__weight=torch.ones(32, 32),
            roberta__pooler__dense__bias=torch.ones(32),
        ),
        keys={"_num_labels": 2},
    ),
    of(
        "deepset/roberta-base-squad2",
        "roberta",
        "RobertaForQuestionAnswering",
        plus(roberta__embeddings__position_ids=IDS),
        keys={"language": "english", "name": "Roberta"},
    ),
    of(
        "xlm-roberta-base",
        "xlm-roberta",
        "XLMRobertaForMaskedLM",
        plus(
            roberta__embeddings__position_ids=IDS,
            roberta__pooler__dense__weight=torch.ones(32, 32),
            roberta__pooler__dense__bias=torch.ones(32),
        ),
        keys={"output_past": True},
    ),
    of(
        "albert-base-v2",
        "albert",
        "AlbertForPreTraining",
        named="AlbertForMaskedLM",
        keys={
            "down_scale_factor": 1,
            "gap_size": 0,
            "net_structure_type": 0,
            "layers_to_keep": [],
            "num_memory_blocks": 0,
            "inner_group_num": 1,
        },
    ),
    of(
        "electra-small-discriminator",
        "electra",
        "ElectraForPreTraining",
        plus(electra__embeddings__position_ids=IDS),
        keys={"summary_last_dropout": 0.1},
    ),
    of(
        "electra generator",
        "electra",
        "ElectraForMaskedLM",
        copied(generator_lm_head__weight="electra.embeddings.word_embeddings.weight"),
    ),
    of(
        "deberta-base",
        "deberta",
        "DebertaModel",
        under("deberta."),
        plus(
            deberta__embeddings__position_embeddings__weight=torch.ones(160, 32),
            lm_predictions__lm_head__bias=torch.ones(99),
            lm_predictions__lm_head__dense__weight=torch.ones(32, 32),
        ),
        named=None,
        keys={"padding_idx": 0},
        pickled=True,
    ),
    of(
        "deberta-v3-base",
        "deberta-v2",
        "DebertaV2Model",
        under("deberta."),
        plus(
            lm_predictions__lm_head__bias=torch.ones(99),
            mask_predictions__classifier__weight=torch.ones(1, 32),
            deberta__embeddings__position_embeddings__weight=torch.ones(160, 32),
        ),
        named=None,
        pickled=True,
    ),
    of(
        "deberta-v3 zero-shot",
        "deberta-v2",
        "DebertaV2ForSequenceClassification",
        plus(deberta__embeddings__position_ids=IDS),
        keys={"id2label": {"0": "entailment", "1": "not_entailment"}, "pooler_size": 32},
    ),
    of(
        "longformer-base-4096",
        "longformer",
        "LongformerForMaskedLM",
        plus(
            longformer__embeddings__position_ids=IDS,
            longformer__pooler__dense__weight=torch.ones(32, 32),
            longformer__pooler__dense__bias=torch.ones(32),
        ),
        named=None,
        keys={"attention_mode": "longformer", "ignore_attention_mask": False},
    ),
    of(
        "bigbird-roberta-base",
        "big_bird",
        "BigBirdForPreTraining",
        plus(bert__embeddings__position_ids=IDS),
        keys={"gradient_checkpointing": False},
    ),
    of(
        "xlnet-base-cased",
        "xlnet",
        "XLNetLMHeadModel",
        keys={
            "untie_r": True,
            "bi_data": False,
            "d_head": 8,
            "end_n_top": 5,
            "start_n_top": 5,
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 250}},
        },
    ),
    of(
        "xlm-mlm-en-2048",
        "xlm",
        "XLMWithLMHeadModel",
        plus(transformer__position_ids=IDS),
        keys={
            "bos_index": 0,
            "eos_index": 1,
            "pad_index": 2,
            "n_words": 99,
            "max_vocab": -1,
            "emb_dim": 32,
        },
    ),
    of(
        "modernbert-base",
        "modernbert",
        "ModernBertForMaskedLM",
        keys={"layer_norm_eps": 1e-5, "position_embedding_type": "absolute"},
    ),
    of(
        "vit-base-patch16-224",
        "vit",
        "ViTForImageClassification",
        plus(
            vit__pooler__dense__weight=torch.ones(32, 32), vit__pooler__dense__bias=torch.ones(32)
        ),
    ),
    of("vit-in21k", "vit", "ViTModel"),
]
SEQUENCES = [
    of(
        "bart-base",
        "bart",
        "BartModel",
        copied(
            encoder__embed_tokens__weight="shared.weight",
            decoder__embed_tokens__weight="shared.weight",
        ),
        keys=BART,
    ),
    of(
        "bart-large-cnn",
        "bart",
        "BartForConditionalGeneration",
        plus(
            model__encoder__version=torch.tensor([3.0]), model__decoder__version=torch.tensor([3.0])
        ),
        keys=BART,
    ),
    of(
        "bart-large-mnli",
        "bart",
        "BartForSequenceClassification",
        plus(model__encoder__version=torch.tensor([3.0])),
        keys={**BART, "id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"}},
    ),
    of(
        "distilbart",
        "bart",
        "BartForConditionalGeneration",
        keys={
            **BART,
            "replacing_rate": 0,
            "student_decoder_layers": None,
            "student_encoder_layers": None,
            "save_step": 22,
        },
    ),
    of(
        "opus-mt",
        "marian",
        "MarianMTModel",
        keys={**BART, "static_position_embeddings": True, "normalize_embedding": False},
        pickled=True,
    ),
    of(
        "mbart-large-50",
        "mbart",
        "MBartForConditionalGeneration",
        keys={"_num_labels": 3, "add_final_layer_norm": True, "normalize_before": True},
    ),
    of(
        "m2m100_418M",
        "m2m_100",
        "M2M100ForConditionalGeneration",
        plus(
            model__encoder__version=torch.tensor([3.0]),
            model__encoder__embed_positions___float_tensor=torch.ones(1),
        ),
        keys={"early_stopping": True, "max_length": 200},
    ),
    of(
        "pegasus-xsum",
        "pegasus",
        "PegasusForConditionalGeneration",
        keys={
            **BART,
            "static_position_embeddings": True,
            "add_final_layer_norm": True,
            "normalize_before": True,
            "normalize_embedding": False,
        },
    ),
    of(
        "t5-small",
        "t5",
        "T5ForConditionalGeneration",
        copied(
            encoder__embed_tokens__weight="shared.weight",
            decoder__embed_tokens__weight="shared.weight",
            lm_head__weight="shared.weight",
        ),
        plus(
            decoder__block__0__layer__1__EncDecAttention__relative_attention_bias__weight=torch.ones(
                32, 4
            )
        ),
        keys={"n_positions": 512, "output_past": True, **SUMMARIES},
    ),
    of(
        "flan-t5-small",
        "t5",
        "T5ForConditionalGeneration",
        keys={
            "dense_act_fn": "gelu_new",
            "is_gated_act": True,
            "n_positions": 512,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        tiny=1,
    ),
    of(
        "another act than feed_forward_proj",
        "t5",
        "T5ForConditionalGeneration",
        keys={"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"},
    ),
    of("t5 encoder of a whole T5", "t5", "T5ForConditionalGeneration", named="T5EncoderModel"),
    of(
        "mt5-small",
        "mt5",
        "MT5ForConditionalGeneration",
        keys={"tokenizer_class": "T5Tokenizer", "output_past": True},
    ),
    of(
        "whisper-tiny",
        "whisper",
        "WhisperForConditionalGeneration",
        copied(proj_out__weight="model.decoder.embed_tokens.weight"),
        keys={
            "forced_decoder_ids": [[1, 5]],
            "max_length": 448,
            "median_filter_width": 7,
            "apply_spec_augment": False,
            "num_hidden_layers": 2,
        },
    ),
]
DECODERS = [
    of(
        "gpt2",
        "gpt2",
        "GPT2LMHeadModel",
        without("transformer."),
        masks("h", "attn.bias"),
        keys={
            **SUMMARY,
            "n_ctx": 160,
            "activation_function": "gelu_new",
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        },
    ),
    of(
        "distilgpt2",
        "gpt2",
        "GPT2LMHeadModel",
        masks("transformer.h", "attn.bias", "attn.masked_bias"),
        copied(lm_head__weight="transformer.wte.weight"),
        keys={**SUMMARY, "_num_labels": 1, "n_ctx": 160},
        pickled=True,
    ),
    of(
        "GPT2Model named, a classifier saved",
        "gpt2",
        "GPT2ForSequenceClassification",
        named="GPT2Model",
    ),
    of(
        "gpt2 of a trainer",
        "gpt2",
        "GPT2LMHeadModel",
        copied(lm_head__weight="transformer.wte.weight"),
        keys={
            "author": "A",
            "batch_size": 32,
            "epochs": 20,
            "is_decoder": False,
            "license": "MIT",
            "hidden_size": 32,
            "num_attention_heads": 4,
            "tokenizer": "x",
        },
    ),
    of(
        "gpt-neo-125m",
        "gpt_neo",
        "GPTNeoForCausalLM",
        masks("transformer.h", "attn.attention.bias", "attn.attention.masked_bias"),
        keys={"attention_layers": ["global", "local"], **SUMMARY},
    ),
    of(
        "gpt-j-6b",
        "gptj",
        "GPTJForCausalLM",
        masks("transformer.h", "attn.bias", "attn.masked_bias"),
        keys=SUMMARY,
    ),
    of(
        "pythia-70m",
        "gpt_neox",
        "GPTNeoXForCausalLM",
        masks(
            "gpt_neox.layers",
            "attention.bias",
            "attention.masked_bias",
            "attention.rotary_emb.inv_freq",
        ),
        keys={"tie_word_embeddings": False},
    ),
    of(
        "openai-gpt",
        "openai-gpt",
        "OpenAIGPTLMHeadModel",
        without("transformer."),
        masks("h", "attn.bias"),
        keys={"n_ctx": 160, "afn": "gelu", **SUMMARY},
    ),
    of(
        "opt-125m",
        "opt",
        "OPTForCausalLM",
        copied(lm_head__weight="model.decoder.embed_tokens.weight"),
        keys={"activation_dropout": 0.0, "prefix": "</s>", "output_projection": True},
    ),
    of("opt-125m, bare", "opt", "OPTForCausalLM", without("model.")),
    of(
        "llama-7b",
        "llama",
        "LlamaForCausalLM",
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        named="LLaMAForCausalLM",
        loads="LlamaForCausalLM",
        keys=LLAMA,
        pickled=True,
    ),
    of(
        "llama-2",
        "llama",
        "LlamaForCausalLM",
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        keys={
            **LLAMA,
            "rope_scaling": None,
            "sequence_parallel_enabled": False,
            "move_model_to_device": True,
        },
    ),
    of(
        "Llama of every key",
        "llama",
        "LlamaForCausalLM",
        keys={
            **LLAMA,
            "is_decoder": False,
            "is_encoder_decoder": False,
            "add_cross_attention": False,
            "pruned_heads": {},
            "tie_encoder_decoder": False,
            "cross_attention_hidden_size": None,
            "is_causal": True,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 2,
        },
    ),
    of(
        "mistral-7b",
        "mistral",
        "MistralForCausalLM",
        keys={"is_decoder": False, "pruned_heads": {}, "bos_token_id": 1},
    ),
    of(
        "qwen2",
        "qwen2",
        "Qwen2ForCausalLM",
        keys={"use_mrope": False, "max_window_layers": 21, "mask_value": -10000},
    ),
    of("qwen3", "qwen3", "Qwen3ForCausalLM", keys={"tokenizer": "qwen2"}),
    of(
        "phi-2",
        "phi",
        "PhiForCausalLM",
        masks("model.layers", "self_attn.rotary_emb.inv_freq"),
        keys={
            "rotary_dim": 32,
            "attention_bias": False,
            "auto_map": {
                "AutoConfig": "configuration_phi.PhiConfig",
                "AutoModelForCausalLM": "modeling_phi.PhiForCausalLM",
            },
        },
    ),
    of("gemma-2b", "gemma", "GemmaForCausalLM", keys={"rope_scaling": None}),
    of(
        "gemma-2-2b",
        "gemma2",
        "Gemma2ForCausalLM",
        keys={"cache_implementation": "hybrid", "sliding_window_size": 4096},
    ),
    of(
        "layers that predict ahead",
        "qwen2",
        "Qwen2ForCausalLM",
        plus(mtp__fc__weight=torch.ones(32, 64), model__layers__2__mlp__weight=torch.ones(32)),
        keys={"num_nextn_predict_layers": 1},
    ),
]
LAYOUTS = [*BERTS, *WRAPPED, *ENCODERS, *SEQUENCES, *DECODERS]
