"""Checksums of all bytes of tensors, at the rate at which the memory is read."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from ctypes import c_int64, c_uint64, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from glassformer import native

SOURCE = Path(__file__).with_name("checksum.cpp")
WORDS = 2**22  # of a tensor on another device that are summed at once
SEED, PRIME = 7, -7046029254386353131  # an odd factor, as a signed number of 64 bits


def checksums(tensors: Sequence[Tensor]) -> list[int]:
    """Returns a checksum of the values of each contiguous tensor.

    Args:
        tensors: The tensors, each on any device.

    Returns:
        Their checksums, which can be compared with those of tensors on the same device alone.
    """
    found = dict[int, int]()
    on_cpu = [i for i, tensor in enumerate(tensors) if tensor.device.type == "cpu"]
    found |= zip(on_cpu, _on_cpu([tensors[i] for i in on_cpu]), strict=True)
    others = [i for i in range(len(tensors)) if i not in found]
    if others:
        sums = torch.stack([_on_device(tensors[i]) for i in others]).tolist()
        found |= zip(others, sums, strict=True)
    return [found[i] for i in range(len(tensors))]


def _on_cpu(tensors: Sequence[Tensor]) -> list[int]:
    library = native.library(SOURCE)
    if library is None:
        return [zlib.crc32(_bytes(tensor).numpy().data) for tensor in tensors]
    count = len(tensors)
    data = (c_void_p * count)(*(tensor.data_ptr() for tensor in tensors))
    sizes = (c_int64 * count)(*(tensor.nbytes for tensor in tensors))
    out = (c_uint64 * count)()
    library.checksums(c_int64(count), data, sizes, out, torch.get_num_threads())
    return list(out)


@torch.no_grad()
def _on_device(tensor: Tensor) -> Tensor:
    """Returns a scalar: the sum of all words, each times a random factor of its place."""
    data = _bytes(tensor)
    words = torch.nn.functional.pad(data, (0, -len(data) % 4)).view(torch.int32)
    factors = _factors(tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for part in torch.split(words, WORDS):
        total = total * PRIME + (part * factors[: len(part)]).sum()
    return total


_kept: dict[torch.device, Tensor] = {}


def _factors(device: torch.device) -> Tensor:
    if device not in _kept:
        random = torch.Generator().manual_seed(SEED)
        numbers = torch.randint(-(2**63), 2**63 - 1, (WORDS,), generator=random)
        _kept[device] = (numbers | 1).to(device)
    return _kept[device]


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)
