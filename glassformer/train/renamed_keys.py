"""Recipe keys of version 0.1 and their new names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

RENAMED_KEYS = {
    "model.folder": "base",
    "model.layers": "num_layers",
    "model.heads": "num_heads",
    "model.width": "hidden_size",
    "model.ffn": "intermediate_size",
    "model.context": "context_length",
    "model.settings": "config",
    "model.make": "init_missing",
    "model.drop": "ignore_unexpected",
    "model.vectors": "word_vectors",
    "tokenizer.kind": "type",
    "tokenizer.size": "vocab_size",
    "tokenizer.special": "special_tokens",
    "data.valid": "validation",
    "data.names": "column_names",
    "data.quotes": "quoting",
    "data.word": "word_column",
    "data.tag": "tag_column",
    "data.documents": "document_boundary",
    "data.arrange": "batching",
    "data.length": "sequence_length",
    "data.tokens": "tokens_per_batch",
    "data.shapes": "max_batch_shapes",
    "data.across": "attend_across_documents",
    "data.processes": "num_workers",
    "train.steps": "max_steps",
    "train.batch": "batch_size",
    "train.accumulate": "gradient_accumulation_steps",
    "train.schedule": "lr_scheduler",
    "train.warmup": "warmup_steps",
    "train.floor": "min_lr_ratio",
    "train.cut": "cut_fraction",
    "train.clip": "max_grad_norm",
    "train.layer_decay": "layerwise_lr_decay",
    "train.unfreeze_every": "gradual_unfreezing_steps",
    "train.freeze_body": "freeze_base",
    "train.checkpoint": "gradient_checkpointing",
    "train.average": "ema_decay",
    "train.average_after": "averaging_patience",
    "train.save_every": "save_steps",
    "train.evaluate_every": "eval_steps",
    "train.evaluate_batches": "max_eval_batches",
    "train.best": "metric_for_best_model",
    "train.patience": "early_stopping_patience",
    "adapter.kind": "type",
    "adapter.targets": "target_modules",
    "adapter.also": "modules_to_save",
    "adapter.rank_stable": "use_rslora",
    "adapter.biases": "bias",
    "adapter.warmup": "warmup_steps",
    "adapter.final": "final_steps",
    "adapter.every": "allocation_interval",
    "adapter.orthogonality": "orth_reg_weight",
    "adapter.steps": "max_steps",
    "adapter.width": "bottleneck_size",
    "adapter.tokens": "num_virtual_tokens",
    "adapter.hidden": "encoder_hidden_size",
    "adapter.text": "init_text",
    "scale.tensor": "tensor_parallel_size",
    "scale.timeout": "timeout_minutes",
    "run.folder": "out",
    "run.log_every": "logging_steps",
    "run.keep_every": "snapshot_steps",
    "run.keep": "snapshots",
}
RENAMED_OPTIONS = {  # of objectives; an option is renamed if the objective has the new one
    "length": "max_length",
    "smoothing": "label_smoothing",
    "several": "multi_label",
    "both_ways": "prefix_lm",
    "memory": "memory_length",
    "activation": "activation_regularization",
    "temporal": "temporal_regularization",
    "partial": "partial_prediction",
    "spans": "max_span_length",
    "permute": "sentence_permutation",
    "rotate": "document_rotation",
    "delete": "token_deletion",
    "infill": "text_infilling",
    "mask": "token_masking",
    "span": "mean_span_length",
    "settings": "task_options",
    "hard": "hard_weight",
    "soft": "soft_weight",
    "hidden": "hidden_weight",
    "cosine": "cosine_weight",
    "layers": "match_layers",
    "until": "hidden_until",
    "probability": "mlm_probability",
    "masked": "mask_replace_prob",
    "random": "random_replace_prob",
    "whole_words": "whole_word_mask",
    "static": "num_static_masks",
    "most": "max_predictions",
    "size": "generator_size",
    "weight": "discriminator_weight",
    "short": "short_seq_prob",
    "source_length": "max_source_length",
    "target_length": "max_target_length",
    "prefix": "source_prefix",
    "question": "max_question_length",
    "longest": "max_answer_length",
    "impossible": "allow_no_answer",
    "density": "noise_density",
    "mean": "mean_noise_span_length",
}
RENAMED_VALUES = {
    "data.batching": {
        "stream": "concatenate",
        "varying": "variable-bptt",
        "single": "pad",
        "buckets": "bucket",
    },
    "data.document_boundary": {"blank": "blank-line", "lines": "line"},
}


def renamed_key(table: str, key: str) -> str | None:
    """Returns the new name of an old recipe key; None if the key is not an old one."""
    return RENAMED_KEYS.get(f"{table}.{key}")


def renamed_option(key: str, known: Collection[str]) -> str | None:
    """Returns the new name of an objective's option among its known ones; None if none fits."""
    new = RENAMED_OPTIONS.get(key)
    return new if new is not None and new in known and key not in known else None


def migrate_table(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table of version 0.1, except an [objective] table, with the new keys and values."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        key = renamed_key(name, key) or key
        values = RENAMED_VALUES.get(f"{name}.{key}", {})
        found[key] = values.get(value, value) if isinstance(value, str) else value
    return found


def migrate_options(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns the options of an objective of version 0.1 with the new names.

    Args:
        options: The [objective] table.
        known: The options that the objective has now, with those of a mixture if it is in one.
    """
    return {renamed_option(key, known) or key: value for key, value in options.items()}
