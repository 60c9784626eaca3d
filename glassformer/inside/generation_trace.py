"""Step-by-step traces of generation: cache use per token, and the full beam search tree."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from glassformer.core.input_rules import input_name, text_ids
from glassformer.errors import InputError, UnsupportedError
from glassformer.generate.beam import BeamCandidate
from glassformer.generate.result import GenerationOutput
from glassformer.generate.runner import Runner
from glassformer.generate.sampling import chances, draw, largest, shaped
from glassformer.generate.strategy import GenerationRequest
from glassformer.inside.attribute.predictions import Predicted, head_with_outputs
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.model_inputs import decoder_beginning
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.intervene.choices import OutputCandidate, choose
from glassformer.inside.intervene.editing import applied_edits
from glassformer.spec import BlockSpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View


@dataclass(frozen=True)
class GenerationStep:
    """One generation step.

    Attributes:
        reused: Number of tokens whose keys and values came from the cache.
        fresh: Number of tokens whose keys and values were computed in this step.
        chosen: The token chosen after that.
        candidates: The most probable tokens.
        seconds: Duration of the step.
    """

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
    """The size of the key-value cache.

    Attributes:
        layers: Number of layers with attention.
        key_heads: Key-value heads of the first such layer.
        head_dim: Size of one head.
        token_bytes: Bytes per cached token.
        memory: Number of encoder tokens held for cross-attention.
        memory_bytes: Bytes of these encoder tokens, allocated once.
    """

    layers: int
    key_heads: int
    head_dim: int
    token_bytes: int
    memory: int
    memory_bytes: int


@torch.no_grad()
def generation_trace(
    view: View,
    length: int,
    *,
    position: int | None = None,
    sample: bool = False,
    seed: int = 0,
    top: int = 10,
    **options: Any,
) -> tuple[list[GenerationStep], str]:
    """Generates up to `length` tokens, with the view's edits.

    Args:
        view: The view to continue from.
        length: The maximum number of new tokens.
        position: The position to continue from, see `continued_position`.
        sample: Whether to sample; greedy decoding otherwise.
        seed: The random seed for sampling.
        top: The number of candidates recorded per step.

    Other keyword arguments are generation settings.

    Returns:
        The steps, and the reason generation stopped ("eos" or "length").
    """
    request = _request(view, length, position)
    turned = view.model.generator.resolve_config({"do_sample": sample, "seed": seed, **options})
    runner = Runner(view.model)
    chance = chances(seed, 0, request.limit)
    predicted = Predicted(
        view, head_with_outputs(view.model, None).name
    )  # the head used for generation
    steps: list[GenerationStep] = []
    fresh, reused = len(request.prompt), 0
    with applied_edits(view.model, view.edits, alone=True):
        began = time.perf_counter()
        logits = runner.read([request], 1)
        for number in range(request.limit):
            token = largest(logits)
            if sample:
                token = draw(shaped(logits, turned), chance[number : number + 1])
            spent = time.perf_counter() - began
            choice = choose(predicted, [0], logits, token.tolist(), turned, top)[0]
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
    """Computes the key-value cache size of the view's last stack."""
    stack = view.model.spec.last_stack
    layers = [stack.blocks[index] for index in stack.order]
    blocks = [layer for layer in layers if isinstance(layer, BlockSpec)]
    if not blocks:
        raise UnsupportedError(
            f"{view.model.architecture} has no cache of keys and values; its layers have no "
            "attention."
        )
    number = view.model.dtype.itemsize
    token = sum(2 * number * one.attention.key_heads * one.attention.head_dim for one in blocks)
    cross = sum(2 * number * c.key_heads * c.head_dim for one in blocks if (c := one.cross))
    memory = len(view.model_inputs.encoder) if cross and view.stack == "decoder" else 0
    first = blocks[0].attention
    return CacheSize(len(blocks), first.key_heads, first.head_dim, token, memory, memory * cross)


BeamState = Literal["kept", "finished", "length", "pruned"]


@dataclass(frozen=True)
class BeamNode:
    """A token in the beam search tree.

    Attributes:
        parent: Index of the parent in the list of nodes, None if the token follows the prompt.
        step: The decoding step.
        token: The token id.
        text: The token's text.
        logprob: The log-probability of this token.
        score: The sum of log-probabilities since the prompt.
        state: What beam search did with it. "finished" ended the text, "length" reached the maximum
            length.
    """

    parent: int | None
    step: int
    token: int
    text: str
    logprob: float
    score: float
    state: BeamState


