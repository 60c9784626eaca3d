"""Loading of an adapter folder written by peft or by Glassformer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.adapters.adalora import watch
from glassformer.adapters.adapter import DEFAULT, Adapter, remove
from glassformer.adapters.add import add, begin, finish, gather, within
from glassformer.adapters.decomposed_init import start_of, twice_the_ranks, without_start
from glassformer.adapters.low_rank import LowRank
from glassformer.adapters.save import FRONT, FRONT_OF_PROMPTED
from glassformer.adapters.settings import (
    AdaLoRA,
    AdapterConfig,
    BitFit,
    Bottleneck,
    LoRA,
    Prefix,
    Prompt,
    scale_of,
)
from glassformer.adapters.target_modules import (
    TargetModule,
    find_target_modules,
    fresh_names,
    matcher,
)
from glassformer.errors import GlassformerError, LoadError, UnsupportedError
from glassformer.families import find_family
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.parsing import read_json
from glassformer.weights.dtypes import is_float8
from glassformer.weights.folder_kind import ADAPTER_CONFIG, adapter_tensors
from glassformer.weights.mapping import parts_of
from glassformer.weights.pretrained import PretrainedTransformer
from glassformer.weights.save import published as published_tensors
from glassformer.weights.tensor_files import open_tensors

RANKS = re.compile(r"(.+)\.lora_([ABE])(?:\.weight)?")
UNKNOWN = (  # peft LoRA features that change the computation and are not supported
    "use_dora", "lora_bias", "layer_replication", "target_parameters", "trainable_token_indices",
    "use_qalora", "use_bdlora", "alora_invocation_tokens", "kasa_config", "arrow_config",
    "monteclora_config",
)  # fmt: skip


def load_adapter(model: PretrainedTransformer, folder: str | Path, name: str = DEFAULT) -> Adapter:
    """Loads an adapter into a model and turns it on.

    Args:
        model: The model that the adapter was trained for.
        folder: An adapter folder written by peft or by Glassformer.
        name: The adapter's name in the model.

    Returns:
        The loaded adapter.

    Raises:
        GlassformerError: The folder is invalid or does not fit the model.
    """
    folder = Path(folder)
    config, tensors = _read(folder)
    try:
        return _load(model, config, tensors, folder, name)
    except GlassformerError:
        raise
    except KeyError as error:
        raise LoadError(f"{folder / ADAPTER_CONFIG} lacks {error}; get it again.") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError, re.error) as error:
        raise LoadError(
            f"{folder / ADAPTER_CONFIG} has a value of a wrong type or size ({error}); get it "
            "again."
        ) from None


def _load(
    model: PretrainedTransformer,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    folder: Path,
    name: str,
) -> Adapter:
    kind = config.get("peft_type")
    listed = config.get("modules_to_save") or ()  # peft also lists nonexistent modules
    whole = tuple(end for end in listed if any(within(key, end) for key in tensors))
    if kind in ("LORA", "ADALORA"):
        return _load_ranks(model, config, tensors, name, whole)
    settings: Bottleneck | Prefix | Prompt
    if kind == "BOTTLENECK":
        settings = Bottleneck(
            bottleneck_size=config["width"],
            activation=config["activation"],
            places=config["places"],
            modules_to_save=whole,
        )
    elif kind in ("PREFIX_TUNING", "PROMPT_TUNING"):
        make = Prefix if kind == "PREFIX_TUNING" else Prompt
        settings = make(num_virtual_tokens=config["num_virtual_tokens"], modules_to_save=whole)
    else:
        raise UnsupportedError(
            f"{folder} holds an adapter of the type {kind!r}; those that can be read are LORA, "
            "ADALORA, PREFIX_TUNING, PROMPT_TUNING and BOTTLENECK.",
            field="peft_type",
        )
    _check_size(settings, tensors, folder)
    adapter = add(model, settings, name)
    with _whole_or_not(model, adapter):
        _fill_named(adapter, model, config, tensors)
    return adapter


def _check_size(
    settings: Bottleneck | Prefix | Prompt, tensors: Mapping[str, Tensor], folder: Path
) -> None:
    """Raises an error if the config names a size that no tensor has, before it is allocated."""
    named = (
        settings.bottleneck_size
        if isinstance(settings, Bottleneck)
        else settings.num_virtual_tokens
    )
    largest = max((axis for tensor in tensors.values() for axis in tensor.shape), default=0)
    if named > largest:
        raise LoadError(
            f"{folder / ADAPTER_CONFIG} names the size {named}, and the largest axis of the "
            f"adapter's tensors has {largest}; get the adapter again."
        )


def _fill_named(
    adapter: Adapter,
    model: PretrainedTransformer,
    config: Mapping[str, Any],
    tensors: dict[str, Tensor],
) -> None:
    """Loads bottleneck, prefix or prompt tensors, and the parameters trained in full."""
    targets: dict[str, Tensor] = {
        f"{published}.bottleneck.{key}": tensor
        for published, part in adapter.parts.items()
        for key, tensor in part.named_parameters()
    }
    if adapter.wrapper is not None:
        targets["prompt_embeddings"] = adapter.wrapper.weight
        if "prompt_embeddings" in tensors and config["peft_type"] == "PROMPT_TUNING":
            # for an encoder-decoder, peft saves twice as many rows and never reads the second half
            own = tensors["prompt_embeddings"][: config["num_virtual_tokens"]]
            tensors["prompt_embeddings"] = own
    _fill(adapter, model, tensors, targets)


def _load_ranks(
    model: PretrainedTransformer,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    name: str,
    whole: tuple[str, ...],
) -> Adapter:
    """Loads a LoRA or AdaLoRA adapter."""
    for feature in UNKNOWN:
        if config.get(feature):
            raise UnsupportedError(
                f"The adapter uses {feature}, which is not supported; merge it into its model "
                "with peft and load that.",
                field=feature,
            )
    if any(".lora_embedding_" in key for key in tensors):
        raise UnsupportedError(
            "The adapter has low ranks of an embedding (lora_embedding_A), which are not read "
            "here; merge it into its model with peft and load that."
        )
    ranks: dict[str, dict[str, Tensor]] = {}
    keys: dict[str, list[str]] = {}  # the names of these tensors in the file
    for key in list(tensors):
        found = RANKS.fullmatch(key)
        if found is not None:
            ranks.setdefault(found[1], {})[found[2]] = tensors.pop(key)
            keys.setdefault(found[1], []).append(key)
    needed = {"A", "B", "E"} if config["peft_type"] == "ADALORA" else {"A", "B"}
    if not ranks or any(set(parts) != needed for parts in ranks.values()):
        raise LoadError(
            "The adapter's file does not contain pairs of lora_A and lora_B; get it again."
        )
    start = start_of(config)
    config = config if start is None else twice_the_ranks(config)
    settings = _settings(config, tuple(ranks), whole)
    places = find_target_modules(model)
    still = not any(bool(parts["B"].any()) for parts in ranks.values())
    if isinstance(settings, LoRA) and settings.bias == "all" and still:
        ranks, settings = (
            {},
            BitFit(modules_to_save=whole),
        )  # only biases: this is how BitFit is saved
    adapter = begin(model, settings, name)
    for published, parts in ranks.items():
        if published not in places:
            raise LoadError(
                f"The adapter is for a layer {published!r}, which this model does not have; load "
                "the model that it was made for.",
                unexpected=[key for name in ranks if name not in places for key in keys[name]],
            )
        assert isinstance(settings, LoRA | AdaLoRA)
        place = places[published]
        scale, rank = settings.scale, len(parts["A"])
        if isinstance(settings, LoRA):
            alpha = _pattern(config.get("alpha_pattern"), published, settings.alpha)
            whole_rank = int(_pattern(config.get("rank_pattern"), published, settings.rank))
            scale = scale_of(alpha, whole_rank, settings.use_rslora)
            rank = whole_rank if start is None else rank  # a decomposition may have fewer
        _check_shapes(published, place, rank, parts, keys[published])
        adapter.places[published] = place
        if start is not None:
            parts = without_start(parts, place, start, scale)
        singular = isinstance(settings, AdaLoRA)
        part = LowRank(place, len(parts["A"]), scale, settings.dropout, singular)
        adapter.parts[published] = part
        with torch.no_grad():
            part.a.copy_(parts["A"])
            part.b.copy_(place.local(parts["B"]))
            if part.e is not None:
                part.e.copy_(parts["E"])
    gather(adapter)
    if isinstance(settings, AdaLoRA):
        watch(adapter)
    finish(model, adapter)
    with _whole_or_not(model, adapter):
        _fill(adapter, model, tensors, {})
    return adapter


def _check_shapes(
    published: str, place: TargetModule, rank: int, parts: Mapping[str, Tensor], keys: list[str]
) -> None:
    """Raises an error if a low-rank factor has another shape; copying would repeat its values."""
    rows, columns = place.stop - place.start, place.linear.in_features
    own = {"A": (rank, columns), "B": (rows, rank), "E": (rank, 1)}
    shapes = {part: tuple(tensor.shape) for part, tensor in parts.items()}
    if (shapes["B"][:1], shapes["A"][1:]) != ((rows,), (columns,)):
        of = " by ".join(map(str, (*shapes["B"][:1], *shapes["A"][1:])))
        raise LoadError(
            f"The adapter's {published} is for a matrix of {of}, and this model's has {rows} by "
            f"{columns}; load the model that it was made for.",
            mismatched=keys,
        )
    for part, shape in shapes.items():
        if shape != own[part]:
            raise LoadError(
                f"The adapter's lora_{part} of {published} has the shape {list(shape)}, which is "
                f"{list(own[part])} for rank {rank}; get the adapter again.",
                mismatched=keys,
            )


@contextmanager
def _whole_or_not(model: PretrainedTransformer, adapter: Adapter) -> Iterator[None]:
    """Removes the adapter again if the rest of its file does not fit the model."""
    try:
        yield
    except GlassformerError:
        remove(model, adapter.name)
        raise


def _settings(
    config: Mapping[str, Any], names: tuple[str, ...], whole: tuple[str, ...]
) -> AdapterConfig:
    common: dict[str, Any] = {
        "alpha": float(config["lora_alpha"]),
        "dropout": float(config.get("lora_dropout") or 0.0),
        "target_modules": names,
        "modules_to_save": whole,
    }
    if config["peft_type"] == "LORA":
        return LoRA(
            rank=config["r"],
            use_rslora=bool(config.get("use_rslora")),
            bias=config.get("bias") or "none",
            **common,
        )
    return AdaLoRA(
        rank=config["init_r"],
        target_rank=config["target_r"],
        warmup_steps=config["tinit"],
        final_steps=config["tfinal"],
        allocation_interval=config["deltaT"],
        betas=(config["beta1"], config["beta2"]),
        orth_reg_weight=float(config["orth_reg_weight"]),
        max_steps=config["total_step"],
        **common,
    )


def _fill(
    adapter: Adapter,
    model: PretrainedTransformer,
    tensors: dict[str, Tensor],
    targets: Mapping[str, Tensor],
) -> None:
    """Copies the remaining tensors of the file into the adapter.

    `targets` maps names in the file to the adapter's tensors; all others must be parameters that
    are trained in full.
    """
    for key, target in targets.items():
        found = tensors.pop(key, None)
        if found is None or found.shape != target.shape:
            has = "lacks" if found is None else f"has {list(found.shape)} for"
            raise LoadError(
                f"The adapter's file {has} {key}, which is {list(target.shape)} for this model; "
                "load the model that it was made for.",
                missing=() if found is not None else (key,),
                mismatched=() if found is None else (key,),
            )
        with torch.no_grad():
            target.copy_(found)
    find, fresh, unsaid = matcher(model), fresh_names(model), []
    for local, tensor in adapter.own.items():
        where, parts = find(local), parts_of(model, local)
        pieces = dict(zip(where.hf, where.rule.op.write(tensor.detach(), parts), strict=True))
        given = {their: tensors.pop(their) for their in pieces if their in tensors}
        if local in fresh and len(given) < len(pieces):
            lost = next(their for their in pieces if their not in given)
            raise LoadError(
                f"Neither the model's file nor the adapter's has {lost}, which was trained; train "
                "the adapter again.",
                missing=[their for their in pieces if their not in given],
            )
        for also in where.also:
            tensors.pop(also, None)
        if not given:
            unsaid.append(local)
        for their, piece in given.items():
            if piece.shape != pieces[their].shape:
                raise LoadError(
                    f"The adapter's {their} has the shape {list(piece.shape)} and this model's "
                    f"{list(pieces[their].shape)}; load the model that it was made for.",
                    mismatched=(their,),
                )
        with torch.no_grad():
            tensor.copy_(where.rule.op.read(list((pieces | given).values())))
    adapter.give_back(model, unsaid)
    _drop_unchanged(model, tensors)
    if tensors:
        raise LoadError(
            f"The adapter's file has {next(iter(tensors))}, which this model does not have; load "
            "the model that it was made for.",
            unexpected=tuple(tensors),
        )


def _drop_unchanged(model: PretrainedTransformer, tensors: dict[str, Tensor]) -> None:
    """Removes tensors that are those of the model.

    peft saves the embedding and the output layer beside the low ranks of one of them.
    """
    own = published_tensors(model, find_family(model.config), model.architecture) if tensors else {}
    for key in own.keys() & tensors.keys():
        if own[key].shape == tensors[key].shape and own[key].equal(tensors[key].to(own[key])):
            del tensors[key]


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads config and tensors of an adapter folder; peft's prefixes are removed from the names."""
    complete_pending_save(folder)
    path = adapter_tensors(folder)
    for needed in (folder / ADAPTER_CONFIG, path):
        if not needed.is_file():
            raise LoadError(f"{folder} has no {needed.name}, so it is not an adapter's folder.")
    config: dict[str, Any] = read_json(folder / ADAPTER_CONFIG)
    file = open_tensors(path)
    tensors = {name: file.read(name, mapped=False) for name in file.shapes}
    for key, tensor in tensors.items():
        if not tensor.is_floating_point() or is_float8(tensor.dtype):
            raise UnsupportedError(
                f"{path} stores {key} as {str(tensor.dtype)[6:]}, a quantized "
                "format whose scales are unknown; get the adapter's full weights."
            )
    fronts = (FRONT, FRONT_OF_PROMPTED)
    named = {}
    for key, tensor in tensors.items():
        front = next((f for f in fronts if key.startswith(f)), "")
        named[key.removeprefix(front).replace(".base_layer.", ".")] = tensor
    return config, named


def _pattern(patterns: Mapping[str, float] | None, name: str, default: float) -> float:
    """Returns the value of the first pattern that matches the layer name, as peft matches them."""
    for key, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({key})$", name):
            return float(value)
    return default
