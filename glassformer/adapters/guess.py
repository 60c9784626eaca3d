"""Inference of how to load the base model of an adapter written by peft.

Such adapters name a task or a class, and no labels. The class to load the base model as follows
from these names and from the shapes of the modules that were saved in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.adapters.base_model import AdapterBase
from glassformer.adapters.save import FRONT, FRONT_OF_PROMPTED
from glassformer.families import classes_of, find_family, spec_from_config
from glassformer.families._shared.weight_rules import match
from glassformer.storage.parsing import read_json
from glassformer.weights.architecture import named_class
from glassformer.weights.folder_kind import ADAPTER_CONFIG, adapter_tensors
from glassformer.weights.tensor_files import open_tensors

CLASSES = {  # peft's task type -> ending of the class name
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
OWN = ("lora_", "prompt_embeddings")  # parts of names of the adapter's own tensors


def guessed(base: AdapterBase, adapter: Path, config: Mapping[str, Any]) -> AdapterBase:
    """Infers the class and the labels of the adapted model.

    Args:
        base: The base model as the adapter names it.
        adapter: The adapter's folder.
        config: The config of the base model.

    Returns:
        `base` with the options to load it with; `base` itself if nothing follows from the adapter.
    """
    said, family = read_json(adapter / ADAPTER_CONFIG), find_family(config)
    named = (said.get("auto_mapping") or {}).get("base_model_class")
    ending = CLASSES.get(said.get("task_type") or "")
    known = classes_of(family, config["model_type"])
    fitting = [one for one in known if one == named or (ending and one.endswith(ending))]
    if not fitting or fitting[0] == named_class(config):
        return base
    architecture = fitting[0]
    spec, shapes = spec_from_config(config, architecture), _whole_shapes(adapter)
    labels = None
    for head in spec.heads:
        found = match(
            family.weight_rules(spec), f"heads.{head.name}.out.weight", family.CLASSES[architecture]
        )
        if found is not None and found.hf[0] in shapes and head.name in ("classify", "tag"):
            labels = tuple(f"LABEL_{i}" for i in range(shapes[found.hf[0]][0]))
    return AdapterBase(
        source=base.source,
        folder=base.folder,
        architecture=architecture,
        init_missing=tuple(shapes),
        ignore_unexpected=("",),
        labels=labels,
    )


def _whole_shapes(adapter: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors saved in full, by published names."""
    found = {}
    for key, shape in open_tensors(adapter_tensors(adapter)).shapes.items():
        front = next((front for front in (FRONT, FRONT_OF_PROMPTED) if key.startswith(front)), "")
        if not any(own in key for own in OWN):
            found[key.removeprefix(front)] = shape
    return found
