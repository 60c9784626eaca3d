"""What recipes/zoo/stories.toml learns from: a teacher that fits, and what it writes.

    glassformer fetch stories15m
    python recipes/zoo/stories.py cut
    python recipes/zoo/stories.py sample --tokens 60000000 --seconds 180

`cut` takes from the published story model (MIT) the pieces of its vocabulary that stories hardly
use, with their rows of its table: a text of pieces that stay has the same tokens as before, and
the same chances among them. `sample` lets what is left write stories, many side by side, and keeps
them as token ids. Both are functions of their seed (and device). All goes to data/zoo/stories.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer as gf
from glassformer.core import Cache, Transformer
from glassformer.errors import DataError
from glassformer.model import Model
from glassformer.storage.files import write_json
from glassformer.storage.folders import atomic_folder
from glassformer.text import Tokenizer

HOME = Path("data/zoo/stories")
PIECES = 8192
RESERVED = 259  # unknown, start, end, and the bytes, of which all other texts can be made
START = 1  # stands before a story and so behind the last: the teacher knows no other end
CONTEXT = 256  # tokens that the teacher reads at once
OVERLAP = 128  # tokens of a window that the next one begins with
HELD_OUT = 500  # stories
TABLES = ("model.embed_tokens.weight", "lm_head.weight")

Ids = NDArray[np.uint16]


# --- the teacher writes -----------------------------------------------------------------------


@torch.inference_mode()
def written(model: Transformer, start: Tensor, length: int, draw: torch.Generator) -> Tensor:
    """Rows of [row, token] written on to that length, at temperature 1. Chances are float32
    whatever the model computes in: they are what is learned."""
    tokens = torch.empty(len(start), length, dtype=torch.long, device=start.device)
    tokens[:, : start.shape[1]] = start
    cache, new = Cache(), start
    table = model.heads["lm"].out.weight.float()
    for place in range(start.shape[1], length):
        states = model(
            new, past_key_values=cache, logits_to_keep=1, return_features=True
        ).head_outputs["lm"][:, -1]
        chances = (states.float() @ table.T).softmax(-1)
        races = torch.empty_like(chances).exponential_(generator=draw)
        new = (chances / races).argmax(-1, keepdim=True)  # whoever is first, as by its chance
        tokens[:, place : place + 1] = new
    return tokens


def windows(model: Transformer, lanes: int, seed: int) -> Iterator[Tensor]:
    """What so many lanes write, [lane, token], a window at a time and without end: one story after
    another, each token with all that the window has before it."""
    device = next(model.parameters()).device
    draw = torch.Generator(device).manual_seed(seed)
    rows = torch.full((lanes, 1), START, device=device)
    rows = written(model, rows, CONTEXT, draw)
    yield rows
    while True:
        rows = written(model, rows[:, -OVERLAP:], CONTEXT, draw)
        yield rows[:, OVERLAP:]


def stories_in(lane: Ids) -> list[Ids]:
    """Each without its start; the last, which may not be at its end, is left out."""
    starts = np.flatnonzero(lane == START)
    return [lane[begin + 1 : end] for begin, end in pairwise(starts)]


def apart(stories: Iterable[Ids]) -> tuple[list[Ids], list[Ids]]:
    """Every story once: the first, to judge by, and all others, to learn from."""
    seen: set[bytes] = set()
    kept = []
    for story in stories:
        key = story.tobytes()
        if len(story) and key not in seen:
            seen.add(key)
            kept.append(story)
    count = min(HELD_OUT, len(kept) // 10)
    return kept[:count], kept[count:]


def stream_of(stories: Sequence[Ids]) -> Ids:
    """One behind another, each with its start, as the teacher was taught."""
    start = np.array([START], np.uint16)
    return np.concatenate([part for story in stories for part in (start, story)])


def sample(folder: Path, tokens: int, seconds: float, lanes: int, seed: int, device: str) -> None:
    teacher = gf.load(folder / "teacher", device)
    if device != "cpu":
        teacher.to(torch.bfloat16)
    begin, parts, count = time.monotonic(), [], 0
    for part in windows(teacher.eval(), lanes, seed):
        parts.append(part.to("cpu", torch.int32).numpy().astype(np.uint16))
        count += parts[-1].size
        spent = time.monotonic() - begin
        print(f"{count:,} tokens, {count / spent:,.0f} a second", flush=True)
        if count >= tokens or spent >= seconds:
            break
    whole = np.concatenate(parts, axis=1)
    found = [story for lane in whole for story in stories_in(lane)]
    held_out, learned = apart(found)
    if not held_out:
        raise DataError(f"{count:,} tokens are less than ten stories; raise --tokens or --seconds.")
    for name, some in (("valid", held_out), ("train", learned)):
        np.save(folder / f"{name}.npy", stream_of(some))
    tokenizer = teacher.tokenizer
    assert tokenizer is not None
    texts = [{"text": tokenizer.decode(story.tolist())} for story in held_out]
    lines = (json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
    (folder / "valid.jsonl").write_text("".join(lines), "utf-8")
    about = {
        "tokens": int(sum(map(len, learned))),
        "stories": len(learned),
        "held_out": len(held_out),
        "twice": len(found) - len(held_out) - len(learned),
        "seed": seed,
        "lanes": lanes,
        "seconds": round(spent, 1),
    }
    write_json(folder / "samples.json", about)
    print(json.dumps(about))


# --- a smaller vocabulary ---------------------------------------------------------------------


@torch.inference_mode()
def expected(model: Transformer, rows: Tensor, at_once: int = 16) -> Tensor:
    """How often each piece is expected in these rows, [piece]: by the chance that it had
    everywhere, which tells of rare ones what counting could not."""
    total = torch.zeros(model.spec.last_stack.embed.vocabulary, dtype=torch.float64)
    for part in rows.split(at_once):
        logits = model(part).logits
        assert logits is not None
        total += logits.float().softmax(-1).sum((0, 1)).double().cpu()
    return total


def inside(piece: str, ranks: dict[tuple[str, str], int]) -> set[str]:
    """What the merges of byte pairs make of a piece's characters on the way to it, and itself. If
    all of that stays, it is still made in the same way: no merge that stays comes in between."""
    parts = list(piece)
    found = set(parts)
    while len(parts) > 1:
        pairs = [(ranks.get(pair, len(ranks)), at) for at, pair in enumerate(pairwise(parts))]
        rank, at = min(pairs)
        if rank == len(ranks):
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        found.add(parts[at])
    return found


def kept_pieces(tokens: Sequence[str], merges: Sequence[Any], worth: Tensor, size: int) -> set[str]:
    """The reserved ones, those of one ASCII character, and the most worth with all inside them."""
    ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
    known = set(tokens)
    kept = set(tokens[:RESERVED])
    kept |= {token for token in tokens if len(token) == 1 and token.isascii()}
    for index in worth.argsort(descending=True, stable=True).tolist():
        needed = (inside(tokens[index], ranks) & known) | {tokens[index]}
        if len(kept | needed) <= size:
            kept |= needed
        if len(kept) == size:
            break
    return kept


def cut_tokenizer(folder: Path, keep: set[str]) -> list[int]:
    """Leaves these pieces in a folder's tokenizer.json; the ids that they had, in order. The
    special ones come first and stay, but a text ends with what it begins with: see START."""
    path = folder / "tokenizer.json"
    said = json.loads(path.read_text("utf-8"))
    model = said["model"]
    ids = sorted(index for token, index in model["vocab"].items() if token in keep)
    names = {index: token for token, index in model["vocab"].items()}
    model["vocab"] = {names[index]: new for new, index in enumerate(ids)}
    model["merges"] = [
        [left, right] for left, right in model["merges"] if {left, right, left + right} <= keep
    ]
    path.write_text(json.dumps(said, ensure_ascii=False), "utf-8")
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    config["eos_token"] = config["bos_token"]
    write_json(folder / "tokenizer_config.json", config)
    return ids


def cut(teacher: Model, folder: Path, worth: Tensor, size: int = PIECES) -> None:
    """The teacher with the pieces that are most worth it, as a folder that `gf.load` reads."""
    tokenizer = teacher.tokenizer
    assert tokenizer is not None
    tokens = [tokenizer.token(index) for index in range(tokenizer.size)]
    with tempfile.TemporaryDirectory() as place, atomic_folder(folder) as draft:
        whole = Path(place)
        teacher.save(whole)
        said = json.loads((whole / "tokenizer.json").read_text("utf-8"))
        keep = kept_pieces(tokens, said["model"]["merges"], worth, size)
        tokenizer.save(draft)
        ids = cut_tokenizer(draft, keep)
        tensors = load_file(whole / "model.safetensors")
        for name in set(TABLES) & set(tensors):
            tensors[name] = tensors[name][ids].contiguous()
        save_file(tensors, draft / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((whole / "config.json").read_text("utf-8"))
        config |= {"vocab_size": len(ids), "eos_token_id": START}
        write_json(draft / "config.json", config)
    assert Tokenizer.load(folder).size == len(ids)


def cut_by_samples(source: str, folder: Path, rows: int, size: int, seed: int, device: str) -> None:
    teacher = gf.load(source, device)
    model = teacher.eval()
    written_rows = next(windows(model, rows, seed))
    worth = expected(model, written_rows)
    model.to(torch.bfloat16)  # half the bytes, and what a GPU computes in
    cut(teacher, folder / "teacher", worth, size)
    kept = Tokenizer.load(folder / "teacher").vocabulary
    assert teacher.tokenizer is not None
    ids = [index for token, index in teacher.tokenizer.vocabulary.items() if token in kept]
    share = float(worth[ids].sum() / worth.sum())
    print(f"{len(ids):,} of {len(worth):,} pieces stay, which have {share:.4%} of all chances")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=HOME)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=1)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("cut", help="the teacher, with a smaller vocabulary")
    one.add_argument("--teacher", default="real:stories15m", help="or llama2.c's stories15M.bin")
    one.add_argument("--rows", type=int, default=1024, help="of 256 tokens, to learn what is used")
    one.add_argument("--pieces", type=int, default=PIECES)
    two = verbs.add_parser("sample", help="what the teacher writes")
    two.add_argument("--tokens", type=int, default=60_000_000, help="at least, unless")
    two.add_argument("--seconds", type=float, default=180, help="are over")
    two.add_argument("--lanes", type=int, default=8192, help="that write side by side")
    asked = parser.parse_args()
    if asked.verb == "cut":
        cut_by_samples(
            asked.teacher, asked.folder, asked.rows, asked.pieces, asked.seed, asked.device
        )
    else:
        sample(asked.folder, asked.tokens, asked.seconds, asked.lanes, asked.seed, asked.device)


if __name__ == "__main__":
    main()
