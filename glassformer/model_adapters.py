"""`model.adapters`: adds, loads, activates, merges and saves the adapters of a model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer import adapters
from glassformer.adapters.base_model import (
    AdapterBase,
    AdapterDescription,
    read_description,
    write_description,
)
from glassformer.errors import ConfigError, LoadError
from glassformer.families import spec_from_config
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.tasks.embed import states_width
from glassformer.tasks.pooling import read_pooling, write_pooling
from glassformer.text.loading.kept_files import check_kept_files, other_settings
from glassformer.text.loading.load import holds_tokenizer
from glassformer.weights.folder_kind import ADAPTER_CONFIG, published
from glassformer.weights.save import CONFIG

if TYPE_CHECKING:
    from glassformer.model import Model


class ModelAdapters:
    """The adapters of a model. The methods that change the model return it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __repr__(self) -> str:
        return f"<adapters: {', '.join(self.names) or 'none'}; active: {self.active}>"

    @property
    def names(self) -> list[str]:
        """The names of the adapters."""
        return list(adapters.adapters_of(self._model))

    @property
    def active(self) -> str | None:
        """The name of the active adapter; None if there is none."""
        found = adapters.active(self._model)
        return None if found is None else found.name

    def add(
        self, settings: adapters.AdapterConfig, name: str = "default", *, seed: int = 0
    ) -> Model:
        """Adds an adapter and activates it: from then on only the adapter is trained.

        Args:
            settings: LoRA, AdaLoRA, bottleneck, prefix, prompt or BitFit settings.
            name: Name of the adapter.
            seed: Seed of its initial weights.

        Returns:
            The model.

        >>> model.adapters.add(gf.adapters.LoRA(rank=8, targets=("q_proj", "v_proj")))
        """
        model = self._model
        if model.base is not None and model.base.fingerprint is None:
            model.base = replace(model.base, fingerprint=model.base.current_fingerprint)
        adapters.add(model, settings, name, seed=seed)
        return model.invalidate()

    def load(self, folder: str | Path, name: str = "default") -> Model:
        """Loads an adapter, with the labels and task settings that are stored with it.

        Args:
            folder: A folder written by `save` or by the peft library, or the folder of a training
                run that trained an adapter.
            name: Name of the adapter in this model.

        Returns:
            The model.
        """
        model, place = self._model, published(Path(folder))
        has_config = (place / ADAPTER_CONFIG).is_file()
        described = read_description(place) if has_config else AdapterDescription(base=None)
        if described.architecture not in (None, model.architecture):
            raise LoadError(
                f"The adapter {folder} is for {described.architecture}, and this model is "
                f"{model.architecture}; gf.load({str(folder)!r}) loads both as they were."
            )
        adapters.load_adapter(model, place, name)
        if described.config is not None:
            held = {k: v for k, v in model.config.items() if k == "quantization"}
            model.config = {**described.config, **held}
            labels = spec_from_config(described.config, model.architecture).labels
            model.spec = replace(model.spec, labels=labels)
        model.pooling = read_pooling(place) or model.pooling
        if holds_tokenizer(place):
            model.read_tokenizer(place)
        model.source = place
        return model.invalidate()

    def save(self, folder: str | Path, *, base: str | None = None) -> None:
        """Saves the active adapter in the layout of the peft library.

        Other files in the folder stay, so it may be the model's own folder.

        Args:
            folder: Target folder.
            base: The base model that the adapter refers to, if it is not the folder that this model
                was loaded from.
        """
        model, adapter = self._model, adapters.active(self._model)
        if adapter is None:
            raise ConfigError("The model has no active adapter; add or activate one.")
        origin = model.base
        if base is not None:
            origin = replace(
                origin or AdapterBase(source=base), source=base, folder=base, fingerprint=None
            )
        if origin is not None and origin.fingerprint is None:
            origin = replace(origin, fingerprint=origin.current_fingerprint)
        target = Path(folder)
        complete_pending_save(target)
        has_model = (target / CONFIG).is_file()  # holds a model, whose tokenizer and pooling stay
        own_tokenizer = model.tokenizer is not None and not self._tokenizer_is_base
        if has_model and (own_tokenizer or read_pooling(target) != model.pooling):
            raise LoadError(
                f"{folder} holds a model with another tokenizer or pooling; save the adapter in "
                "its own folder."
            )
        with atomic_folder(target, keys=(ADAPTER_CONFIG,)) as draft:
            adapters.write_adapter(model, adapter, draft, origin)
            write_description(draft, target, origin, model)
            if model.tokenizer is not None and own_tokenizer:
                model.tokenizer.save(draft)
                check_kept_files(target, draft)
            if model.pooling is not None and not has_model:
                write_pooling(model.pooling, draft, states_width(model))
            elif (target / "modules.json").is_file() and not has_model:
                raise other_settings(target / "modules.json")

    @property
    def _tokenizer_is_base(self) -> bool:
        """Whether the tokenizer is the one in the base model's folder."""
        base = self._model.base
        there, own = None if base is None else base.folder, self._model.tokenizer_source
        return there is not None and own is not None and os.path.abspath(own) == there

    def set_active(self, name: str | None) -> Model:
        """Activates one adapter and deactivates the others.

        Args:
            name: The adapter. None deactivates all, and makes the model's own weights trainable.

        Returns:
            The model.
        """
        adapters.switch(self._model, name)
        return self._model.invalidate()

    def remove(self, name: str = "default") -> Model:
        """Removes an adapter; the model's own weights are unchanged.

        Args:
            name: The adapter.

        Returns:
            The model.
        """
        adapters.remove(self._model, name)
        return self._model.invalidate()

    def merge(self, name: str | None = None, *, forget: bool = False) -> Model:
        """Merges a low-rank adapter into the weights, which removes its cost at inference.

        Args:
            name: The adapter; by default the active one.
            forget: Discards the original weights, so that `unmerge` is no longer possible.

        Returns:
            The model.
        """
        model = self._model
        name = name or self.active or "default"
        held = adapters.adapters_of(model).get(name)
        adapters.merge(model, name, forget=forget)
        if forget and held is not None:
            report = model.load_report
            report.made = [made for made in report.made if made not in held.own]
            model.base = None  # no folder contains the merged weights
        return model.invalidate()

    def unmerge(self, name: str | None = None) -> Model:
        """Restores the exact weights from before `merge`.

        Args:
            name: The adapter; by default the merged one.

        Returns:
            The model.
        """
        known = adapters.adapters_of(self._model).items()
        merged = (one for one, adapter in known if adapter.merged is not None)
        adapters.unmerge(self._model, name or next(merged, "default"))
        return self._model.invalidate()
