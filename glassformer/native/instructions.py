"""C++ beside Python: which instructions of the CPU are used. GLASSFORMER_CPU asks for fewer than
there are, so that a machine can compute as an older one does."""

from __future__ import annotations

import os

import torch

from glassformer.errors import GlassformerError

VARIABLE = "GLASSFORMER_CPU"
ARCHITECTURES = {"native": "native", "avx2": "x86-64-v3", "baseline": "x86-64"}  # for -march


def architecture() -> str:
    """What sources are compiled for."""
    chosen = os.environ.get(VARIABLE) or "native"
    if chosen not in ARCHITECTURES:
        raise GlassformerError(
            f"{VARIABLE} is {chosen!r}; set it to one of {', '.join(ARCHITECTURES)}, or not at all."
        )
    return ARCHITECTURES[chosen]


def has_vnni() -> bool:
    """Whether torch's products of 8 bits are exact: without VNNI, two of them overflow 16 bits."""
    return architecture() == "native" and torch.cpu._is_vnni_supported()


def _onednn_dtypes() -> tuple[torch.dtype, ...]:
    """What oneDNN multiplies on this CPU; bfloat16 only with AVX-512."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    halves = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.float32, torch.bfloat16) if halves else (torch.float32,)


ONEDNN_DTYPES = _onednn_dtypes()
