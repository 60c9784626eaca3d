"""What looking costs, on a GPT-2-small-shaped decoder (12 layers x 12 heads), 512 tokens, float32,
two cores: a forward, the same in a build without taps, one head's pattern, everything, and an edit
of 32 tokens with its predictions:

    python bench/inside.py [--rounds 9]

Ratios are of the time over that of a plain forward. Without a tap the graphs that the compiler is
given are compared, too.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timing import in_turn, write

import glassformer as gf
from glassformer import inside
from glassformer.core.pass_context import PassContext

LENGTH, SHORT = 512, 32


@contextmanager
def without_taps() -> Iterator[None]:
    """A build whose lines for taps are not there."""
    see, asked = PassContext.hook_point, PassContext.tap_wants
    PassContext.hook_point = lambda self, tensor, value: value  # type: ignore[method-assign]
    PassContext.tap_wants = lambda self, *tensors: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        PassContext.hook_point, PassContext.tap_wants = see, asked  # type: ignore[method-assign]


def graph(model: Any, tokens: torch.Tensor) -> str:
    """What the compiler is given."""
    texts: list[str] = []

    def keep(module: Any, _: Any) -> Callable[..., Any]:
        texts.append(module.code)
        return module.forward

    torch._dynamo.reset()
    torch.compile(model, backend=keep, fullgraph=True)(tokens)
    return "\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(2)
    model = gf.create("gpt2")
    text = torch.randint(1000, 50_000, (LENGTH,), generator=torch.Generator().manual_seed(0))
    ids, few = text.tolist(), text[:SHORT].tolist()
    tokens = text[None]

    def forward() -> Any:
        return model(tokens)

    def bare() -> Any:
        with without_taps():
            return model(tokens)

    def one_head() -> Any:
        return model.look(ids, at="blocks.5.pattern").attention[5, 3]

    def everything() -> Any:
        return model.look(ids, at="*").attention[11, 0]

    def edit() -> Any:
        return model.look(few, edits=[inside.ablate_heads(3, [1])]).predictions()

    with torch.no_grad():
        plain = graph(model, tokens[:, :SHORT])
        with without_taps():
            same = graph(model, tokens[:, :SHORT]) == plain
        sides = {
            "forward": forward,
            "without taps": bare,
            "one head's pattern": one_head,
            "everything": everything,
        }
        times = in_turn(sides, rounds)
        edits = in_turn({"edit": edit}, rounds)["edit"]
    row: dict[str, Any] = {"what": f"GPT-2 small, {LENGTH} tokens", "rounds": rounds}
    row["same graph"] = same
    print(f"{row['what']}: the graph without a tap is that of a build without taps: {same}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        ratio = statistics.median(t / f for t, f in zip(seconds, times["forward"], strict=True))
        print(f"  {name:22} {median * 1e3:9.1f} ms   {ratio:5.3f} of a forward")
        row[name] = {"ms": round(median * 1e3, 2), "ratio": round(ratio, 4)}
    median = statistics.median(edits)
    print(f"  {f'an edit, {SHORT} tokens':22} {median * 1e3:9.1f} ms")
    row[f"edit of {SHORT} tokens"] = {"ms": round(median * 1e3, 2)}
    write(__file__, [row])


if __name__ == "__main__":
    main()
