"""Adapters room, folders: an adapter in the layout of the `peft` library, written and read.

adapter_config.json says what it is, adapter_model.safetensors holds its tensors under the published
names of the layers they belong to. peft has no bottleneck adapters; those are saved alike, under a
type that it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.adapters.adapter import DEFAULT, Adapter
from glassformer.adapters.add import add, add_rank, begin, finish, gather, within
from glassformer.adapters.allocate import watch
from glassformer.adapters.before import PrefixKeys, PromptTokens
from glassformer.adapters.beside import LowRank, Neck
from glassformer.adapters.places import Host, choose, find_places, matcher, shortest
from glassformer.adapters.settings import (
    AdaLoRA,
    BitFit,
    Bottleneck,
    LoRA,
    Prefix,
    Prompt,
    Settings,
    nearest,
    scale_of,
)
from glassformer.errors import GlassformerError
from glassformer.spec import ModelSpec
from glassformer.weights.plan import parts_of
from glassformer.weights.save import whole_folder, write_json

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
FRONT = "base_model.model."  # peft's wrappers around a model
RANKS = re.compile(r"(.+)\.lora_([ABE])(?:\.weight)?")
NECKS = re.compile(r"(.+)\.bottleneck\.((?:down|up)\.(?:weight|bias))")
UNKNOWN = (  # features of peft's LoRA that change what is computed, and are not ours
    "use_dora", "lora_bias", "layer_replication", "target_parameters", "trainable_token_indices",
    "use_qalora", "use_bdlora", "alora_invocation_tokens", "kasa_config", "arrow_config",
)  # fmt: skip


def save_adapter(model: Host, adapter: Adapter, folder: str | Path, base: str | None) -> None:
    """Writes the folder, wholly or not at all; `base` is where the model itself can be found."""
    config = {"base_model_name_or_path": base, "inference_mode": True, "revision": None}
    config |= _described(model, adapter)
    tensors = {name: t.detach().contiguous().cpu() for name, t in _written(model, adapter).items()}
    with whole_folder(Path(folder)) as draft:
        save_file(tensors, draft / TENSORS, metadata={"format": "pt"})
        write_json(draft / CONFIG, config)


def _described(model: Host, adapter: Adapter) -> dict[str, Any]:
    settings = adapter.settings
    whole = _whole_modules(model, adapter)
    common: dict[str, Any] = {"modules_to_save": whole or None, "task_type": None}
    if isinstance(settings, LoRA | AdaLoRA):
        names = list(adapter.places)
        common |= {
            "lora_alpha": settings.alpha,
            "lora_dropout": settings.dropout,
            "fan_in_fan_out": any(place.transposed for place in adapter.places.values()),
            "target_modules": shortest(names, find_places(model)),
            "bias": getattr(settings, "biases", "none"),
        }
    if isinstance(settings, LoRA):
        parts = {name: part for name, part in adapter.parts.items() if isinstance(part, LowRank)}
        ranks = {name: len(part.a) for name, part in parts.items()}
        root = settings.rank_stable
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
            "tinit": settings.warmup,
            "tfinal": settings.final,
            "deltaT": settings.every,
            "beta1": settings.betas[0],
            "beta2": settings.betas[1],
            "orth_reg_weight": settings.orthogonality,
            "total_step": settings.steps or settings.warmup + settings.final + 1,
            "rank_pattern": {f"{n}.lora_E": _mask(adapter, n).tolist() for n in adapter.places},
        }
    if isinstance(settings, BitFit):
        (still,) = _still(model)
        return common | {
            "peft_type": "LORA", "r": 1, "lora_alpha": 1, "bias": "all",
            "target_modules": [still.published], "fan_in_fan_out": still.transposed,
        }  # fmt: skip
    if isinstance(settings, Bottleneck):
        return common | {
            "peft_type": "BOTTLENECK",
            "width": settings.width,
            "activation": settings.activation,
            "places": settings.places,
        }
    around = adapter.around
    assert around is not None
    common |= {"num_virtual_tokens": len(around.weight), "task_type": task_of(model.net.spec)}
    both = model.net.spec.encoder is not None and model.net.spec.decoder is not None
    if isinstance(around, PromptTokens):
        blocks = model.net.spec.last_stack.attention_blocks
        return common | {
            "peft_type": "PROMPT_TUNING",
            "num_transformer_submodules": 1,
            "token_dim": around.weight.shape[1],
            "num_attention_heads": blocks[0].attention.heads if blocks else 1,
            "num_layers": len(model.net.spec.last_stack.order),
        }
    return common | {
        "peft_type": "PREFIX_TUNING",
        "num_transformer_submodules": 2 if both else 1,
        "token_dim": around.heads * around.dim,
        "num_attention_heads": around.heads,
        "num_layers": around.layers,
        "encoder_hidden_size": around.heads * around.dim,
        "prefix_projection": False,  # what the small network makes is saved, not the network
    }


def _written(model: Host, adapter: Adapter) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, part in adapter.parts.items():
        if isinstance(part, Neck):
            named = {f"bottleneck.{key}": tensor for key, tensor in part.named_parameters()}
        else:
            b = adapter.places[name].theirs(part.b)
            if part.e is None:
                named = {"lora_A.weight": part.a, "lora_B.weight": b}
            else:
                mask = _mask(adapter, name)
                named = {"lora_A": part.a[mask], "lora_B": b[:, mask], "lora_E": part.e[mask]}
        tensors |= {f"{FRONT}{name}.{key}": tensor for key, tensor in named.items()}
    adapted = set(adapter.places)
    if isinstance(adapter.settings, BitFit):  # peft keeps biases beside ranks: here is one of zero
        (still,) = _still(model)
        adapted = {still.published}
        rows = len(still.order)
        width = still.linear.in_features
        tensors |= {
            f"{FRONT}{still.published}.lora_A.weight": torch.zeros(1, width),
            f"{FRONT}{still.published}.lora_B.weight": torch.zeros(rows, 1),
        }
    if isinstance(adapter.around, PrefixKeys):
        tensors["prompt_embeddings"] = adapter.around.rows()
    elif isinstance(adapter.around, PromptTokens):
        tensors["prompt_embeddings"] = adapter.around.weight
    front = FRONT if adapter.around is None else "base_model."
    find = matcher(model)
    for ours, tensor in adapter.own.items():
        where = find(ours)
        for their, piece in zip(
            where.theirs, where.rule.op.write(tensor, parts_of(model.net, ours)), strict=True
        ):
            module, _, leaf = their.rpartition(".")
            inner = f"{module}.base_layer.{leaf}" if module in adapted else their
            tensors[front + inner] = piece
    return tensors


def load_adapter(model: Host, folder: str | Path, name: str = DEFAULT) -> Adapter:
    """Reads a folder, of peft's or ours, and turns the adapter on."""
    folder = Path(folder)
    config, tensors = _read(folder)
    kind = config.get("peft_type")
    listed = config.get("modules_to_save") or ()  # peft also lists names that no module has
    whole = tuple(end for end in listed if any(within(key, end) for key in tensors))
    if kind in ("LORA", "ADALORA"):
        return _load_ranks(model, config, tensors, name, whole)
    settings: Settings
    if kind == "BOTTLENECK":
        options = {key: config[key] for key in ("width", "activation", "places")}
        settings = Bottleneck(also=whole, **options)
    elif kind in ("PREFIX_TUNING", "PROMPT_TUNING"):
        make = Prefix if kind == "PREFIX_TUNING" else Prompt
        settings = make(tokens=config["num_virtual_tokens"], also=whole)
    else:
        raise GlassformerError(
            f"{folder} holds an adapter of the type {kind!r}; those that can be read are LORA, "
            "ADALORA, PREFIX_TUNING, PROMPT_TUNING and BOTTLENECK."
        )
    adapter = add(model, settings, name)
    targets: dict[str, Tensor] = {
        f"{published}.bottleneck.{key}": tensor
        for published, part in adapter.parts.items()
        for key, tensor in part.named_parameters()
    }
    if adapter.around is not None:
        targets["prompt_embeddings"] = adapter.around.weight
    _fill(adapter, model, tensors, targets)
    return adapter


