"""Adding a new adapter to a model."""

from __future__ import annotations

import re
import zlib

import torch
from torch import Tensor, nn

from glassformer.adapters.adalora import watch
from glassformer.adapters.adapter import DEFAULT, Adapter, adapters_of, switch
from glassformer.adapters.low_rank import AdapterUpdates, BottleneckAdapter, LowRank
from glassformer.adapters.prompt_tuning import PrefixKeys, PromptTokens, prompt_stack
from glassformer.adapters.settings import (
    AdaLoRA,
    AdapterConfig,
    BitFit,
    Bottleneck,
    LoRA,
    Prefix,
    Prompt,
    nearest,
)
from glassformer.adapters.target_modules import (
    TargetModule,
    choose,
    ends_with,
    find_target_modules,
    fresh_names,
    matcher,
)
from glassformer.core.block import Block
from glassformer.core.linear import Linear
from glassformer.errors import ConfigError, InputError, UnsupportedError
from glassformer.weights.mapping import tied_names
from glassformer.weights.pretrained import PretrainedTransformer


def add(
    model: PretrainedTransformer, settings: AdapterConfig, name: str = DEFAULT, *, seed: int = 0
) -> Adapter:
    """Adds an adapter and turns it on, and all others off; only the adapter is trainable then.

    Args:
        model: The model to adapt.
        settings: The kind of adapter and its options.
        name: The adapter's name in the model.
        seed: The seed of the initial values, which depend only on it and on the names of the
            adapted layers.

    Returns:
        The new adapter.

    >>> add(model, LoRA(rank=4, target_modules=("q_proj", "v_proj")))
    """
    adapter = begin(model, settings, name)
    if isinstance(settings, LoRA | AdaLoRA):
        _add_ranks(adapter, model, settings, seed)
    elif isinstance(settings, Bottleneck):
        _add_bottlenecks(adapter, model, settings, seed)
    elif isinstance(settings, Prefix):
        adapter.wrapper = PrefixKeys(
            model, settings.num_virtual_tokens, settings.encoder_hidden_size
        )
        adapter.wrapper.initialize(_drawn(seed, "prefix"))
    elif isinstance(settings, Prompt):
        adapter.wrapper = PromptTokens(model, settings.num_virtual_tokens)
        table = prompt_stack(model).embed.token.weight  # type: ignore[union-attr]
        assert isinstance(table, Tensor)
        adapter.wrapper.begin(table, _first_tokens(model, settings, len(table), seed))
    finish(model, adapter)
    return adapter


def begin(model: PretrainedTransformer, settings: AdapterConfig, name: str) -> Adapter:
    """Creates an empty adapter after checking its name."""
    if name in adapters_of(model):
        raise ConfigError(f"The model has an adapter {name!r} already; give another name.")
    if not name.isidentifier() or hasattr(nn.ModuleDict, name):
        raise ConfigError(f"{name!r} cannot be an adapter's name; use letters and digits.")
    return Adapter(name, settings)


def finish(model: PretrainedTransformer, adapter: Adapter) -> None:
    """Installs the adapter in the model and turns it on. Up to this call the model is unchanged."""
    whole = _whole_names(model, adapter.settings, adapter)
    switch(model, None)  # so that the model's own parameters are copied
    adapter.take_over(model, whole)
    for linear, part in adapter.hooked_layers:
        if not hasattr(linear, "adapters"):
            linear.adapters = nn.ModuleDict()
        assert isinstance(linear.adapters, nn.ModuleDict)
        linear.adapters[adapter.name] = part.train(linear.training)
    adapters_of(model)[adapter.name] = adapter
    switch(model, adapter.name)


def _add_ranks(
    adapter: Adapter, model: PretrainedTransformer, settings: LoRA | AdaLoRA, seed: int
) -> None:
    """Adds low-rank updates to the target layers."""
    chosen, fresh = choose(find_target_modules(model), settings.target_modules), fresh_names(model)
    adapter.places = {p.published: p for p in chosen if f"{p.module}.weight" not in fresh}
    if not adapter.places:
        raise ConfigError(
            f"{chosen[0].published} is newly initialized and trained in full; adapt other "
            "target_modules."
        )
    for name, place in adapter.places.items():
        add_rank(adapter, place, settings.rank, settings.scale)
        part = adapter.parts[name]
        assert isinstance(part, LowRank)
        part.initialize(_drawn(seed, name))
    gather(adapter)
    if isinstance(settings, AdaLoRA):
        watch(adapter)


