"""A text goes on token by token, with what the cache holds at each; and the
tree of a beam search, with what was pruned."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from glassformer.errors import GlassformerError
from glassformer.generate.beam import BeamCandidate
from glassformer.generate.result import GenerationOutput
from glassformer.generate.runner import Runner
from glassformer.generate.sampling import chances, draw, largest, shaped
from glassformer.generate.strategy import GenerationRequest
from glassformer.inside.attribute.predicted import Predicted
from glassformer.inside.attribute.predictions import head_with_outputs
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.intervene.choices import OutputCandidate, choose
from glassformer.inside.intervene.editing import standing
from glassformer.spec import BlockSpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View


@dataclass(frozen=True)
class GenerationStep:
    """One step: the keys and values of `reused` tokens were there, those of `fresh` ones were
    computed, and then a token was chosen."""

    reused: int
    fresh: int
    chosen: OutputCandidate
    candidates: tuple[OutputCandidate, ...]
    seconds: float

    @property
    def held(self) -> int:
        return self.reused + self.fresh


@dataclass(frozen=True)
class CacheSize:
    """What a cache holds: of every token `token_bytes`, and `memory_bytes` once and for all of the
    `memory` tokens that an encoder has read."""

    layers: int
    key_heads: int
    head_dim: int
    token_bytes: int
    memory: int
    memory_bytes: int


@torch.no_grad()
def generation_trace(
    view: View, length: int, *, sample: bool = False, seed: int = 0, top: int = 10, **knobs: Any
) -> tuple[list[GenerationStep], str]:
    """Up to `length` tokens that follow the view's text, with its edits, and why they ended."""
    request = _request(view, length)
    turned = view.model.writer.knobs({"do_sample": sample, "seed": seed, **knobs})
    runner = Runner(view.model.net)
    chance = chances(seed, 0, request.limit)
    said = Predicted(view, head_with_outputs(view.model, None).name)  # which the writer reads
    steps: list[GenerationStep] = []
    fresh, reused = len(request.prompt), 0
    with standing(view.model.net, view.edits, alone=True):
        began = time.perf_counter()
        logits = runner.read([request], 1)
        for number in range(request.limit):
            token = largest(logits)
            if sample:
                token = draw(shaped(logits, turned), chance[number : number + 1])
            spent = time.perf_counter() - began
            choice = choose(said, [0], logits, token.tolist(), turned, top)[0]
            assert choice.actual is not None
            steps.append(GenerationStep(reused, fresh, choice.actual, choice.candidates, spent))
            if int(token) in turned.eos_token_id:
                return steps, "eos"
            reused, fresh = reused + fresh, 1
            if number + 1 < request.limit:
                check_cancelled()
                began = time.perf_counter()
                logits = runner.step(torch.tensor([0], device=token.device), token)
    return steps, "length"


def cache_size(view: View) -> CacheSize:
    stack = view.model.spec.last_stack
    layers = [stack.blocks[index] for index in stack.order]
    blocks = [layer for layer in layers if isinstance(layer, BlockSpec)]
    if not blocks:
        raise GlassformerError(
            f"{view.model.architecture} keeps no keys and values; its layers have no attention."
        )
    number = next(view.model.net.parameters()).element_size()
    token = sum(2 * number * one.attention.key_heads * one.attention.head_dim for one in blocks)
    cross = sum(2 * number * c.key_heads * c.head_dim for one in blocks if (c := one.cross))
    memory = len(view.reading.encoder) if cross and view.stack == "decoder" else 0
    first = blocks[0].attention
    return CacheSize(len(blocks), first.key_heads, first.head_dim, token, memory, memory * cross)


@dataclass(frozen=True)
class Node:
    """A token of a beam search: `parent` is its place in the list, None where it follows the text;
    `score` is the sum of log-probabilities from there, `state` is kept, finished or pruned."""

    parent: int | None
    step: int
    token: int
    text: str
    logprob: float
    score: float
    state: str


@torch.no_grad()
def beam_tree(
    view: View, beams: int, length: int, **knobs: Any
) -> tuple[list[Node], list[tuple[int, GenerationOutput]]]:
    """Every token that a beam search has weighed, and its results with the nodes they end at."""
    request, writer = _request(view, length), view.model.writer
    turned = writer.knobs(
        {"num_beams": beams, "num_return_sequences": beams, "tree": True, "do_sample": False}
        | {"graph": False, **knobs}
    )
    with standing(view.model.net, view.edits, alone=True):
        ((_, best),) = writer.results([request], turned)
    assert best.tree is not None
    nodes: list[Node] = []
    alive: list[int] = []  # of each beam: its newest node
    for number, step in enumerate(best.tree):
        grown: list[int] = []
        parts = {"kept": step.kept, "finished": step.finished, "pruned": step.pruned}
        for state, branches in parts.items():
            for branch in branches:
                if state == "kept":
                    grown.append(len(nodes))
                nodes.append(_node(view, nodes, alive, number, branch, state))
        alive = grown
    ends = {tuple(_path(nodes, place)): place for place in range(len(nodes))}
    found = [(ends.get(tuple(one.tokens)), one) for one in (best, *best.alternatives)]
    return nodes, [(place, one) for place, one in found if place is not None]


def _node(
    view: View, nodes: list[Node], alive: list[int], step: int, branch: BeamCandidate, state: str
) -> Node:
    parent = alive[branch.beam] if alive else None
    before = 0.0 if parent is None else nodes[parent].score
    text = view.token_text(branch.token)
    return Node(parent, step, branch.token, text, branch.score - before, branch.score, state)


def _path(nodes: list[Node], place: int | None) -> list[int]:
    """The tokens from the text to a node."""
    found: list[int] = []
    while place is not None:
        found.insert(0, nodes[place].token)
        place = nodes[place].parent
    return found


def _request(view: View, length: int) -> GenerationRequest:
    """What follows the tokens that the view has read."""
    if view.stack != "decoder":
        raise GlassformerError(f"{view.model.architecture} does not write; it fills gaps.")
    inputs = view.reading.inputs
    prompt = tuple(inputs["tokens"][0].tolist())
    source = inputs.get("source")
    context = view.spec.context_length
    room = length if context is None else min(length, context - len(prompt))
    if room < 1:
        raise GlassformerError(
            f"The text has {len(prompt)} tokens, which are all that the model can read; shorten it "
            "to let it write."
        )
    return GenerationRequest(0, prompt, room, None if source is None else _given(source))


def _given(source: torch.Tensor) -> Any:
    return source[0] if source.is_floating_point() else tuple(source[0].tolist())