def _load_ranks(
    model: Host, config: dict[str, Any], tensors: dict[str, Tensor], name: str, whole: tuple[str, ...]
) -> Adapter:
    for feature in UNKNOWN:
        if config.get(feature):
            raise GlassformerError(
                f"The adapter uses {feature}, which is not read here; merge it into its model with "
                "peft and load that."
            )
    ranks: dict[str, dict[str, Tensor]] = {}
    for key in list(tensors):
        found = RANKS.fullmatch(key)
        if found is not None:
            ranks.setdefault(found[1], {})[found[2]] = tensors.pop(key)
    if not ranks:
        raise GlassformerError("The adapter's file holds no low ranks (lora_A, lora_B); get it again.")
    settings = _settings(config, tuple(ranks), whole)
    places = find_places(model)
    if isinstance(settings, LoRA) and settings.biases == "all":
        if not any(bool(parts["B"].any()) for parts in ranks.values()):
            ranks, settings = {}, BitFit(also=whole)  # biases alone, as they are saved here
    adapter = begin(model, settings, name)
    for published, parts in ranks.items():
        if published not in places:
            raise GlassformerError(
                f"The adapter is for a layer {published!r}, which this model does not have; "
                f"{nearest(published, places)}".split("; there are")[0].rstrip(".") + "."
            )
        assert isinstance(settings, LoRA | AdaLoRA)
        place = places[published]
        shape = len(parts["B"]), parts["A"].shape[1]
        own = place.stop - place.start, place.linear.in_features
        if shape != own:
            raise GlassformerError(
                f"The adapter's {published} is for a matrix of {shape[0]} by {shape[1]}, and this "
                f"model's has {own[0]} by {own[1]}; load the model that it was made for."
            )
        adapter.places[published] = place
        rank = len(parts["A"])
        scale = settings.scale
        if isinstance(settings, LoRA):
            alpha = _pattern(config.get("alpha_pattern"), published, settings.alpha)
            scale = scale_of(alpha, rank, settings.rank_stable)
        add_rank(adapter, place, rank, scale)
        part = adapter.parts[published]
        assert isinstance(part, LowRank)
        with torch.no_grad():
            part.a.copy_(parts["A"])
            part.b.copy_(place.ours(parts["B"]))
            if part.e is not None:
                part.e.copy_(parts["E"])
    gather(adapter)
    if isinstance(settings, AdaLoRA):
        watch(adapter)
    finish(model, adapter)
    _fill(adapter, model, tensors, {})
    return adapter


