"""Which files of a folder or of a repository contain the weights of its model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from glassformer.errors import LoadError
from glassformer.weights.folder_kind import ADAPTER_TENSORS

WHOLE = ("model.safetensors", "pytorch_model.bin")  # or their shards, with an index
ORIGINAL = re.compile(r"consolidated(\.\d+)?\.(safetensors|pth)")  # as Meta and Mistral name them
VARIANT = re.compile(r"pytorch_model\.\w+\.bin")  # pytorch_model.fp16.bin
VARIANT_INDEX = re.compile(  # model.safetensors.index.fp16.json
    r"(model(\.\w+)?\.safetensors|pytorch_model(\.\w+)?\.bin)\.index(\.\w+)?\.json"
)
SHARD = re.compile(r"(.+)-\d+-of-(?!0*1\b)\d+(\.\w+)?\.(safetensors|bin)")  # of several


def index_of(name: str) -> str:
    """Returns the name of the file that lists the shards of `name`."""
    return f"{name}.index.json"


def is_index(name: str) -> bool:
    """Whether the file lists shards."""
    return VARIANT_INDEX.fullmatch(name) is not None


def weights_among(names: Collection[str], where: object) -> tuple[str, ...]:
    """Returns those of the files that a model is read from: a file, an index, or its parts.

    Of several formats only the first is taken: the published names before others, safetensors
    before pickles.

    Args:
        names: The names of the files in a folder or repository.
        where: The folder or repository, for messages.

    Raises:
        LoadError: If there is none, or a choice between several.
    """
    for name in WHOLE:
        for found in (name, index_of(name)):
            if found in names:
                return (found,)
    for kind in ("safetensors", "pth"):
        parts = sorted(n for n in names if ORIGINAL.fullmatch(n) and n.endswith(kind))
        if parts:
            return tuple(parts)
    shards = sorted(name for name in names if SHARD.fullmatch(name))
    other = sorted(name for name in names if is_index(name))
    if len(other) > 1:
        raise LoadError(f"{where} has several indices of shards ({listed(other)}); keep one.")
    other = other or [
        name
        for name in sorted(names)
        if name.endswith(".safetensors") and name != ADAPTER_TENSORS and name not in shards
    ]
    other = other or [name for name in names if VARIANT.fullmatch(name)]
    if len(other) == 1:
        return (other[0],)
    if other:
        raise LoadError(
            f"{where} has several files of weights ({listed(sorted(other))}); name the file that "
            "is the model."
        )
    if shards:
        index = index_of(WHOLE[1] if shards[0].endswith(".bin") else WHOLE[0])
        raise LoadError(
            f"{where} has shards of a model ({listed(shards)}) and not {index}, which says what "
            "they hold; get it too."
        )
    looked = ", ".join(f"{name} or its shards" for name in WHOLE)
    raise LoadError(f"{where} has no weights: it holds neither {looked}.")


def is_original(names: Sequence[str]) -> bool:
    """Whether these weights are those that Meta or Mistral published for their own programs."""
    return all(map(ORIGINAL.fullmatch, names))


def listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
