"""Room 5, weights: a net becomes a folder in the published layout, wholly or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from glassformer.core import Net
from glassformer.errors import GlassformerError
from glassformer.families import Family
from glassformer.weights.plan import matched, parts_of, tied_names
from glassformer.weights.quantize import is_quantized

SHARD_BYTES = 5_000_000_000


def save_net(
    folder: Path,
    net: Net,
    family: Family,
    config: Mapping[str, Any],
    architecture: str,
    shard_bytes: int = SHARD_BYTES,
    dtype: torch.dtype | None = None,
) -> None:
    """Writes config.json and the weights into an existing folder; of `dtype`, if one is given."""
    shards = split(in_dtype(published(net, family, architecture), dtype), shard_bytes)
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            where |= dict.fromkeys(shard, name)
        whole = {key: tensor.contiguous() for key, tensor in shard.items()}
        save_file(whole, folder / name, metadata={"format": "pt"})
    if where:
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
        write_json(folder / "model.safetensors.index.json", index)
    write_json(folder / "config.json", config)


def published(net: Net, family: Family, architecture: str) -> dict[str, Tensor]:
    """Our tensors under their published names and in their published form, as views if possible;
    codes and what goes with them under our own names."""
    state = net.state_dict()
    if is_quantized(net):  # no published layout has these
        return {name: state[name] for name, *_ in tied_names(net)}
    rules, base = family.rules(net.spec), family.CLASSES[architecture]
    tensors: dict[str, Tensor] = {}
    for name, *_ in tied_names(net):
        found = matched(rules, name, base)
        written = found.rule.op.write(state[name], parts_of(net, name))
        tensors |= dict(zip(found.theirs, written, strict=True))
    return tensors


def in_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> Mapping[str, Tensor]:
    if dtype is None:
        return tensors
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def split(tensors: Mapping[str, Tensor], limit: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """So that names that were given survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into that takes the name `folder` when everything is in it.

    Where `folder` exists, the new files replace those of the same name, one rename each, and
    weights that an older save has left are taken away. On an error nothing has changed.
    """
    if folder.exists() and not folder.is_dir():
        raise GlassformerError(f"{folder} is a file; name a folder to save into.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise GlassformerError(f"{folder} cannot be written ({error.strerror}).") from None
    try:
        yield draft
        os.chmod(draft, 0o777 & ~_umask())
        if not folder.exists():
            draft.rename(folder)
            return
        new = {path.name for path in draft.iterdir()}
        for name in sorted(new, key=lambda name: name == "config.json"):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            os.replace(draft / name, folder / name)
        for path in folder.glob("*model*.safetensors*"):
            if path.name not in new:
                path.unlink()
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
        raise GlassformerError(
            f"{folder} could not be written ({why}); nothing there has changed."
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def dtype_of(net: Net, stored: torch.dtype | None = None) -> str:
    """The name of that of a net's numbers, or of those that are written in their place."""
    if stored is not None:
        return str(stored).removeprefix("torch.")
    floating = {p.dtype for p in net.parameters() if p.is_floating_point()}
    return dtype_of(net, max(floating, key=lambda d: torch.finfo(d).bits))