@torch.no_grad()
def beam_tree(
    view: View, beams: int, length: int, *, position: int | None = None, **options: Any
) -> tuple[list[BeamNode], list[tuple[int, GenerationOutput]]]:
    """Runs a beam search and returns every candidate it considered.

    Args:
        view: The view to continue from.
        beams: The number of beams.
        length: The maximum number of new tokens.
        position: The position to continue from, see `continued_position`.

    Other keyword arguments are generation settings.

    Returns:
        The nodes, and the results, each with the index of its last node.
    """
    request, generator = _request(view, length, position), view.model.generator
    turned = generator.resolve_config(
        {"num_beams": beams, "num_return_sequences": beams, "tree": True, "do_sample": False}
        | {"enforce_eager": True, **options}
    )
    with applied_edits(view.model, view.edits, alone=True):
        ((_, best),) = generator.results([request], turned)
    assert best.tree is not None
    nodes: list[BeamNode] = []
    alive: list[int] = []  # the newest node of each beam
    for number, step in enumerate(best.tree):
        grown: list[int] = []
        parts: dict[BeamState, list[BeamCandidate]] = {
            "kept": step.kept,
            "finished": step.finished,
            "pruned": step.pruned,
        }
        for state, branches in parts.items():
            for branch in branches:
                if state == "kept":
                    grown.append(len(nodes))
                ended = state == "finished" and branch.token not in turned.eos_token_id
                nodes.append(
                    _node(view, nodes, alive, number, branch, "length" if ended else state)
                )
        alive = grown
    ends = {tuple(_path(nodes, place)): place for place in range(len(nodes))}
    found = [(ends.get(tuple(one.tokens)), one) for one in (best, *best.alternatives)]
    return nodes, [(place, one) for place, one in found if place is not None]


def _node(
    view: View,
    nodes: list[BeamNode],
    alive: list[int],
    step: int,
    branch: BeamCandidate,
    state: BeamState,
) -> BeamNode:
    parent = alive[branch.beam] if alive else None
    before = 0.0 if parent is None else nodes[parent].score
    text = view.token_text(branch.token)
    return BeamNode(parent, step, branch.token, text, branch.score - before, branch.score, state)


def _path(nodes: list[BeamNode], place: int | None) -> list[int]:
    """The tokens from the prompt to a node."""
    found: list[int] = []
    while place is not None:
        found.insert(0, nodes[place].token)
        place = nodes[place].parent
    return found


def continued_position(view: View, position: int | None = None) -> int:
    """Returns the position whose token is the last of the prompt.

    By default, a decoder continues after its text, and an encoder-decoder writes from its start
    tokens: what the decoder reads is what the model is to write.
    """
    tokens = view.tokens
    if position is not None:
        check_index(position, len(tokens), "position")
        return position % len(tokens)
    if not view.model.spec.is_encoder_decoder:
        return len(tokens) - 1
    source = view.model_inputs.inputs[input_name(view.model.spec)]
    return len(decoder_beginning(view.model, source)) - 1


def _request(view: View, length: int, position: int | None) -> GenerationRequest:
    """A generation request with the view's tokens up to a position as the prompt."""
    if view.stack != "decoder":
        raise UnsupportedError(f"{view.model.architecture} does not generate text; it fills gaps.")
    inputs = view.model_inputs.inputs
    prompt = tuple(text_ids(inputs)[0].tolist()[: continued_position(view, position) + 1])
    source = inputs[input_name(view.model.spec)] if view.model.spec.is_encoder_decoder else None
    context = view.spec.context_length
    capacity = length if context is None else min(length, context - len(prompt))
    if capacity < 1:
        raise InputError(
            f"The text has {len(prompt)} tokens, and the model's context length is {context}: "
            "there is no room for another token; shorten the text."
        )
    return GenerationRequest(0, prompt, capacity, None if source is None else _given(source))


def _given(source: torch.Tensor) -> Any:
    return source[0] if source.is_floating_point() else tuple(source[0].tolist())
