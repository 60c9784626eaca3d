"""The path from token ids to logits is short enough to be read from top to bottom."""

import sys
from pathlib import Path

import torch

import glassformer as gf
from glassformer.core.transformer import Transformer

PACKAGE = str(Path(gf.__file__).parent)
COMPUTES = {
    "Transformer",
    "Stack",
    "Block",
    "SelfAttention",
    "CoreAttention",
    "FeedForward",
    "Head",
}


def test_seven_functions_in_five_files_compute_the_logits_of_gpt2():
    model = gf.create("gpt2", n_layer=1, n_head=2, n_embd=8, n_positions=16, vocab_size=11)
    calls: list[tuple[str, str, str]] = []  # (caller, function, file), callers outside torch

    def record(frame, event, _):
        name, file = frame.f_code.co_qualname, frame.f_code.co_filename
        if event != "call" or not name.endswith(".forward") or not file.startswith(PACKAGE):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        calls.append((caller.f_code.co_qualname if caller else "", name, file))

    tokens = torch.tensor([[1, 2, 3]])
    sys.setprofile(record)
    try:
        Transformer.forward(model, tokens)
    finally:
        sys.setprofile(None)
    path = [call for call in calls if call[1].removesuffix(".forward") in COMPUTES]
    callers = {function: caller for caller, function, _ in path}
    assert callers == {
        "Transformer.forward": "",
        "Stack.forward": "Transformer.forward",
        "Block.forward": "Stack.forward",
        "SelfAttention.forward": "Block.forward",
        "CoreAttention.forward": "SelfAttention.forward",
        "FeedForward.forward": "Block.forward",
        "Head.forward": "Transformer.forward",
    }
    assert len({file for _, _, file in path}) == 5