def add_rank(adapter: Adapter, place: TargetModule, rank: int, scale: float) -> None:
    """Adds an uninitialized low-rank update to one layer."""
    settings = adapter.settings
    assert isinstance(settings, LoRA | AdaLoRA)
    height, width = place.stop - place.start, place.linear.in_features
    if rank > min(height, width):
        raise ConfigError(
            f"{place.published} is a matrix of {height} by {width}, which is too small for rank "
            f"{rank}; choose a rank of at most {min(height, width)}, or other target_modules."
        )
    singular = isinstance(settings, AdaLoRA)
    adapter.parts[place.published] = LowRank(place, rank, scale, settings.dropout, singular)


def gather(adapter: Adapter) -> None:
    """Groups the low-rank updates by layer, as a joined layer can have several."""
    groups: dict[Linear, AdapterUpdates] = {}
    for name, place in adapter.places.items():
        groups.setdefault(place.linear, AdapterUpdates()).append(adapter.parts[name])
    adapter.hooked_layers = list(groups.items())


def _add_bottlenecks(
    adapter: Adapter, model: PretrainedTransformer, settings: Bottleneck, seed: int
) -> None:
    """Adds bottleneck modules to all blocks."""
    places = {p.linear: name for name, p in find_target_modules(model).items()}
    for module in model.modules():
        if isinstance(module, Block):
            behind = [module.attention.out] if settings.places == "both" else []
            for linear in (*behind, module.ffn.down):
                name = places[linear]
                bottleneck = BottleneckAdapter(
                    linear, settings.bottleneck_size, settings.activation
                )
                bottleneck.initialize(_drawn(seed, name))
                adapter.parts[name] = bottleneck
                adapter.hooked_layers.append((linear, bottleneck))


def _whole_names(
    model: PretrainedTransformer, settings: AdapterConfig, adapter: Adapter
) -> list[str]:
    """Returns our names of the parameters that are trained in full.

    These are biases, newly initialized parameters, and the modules in `settings.modules_to_save`.
    """
    fresh = fresh_names(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    groups = [group for group in tied_names(model) if group[0] in parameters]
    names = [name for name, *_ in groups]
    chosen = [name for name in parameters if name in fresh]
    biases = "all" if isinstance(settings, BitFit) else getattr(settings, "bias", "none")
    adapted = {place.module for place in adapter.places.values()}
    for name in names:
        module, _, leaf = name.rpartition(".")
        if leaf == "bias" and (biases == "all" or (biases == "lora_only" and module in adapted)):
            chosen.append(name)
    if isinstance(settings, BitFit) and not any(name.endswith(".bias") for name in chosen):
        raise UnsupportedError("The model has no biases to train; choose another adapter.")
    if settings.modules_to_save is None:
        words = model.spec.last_stack.embed.vocabulary
        outs = [
            f"heads.{h.name}.out." for h in model.spec.heads if h.num_outputs not in (None, words)
        ]
        chosen += [name for name in names if name.startswith(tuple(outs))]
        return list(dict.fromkeys(chosen))
    find = matcher(model)
    published = {name: where.hf for group in groups for name in group if (where := find(name))}
    for end in settings.modules_to_save:
        found = [name for name in published if any(within(t, end) for t in published[name])]
        if not found:
            modules = {their.rpartition(".")[0] for hf in published.values() for their in hf}
            raise ConfigError(f"The model has no module {end!r}; {nearest(end, modules)}")
        chosen += found
    return list(dict.fromkeys(chosen))


def within(tensor: str, module: str) -> bool:
    """Whether a published tensor belongs to a module that is given by the end of its name."""
    path = tensor.rpartition(".")[0]
    return any(ends_with(path[: found.end()], module) for found in re.finditer(r"[^.]+", path))


def _first_tokens(model: PretrainedTransformer, settings: Prompt, words: int, seed: int) -> Tensor:
    """Returns the token ids whose embeddings initialize the prompt."""
    if settings.init_text is None:
        return torch.randint(
            words, (settings.num_virtual_tokens,), generator=_drawn(seed, "prompt")
        )
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise UnsupportedError("init_text needs a tokenizer, and the model has none.")
    ids = tokenizer.encode(settings.init_text, special=False).ids
    if not ids:
        raise InputError(f"init_text {settings.init_text!r} has no tokens; use a longer text.")
    return torch.tensor((list(ids) * settings.num_virtual_tokens)[: settings.num_virtual_tokens])


def _drawn(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
