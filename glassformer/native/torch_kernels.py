"""Which of torch's kernels are usable on this CPU."""

from __future__ import annotations

import torch

from glassformer.native.instructions import architecture


def has_vnni() -> bool:
    """Whether torch's 8-bit products are exact: without VNNI, two of them overflow 16 bits."""
    return architecture() == "native" and torch.cpu._is_vnni_supported()


def _onednn_dtypes() -> tuple[torch.dtype, ...]:
    """Returns the dtypes that oneDNN multiplies on this CPU; bfloat16 only with AVX-512."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    halves = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.float32, torch.bfloat16) if halves else (torch.float32,)


ONEDNN_DTYPES = _onednn_dtypes()
