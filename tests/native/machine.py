"""Computes the same on every kind of machine: `python machine.py FILE` writes the results to a
safetensors file, for test_machines.py to compare."""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file

import glassformer as gf
from glassformer.core.linear import Linear
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.cpp.runner import CppRunner
from glassformer.generate.backends.cpp.support import is_supported
from glassformer.generate.strategy import GenerationRequest
from glassformer.native.instructions import architecture
from glassformer.native.torch_kernels import ONEDNN_DTYPES
from glassformer.weights.quantization import QuantizedLinear

LLAMA = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 72,  # of which int4 makes no groups
    "vocab_size": 99,
}
TOKENS = torch.arange(24).view(2, 12)
PROMPTS = [[1, 2, 3], [4], list(range(50))]


@torch.no_grad()
def draw(*weights: torch.Tensor) -> None:
    """Fills weights with uniform numbers: normal ones depend on the CPU's instructions."""
    generator = torch.Generator().manual_seed(0)
    for weight in weights:
        weight.copy_(torch.rand(weight.shape, generator=generator) * 2 - 1)


def model(kind: str) -> gf.Model:
    made = gf.create("llama-7b", seed=3, **LLAMA)
    for weight in made.parameters():
        if weight.dim() > 1:
            draw(weight)
            weight.detach().mul_(0.2)
    if kind in ("int8", "int4"):
        return made.quantize(kind)
    made.to(getattr(torch, kind))
    return made


def layer(kind: str) -> torch.Tensor:
    linear, x = Linear(1440, 50), torch.empty(7, 1440)
    draw(linear.weight, linear.bias, x)
    return QuantizedLinear(linear, kind)(x)


def everything() -> dict[str, torch.Tensor]:
    found = {f"layer {kind}": layer(kind) for kind in ("int8", "int4")}
    for kind in ("float32", "bfloat16", "float16", "int8", "int4"):
        made = model(kind)
        found[f"modules {kind}"] = made(TOKENS).logits
        found[f"packed {kind}"] = made.pack()(TOKENS).logits
        if library() is not None and kind != "float16":
            assert is_supported(made)
            requests = [
                GenerationRequest(i, tuple(row), 5) for i, row in enumerate(TOKENS.tolist())
            ]
            found[f"step {kind}"] = CppRunner(made, rows=2).read(requests, 1)
        for options in ({}, {"enforce_eager": True}, {"num_beams": 2}):
            texts = made.generate(PROMPTS, max_new_tokens=4, **options)
            assert all(len(text.tokens) == 4 for text in texts)
    return {name: x.float().contiguous() for name, x in found.items()}


if __name__ == "__main__":
    about = {
        "torch": torch.backends.cpu.get_cpu_capability(),
        "oneDNN": str(ONEDNN_DTYPES),
        "march": architecture(),
        "compiler": str(library() is not None),
    }
    with torch.no_grad():
        save_file(everything(), sys.argv[1], about)
