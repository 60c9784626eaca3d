"""Trains the built-in model `shakespeare`, a small GPT-2 that looks at Shakespeare by word pieces:

    python recipes/zoo/shakespeare.py data/input.txt OUT

The text is tiny Shakespeare (karpathy/char-rnn; the plays are in the public domain). The last tenth
is kept for validation. With one H200 it takes about two minutes.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import glassformer as gf
from glassformer.text import train as train_tokenizer

SETTINGS = {
    "n_embd": 192,
    "n_layer": 6,
    "n_head": 6,
    "n_positions": 256,
    "vocab_size": 1024,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "resid_pdrop": 0.2,
    "embd_pdrop": 0.2,
    "attn_pdrop": 0.2,
}
STEPS, BATCH, WARM, RATE, SEED = 2400, 64, 100, 2e-3, 1


def main(text_path: Path, out: Path) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = text_path.read_text("utf-8")
    edge = len(text) * 9 // 10
    special = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
    tokenizer = train_tokenizer(
        "byte-bpe", texts=[text[:edge]], vocab_size=1024, special_tokens=special
    )
    ids = {
        "train": torch.tensor(tokenizer.encode(text[:edge]).ids),
        "valid": torch.tensor(tokenizer.encode(text[edge:]).ids),
    }
    model = gf.create("gpt2", seed=SEED, tokenizer=tokenizer, **SETTINGS)
    model.to(device).train()
    decay = [p for p in model.parameters() if p.ndim == 2]
    plain = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99))
    draw = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    best, history = math.inf, []
    for step in range(STEPS):
        warm = min(1.0, (step + 1) / WARM)
        cool = 0.5 * (1 + math.cos(math.pi * step / STEPS))
        for group in optimizer.param_groups:
            group["lr"] = RATE * warm * max(cool, 0.05)
        loss = loss_of(model, window(ids["train"], BATCH, draw).to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 200 == 0:
            valid = validation(model, ids["valid"].to(device))
            per_character = valid * len(ids["valid"]) / (len(text) - edge)
            history.append({"step": step + 1, "train": loss.item(), "valid": valid})
            print(f"{step + 1:5} {loss.item():.3f}, valid {valid:.3f}, {per_character:.3f} a char")
            if valid < best:
                best = valid
                model.cpu().eval()
                model.save(out)
                card = {**history[-1], "valid per character": per_character}
                (out / "training.json").write_text(json.dumps(card, indent=2) + "\n")
                model.to(device).train()


def window(ids: Tensor, rows: int, draw: torch.Generator) -> Tensor:
    starts = torch.randint(len(ids) - 257, (rows, 1), generator=draw)
    return ids[starts + torch.arange(257)]


def loss_of(model: torch.nn.Module, rows: Tensor) -> Tensor:
    logits = model(rows[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def validation(model: torch.nn.Module, ids: Tensor) -> float:
    model.eval()
    rows = ids[: (len(ids) - 1) // 256 * 256 + 1]
    windows = rows.unfold(0, 257, 256)
    loss = loss_of(model, windows).item()
    model.train()
    return loss


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
