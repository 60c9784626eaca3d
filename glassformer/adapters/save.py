"""Saving of an adapter in the folder layout of the `peft` library.

adapter_config.json describes the adapter; adapter_model.safetensors holds its tensors under the
published names of the layers they belong to. peft has no bottleneck adapters: they are saved in the
same layout, with a type that peft does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.adapters.adapter import Adapter
from glassformer.adapters.base_model import AdapterBase
from glassformer.adapters.low_rank import BottleneckAdapter, LowRank
from glassformer.adapters.prompt_tuning import PrefixKeys, PromptTokens
from glassformer.adapters.settings import AdaLoRA, BitFit, Bottleneck, LoRA
from glassformer.adapters.target_modules import (
    TargetModule,
    choose,
    find_target_modules,
    matcher,
    shortest,
)
from glassformer.spec import ModelSpec
from glassformer.storage.files import write_json
from glassformer.weights.folder_kind import ADAPTER_CONFIG, ADAPTER_TENSORS
from glassformer.weights.mapping import ADDED, parts_of
from glassformer.weights.pretrained import PretrainedTransformer

# prefixes from peft's wrappers around a model, and around one with only a prefix or prompt
FRONT = "base_model.model."
FRONT_OF_PROMPTED = "base_model."


def write_adapter(
    model: PretrainedTransformer, adapter: Adapter, folder: Path, base: AdapterBase | None
) -> None:
    """Writes an adapter into an existing folder.

    Args:
        model: The adapted model.
        adapter: The adapter to save.
        folder: The folder to write to.
        base: The base model, which adapter_config.json names.
    """
    named = {"base_model_name_or_path": None, "revision": None} if base is None else base.in_peft()
    config = {**named, "inference_mode": True, **_described(model, adapter)}
    tensors = {
        # a clone, because safetensors rejects tied tensors that share storage
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in _written(model, adapter).items()
    }
    save_file(tensors, folder / ADAPTER_TENSORS, metadata={"format": "pt"})
    write_json(folder / ADAPTER_CONFIG, config)


def _described(model: PretrainedTransformer, adapter: Adapter) -> dict[str, Any]:
    """Returns the contents of adapter_config.json."""
    settings = adapter.settings
    whole = _whole_modules(model, adapter)
    common: dict[str, Any] = {"modules_to_save": whole or None, "task_type": None}
    if isinstance(settings, LoRA | AdaLoRA):
        names = list(adapter.places)
        common |= {
            "lora_alpha": settings.alpha,
            "lora_dropout": settings.dropout,
            "fan_in_fan_out": any(place.transposed for place in adapter.places.values()),
            "target_modules": shortest(names, find_target_modules(model)),
            "bias": getattr(settings, "bias", "none"),
        }
    if isinstance(settings, LoRA):
        parts = {name: part for name, part in adapter.parts.items() if isinstance(part, LowRank)}
        ranks = {name: len(part.a) for name, part in parts.items()}
        root = settings.use_rslora
        alphas = {n: p.scale * (ranks[n] ** 0.5 if root else ranks[n]) for n, p in parts.items()}
        return common | {
            "peft_type": "LORA",
            "r": settings.rank,
            "use_rslora": root,
            "rank_pattern": {n: r for n, r in ranks.items() if r != settings.rank},
            "alpha_pattern": {
                n: a for n, a in alphas.items() if abs(a - settings.alpha) > 1e-6 * abs(a)
            },
        }
    if isinstance(settings, AdaLoRA):
        return common | {
            "peft_type": "ADALORA",
            "init_r": settings.rank,
            "target_r": settings.target_rank,
            "tinit": settings.warmup_steps,
            "tfinal": settings.final_steps,
            "deltaT": settings.allocation_interval,
            "beta1": settings.betas[0],
            "beta2": settings.betas[1],
            "orth_reg_weight": settings.orth_reg_weight,
            "total_step": settings.max_steps or settings.warmup_steps + settings.final_steps + 1,
            "rank_pattern": {f"{n}.lora_E": _mask(adapter, n).tolist() for n in adapter.places},
        }
    if isinstance(settings, BitFit):
        still = _zero_update_module(model)
        return common | {
            "peft_type": "LORA", "r": 1, "lora_alpha": 1, "bias": "all",
            "target_modules": [still.published], "fan_in_fan_out": still.transposed,
        }  # fmt: skip
    if isinstance(settings, Bottleneck):
        return common | {
            "peft_type": "BOTTLENECK",
            "width": settings.bottleneck_size,
            "activation": settings.activation,
            "places": settings.places,
        }
    wrapper = adapter.wrapper
    assert wrapper is not None
    common |= {"num_virtual_tokens": len(wrapper.weight), "task_type": task_of(model.spec)}
    both = model.spec.encoder is not None and model.spec.decoder is not None
    if isinstance(wrapper, PromptTokens):
        blocks = model.spec.last_stack.attention_blocks
        return common | {
            "peft_type": "PROMPT_TUNING",
            "num_transformer_submodules": 1,
            "token_dim": wrapper.weight.shape[1],
            "num_attention_heads": blocks[0].attention.heads if blocks else 1,
            "num_layers": len(model.spec.last_stack.order),
        }
    return common | {
        "peft_type": "PREFIX_TUNING",
        "num_transformer_submodules": 2 if both else 1,
        "token_dim": wrapper.heads * wrapper.dim,
        "num_attention_heads": wrapper.heads,
        "num_layers": wrapper.layers,
        "encoder_hidden_size": wrapper.heads * wrapper.dim,
        "prefix_projection": False,  # the output of the projection is saved, not the projection
    }


def _written(model: PretrainedTransformer, adapter: Adapter) -> dict[str, Tensor]:
    """Returns the adapter's tensors under peft's names."""
    tensors: dict[str, Tensor] = {}
    for name, part in adapter.parts.items():
        named: dict[str, Tensor]
        if isinstance(part, BottleneckAdapter):
            named = {f"bottleneck.{key}": tensor for key, tensor in part.named_parameters()}
        else:
            b = adapter.places[name].hf(part.b)
            if part.e is None:
                named = {"lora_A.weight": part.a, "lora_B.weight": b}
            else:
                mask = _mask(adapter, name)
                named = {"lora_A": part.a[mask], "lora_B": b[:, mask], "lora_E": part.e[mask]}
        tensors |= {f"{FRONT}{name}.{key}": tensor for key, tensor in named.items()}
    adapted = set(adapter.places)
    if isinstance(adapter.settings, BitFit):  # peft stores biases with ranks only: add a zero one
        still = _zero_update_module(model)
        adapted = {still.published}
        rows = len(still.order)
        width = still.linear.in_features
        tensors |= {
            f"{FRONT}{still.published}.lora_A.weight": torch.zeros(1, width),
            f"{FRONT}{still.published}.lora_B.weight": torch.zeros(rows, 1),
        }
    if isinstance(adapter.wrapper, PrefixKeys):
        tensors["prompt_embeddings"] = adapter.wrapper.rows()
    elif isinstance(adapter.wrapper, PromptTokens):
        tensors["prompt_embeddings"] = adapter.wrapper.weight
    front = FRONT if adapter.wrapper is None else FRONT_OF_PROMPTED
    for their, piece in _whole_tensors(model, adapter).items():
        module, _, leaf = their.rpartition(".")
        inner = f"{module}.base_layer.{leaf}" if module in adapted else their
        tensors[front + inner] = piece
    return tensors


def _whole_tensors(model: PretrainedTransformer, adapter: Adapter) -> dict[str, Tensor]:
    """Returns the tensors to save in full, by published names.

    These are the tensors that the adapter has its own versions of, and all other tensors of the
    saved modules, because peft reads these modules as a whole. The values come from the model and
    not from the adapter, because they may have been gathered from several processes.
    """
    find, inside = matcher(model), tuple(f"{name}." for name in _whole_modules(model, adapter))
    tensors: dict[str, Tensor] = {}
    for local, tensor in model.named_parameters(remove_duplicate=False):
        where = find(local) if ADDED.isdisjoint(local.split(".")) else None
        if where is None:
            continue
        names = [n for n in (*where.hf, *where.also) if n.startswith(inside)]
        if local in adapter.own:
            names += where.hf
        if names:
            pieces = where.rule.op.write(tensor, parts_of(model, local))
            known = dict(zip(where.hf, pieces, strict=True)) | dict.fromkeys(where.also, pieces[0])
            tensors |= {name: known[name] for name in names}
    return tensors


def _whole_modules(model: PretrainedTransformer, adapter: Adapter) -> list[str]:
    """Returns the published modules to list in `modules_to_save`.

    These are the modules that the adapter has full versions of, except for biases that peft finds
    by its own `bias` setting. Of nested modules, only the outer ones are listed.
    """
    find = matcher(model)
    settings, layers = adapter.settings, {place.module for place in adapter.places.values()}
    biases = "all" if isinstance(settings, BitFit) else getattr(settings, "bias", "none")

    def known(local: str) -> bool:
        module, _, leaf = local.rpartition(".")
        inside = biases == "all" or (biases == "lora_only" and module in layers)
        return leaf == "bias" and inside

    modules = {
        their.rpartition(".")[0]
        for local in adapter.own
        if not known(local)
        for their in find(local).hf
    }
    return sorted(m for m in modules if not any(m.startswith(f"{outer}.") for outer in modules))


def _zero_update_module(model: PretrainedTransformer) -> TargetModule:
    """Returns a layer for the zero update that peft needs to store biases."""
    return choose(find_target_modules(model), None)[0]


def _mask(adapter: Adapter, name: str) -> Tensor:
    """Returns which ranks of an AdaLoRA layer are still in use, [rank]."""
    part = adapter.parts[name]
    importance = getattr(part, "importance", None)
    assert isinstance(part, LowRank)
    return torch.ones(len(part.a), dtype=torch.bool) if importance is None else importance.mask


def task_of(spec: ModelSpec) -> str:
    """Returns peft's task type of the model, which tells peft where virtual tokens go."""
    if spec.encoder is not None and spec.decoder is not None:
        return "SEQ_2_SEQ_LM"
    head = next((head for head in spec.heads if head.num_outputs is not None), None)
    if head is None:
        return "FEATURE_EXTRACTION"
    if head.pooling != "each":
        return "SEQ_CLS"
    if head.num_outputs == spec.last_stack.embed.vocabulary:
        return "CAUSAL_LM"
    return "QUESTION_ANS" if head.name == "span" else "TOKEN_CLS"