def _settings(config: Mapping[str, Any], names: tuple[str, ...], whole: tuple[str, ...]) -> Settings:
    common: dict[str, Any] = {
        "alpha": float(config["lora_alpha"]),
        "dropout": float(config.get("lora_dropout") or 0.0),
        "targets": names,
        "also": whole,
    }
    if config["peft_type"] == "LORA":
        return LoRA(
            rank=config["r"],
            rank_stable=bool(config.get("use_rslora")),
            biases=config.get("bias") or "none",
            **common,
        )
    return AdaLoRA(
        rank=config["init_r"],
        target_rank=config["target_r"],
        warmup=config["tinit"],
        final=config["tfinal"],
        every=config["deltaT"],
        betas=(config["beta1"], config["beta2"]),
        orthogonality=float(config["orth_reg_weight"]),
        steps=config["total_step"],
        **common,
    )


def _fill(
    adapter: Adapter, model: Host, tensors: dict[str, Tensor], targets: Mapping[str, Tensor]
) -> None:
    """The rest of a file goes into the adapter's own tensors: those named, and whole ones."""
    for key, target in targets.items():
        found = tensors.pop(key, None)
        if found is None or found.shape != target.shape:
            has = "lacks" if found is None else f"has {list(found.shape)} for"
            raise GlassformerError(
                f"The adapter's file {has} {key}, which is {list(target.shape)} for this model; "
                "load the model that it was made for."
            )
        with torch.no_grad():
            target.copy_(found)
    find = matcher(model)
    for ours, tensor in adapter.own.items():
        where, parts = find(ours), parts_of(model.net, ours)
        pieces = dict(zip(where.theirs, where.rule.op.write(tensor.detach(), parts), strict=True))
        given = {their: tensors.pop(their) for their in pieces if their in tensors}
        for their, piece in given.items():
            if piece.shape != pieces[their].shape:
                raise GlassformerError(
                    f"The adapter's {their} has the shape {list(piece.shape)} and this model's "
                    f"{list(pieces[their].shape)}; load the model that it was made for."
                )
        with torch.no_grad():
            tensor.copy_(where.rule.op.read(list((pieces | given).values())))
    if tensors:
        raise GlassformerError(
            f"The adapter's file has {next(iter(tensors))}, for which this model has no place; load "
            "the model that it was made for."
        )


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise GlassformerError(f"{folder} has no {name}, so it is not an adapter's folder.")
    try:
        config: dict[str, Any] = json.loads((folder / CONFIG).read_text("utf-8"))
        tensors = load_file(folder / TENSORS)
    except (ValueError, OSError, SafetensorError) as error:
        raise GlassformerError(f"{folder} cannot be read ({error}); get it again.") from None
    fronts = (FRONT, "base_model.")
    named = {}
    for key, tensor in tensors.items():
        front = next((f for f in fronts if key.startswith(f)), "")
        named[key.removeprefix(front).replace(".base_layer.", ".")] = tensor
    return config, named


def _whole_modules(model: Host, adapter: Adapter) -> list[str]:
    """The published modules that the adapter has whole versions of, but for biases."""
    find = matcher(model)
    modules = {
        their.rpartition(".")[0]
        for ours in adapter.own
        if not ours.endswith(".bias")
        for their in find(ours).theirs
    }
    return sorted(modules)


def _still(model: Host) -> list[Any]:
    """A layer for peft to stand beside without doing anything."""
    return choose(find_places(model), None)[:1]


def _mask(adapter: Adapter, name: str) -> Tensor:
    part = adapter.parts[name]
    importance = getattr(part, "importance", None)
    assert isinstance(part, LowRank)
    return torch.ones(len(part.a), dtype=torch.bool) if importance is None else importance.mask


def _pattern(patterns: Mapping[str, float] | None, name: str, default: float) -> float:
    for key, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({key})$", name):
            return float(value)
    return default


def task_of(spec: ModelSpec) -> str:
    """What peft calls the kind of model, by which it knows where virtual tokens go."""
    if spec.encoder is not None and spec.decoder is not None:
        return "SEQ_2_SEQ_LM"
    head = next((head for head in spec.heads if head.outputs is not None), None)
    if head is None:
        return "FEATURE_EXTRACTION"
    if head.pick != "each":
        return "SEQ_CLS"
    if head.outputs == spec.last_stack.embed.vocabulary:
        return "CAUSAL_LM"
    return "QUESTION_ANS" if head.name == "span" else "TOKEN_CLS"
