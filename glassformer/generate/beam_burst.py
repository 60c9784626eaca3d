"""Beam search on a GPU with whole steps, including the choice of beams, as CUDA graphs.

The host checks only every few steps which requests are finished. Only the recording requires a GPU;
without one, the same steps run eagerly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.core.linear import Linear
from glassformer.core.pass_context import PassContext, TreeMask
from glassformer.generate.beam import results
from glassformer.generate.config import GenerationConfig
from glassformer.generate.history import NOTHING, SequenceState
from glassformer.generate.processors import Processor, asks_host, reads_text
from glassformer.generate.runner import Runner
from glassformer.generate.search import Alone, BeamState
from glassformer.generate.slots import SOURCE, StaticCache, with_room
from glassformer.generate.strategy import GenerationRequest, StepOutput, processed

BURST = 8
PAGE = 64  # capacity is a multiple of it, so that similar lengths share a recording


def bursts_fit(config: GenerationConfig) -> bool:
    """Returns whether a step needs nothing from the host: no strings, no clock, no sampling."""
    return not (
        config.do_sample
        or config.force_words_ids
        or config.tree
        or config.stop_strings
        or config.max_time is not None
        or asks_host(config)
    )


class BranchSlots(StaticCache):
    """Static cache with one row per request.

    Each step takes one slot of the text, and one key for each beam of the request.
    """

    def __init__(self, like: Cache, rows: int, width: int, capacity: int) -> None:
        super().__init__(like, rows, capacity)
        device = like.device
        self.turn = torch.arange(width, device=device)
        self.itself = torch.eye(width, dtype=torch.bool, device=device).expand(rows, -1, -1)
        self.own = torch.zeros(rows, width, capacity, dtype=torch.bool, device=device)
        self.slot = torch.zeros(capacity, dtype=torch.long, device=device)  # slot of each key
        self.newest = torch.zeros(1, dtype=torch.long, device=device)  # slot
        self.position = torch.zeros(rows, width, dtype=torch.long, device=device)

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[depth]
        keys.index_copy_(2, self.next + self.turn, k)
        values.index_copy_(2, self.next + self.turn, v)
        return keys, values

    def lay(self, cache: Cache) -> None:
        super().lay(cache)
        length, width = cache.length, len(self.turn)
        self.own.fill_(False)
        self.own[:, :, :length] = True
        step = (self.places - length).div(width, rounding_mode="floor")
        self.slot.copy_(torch.where(self.places < length, self.places, length + step))
        self.newest.fill_(length)

    def descend(self, beam: Tensor) -> None:
        """Makes beams of [request, beam] continue their parents; a beam also sees itself."""
        place = beam[..., None].expand(-1, -1, self.capacity)
        self.own.copy_(self.own.gather(1, place))
        self.own.index_copy_(2, self.next + self.turn, self.itself)
        self.position.copy_(self.position.gather(1, beam))

    def advance_by(self, real: Tensor) -> None:
        self.position += real
        self.next += len(self.turn)
        self.newest += 1


class BeamRunner(Runner):
    """Runner whose recorded step includes the choice of beams."""

    def __init__(
        self, net: Transformer, config: GenerationConfig, processors: list[Processor], *, rows: int
    ) -> None:
        super().__init__(net, chunk=config.prefill_chunk)
        self.config, self.processors, self.rows = config, processors, rows
        self.width = config.num_beams
        assert net.decoder is not None
        table = net.decoder.spec.embed.position
        self.pad = (
            None if table is None else table.padding_idx
        )  # padding token, which takes no position
        assert net.spec.lm_head is not None
        self.head = net.spec.lm_head.name
        self.slots: BranchSlots | None = None
        self.search: BeamState | None = None
        self.room = 0  # maximum number of tokens of a text
        self.prompt = torch.zeros(rows, dtype=torch.long, device=self.device)
        self.reads_text = reads_text(config)
        self.prompts = torch.zeros(rows, 0, dtype=torch.long, device=self.device)  # right-aligned
        self.beam = torch.zeros(rows, self.width, dtype=torch.long, device=self.device)
        self.tokens = torch.zeros_like(self.beam)
        self.work: Callable[[], None] = self.step_once
        if config.compile:
            self.work = torch.compile(self.step_once, fullgraph=True, dynamic=False)
        self.play: Callable[[], None] = self.work
        self.readings: dict[Shape, RecordedBeamPrefill] = {}
        self.met: set[Shape] = set()
        if self.device.type == "cuda":
            from glassformer.generate.kernels import prepare  # needs triton

            for module in net.modules():
                if isinstance(module, Linear) and "weight" in module._parameters:  # not quantized
                    prepare(module)

    def begin(self, requests: Sequence[GenerationRequest]) -> None:
        """Prefills the prompts and takes the first step."""
        self.forget()
        fresh = BeamState(self.config, [request.limit for request in requests], self.device)
        self.prompt[: len(requests)] = torch.tensor([len(r.prompt) for r in requests])
        if self.reads_text:
            self.keep_prompts(requests)
        reading = self.recorded(requests, fresh.tokens.shape[-1])
        if reading is not None:
            assert self.search is not None
            self.search.lay(fresh)
            reading(requests)
            return
        logits = self.read(requests, 1)
        assert self.cache is not None
        cache = with_room(self.cache, self.slots, requests[0])
        limit, longest = fresh.tokens.shape[-1], cache.length + self.width * fresh.tokens.shape[-1]
        if self.slots is None or not self.slots.holds(cache, longest) or self.room < limit:
            self.room = -(-limit // PAGE) * PAGE
            capacity = -(-(cache.length + self.width * limit) // PAGE) * PAGE
            self.slots = BranchSlots(cache, self.rows, self.width, capacity)
            self.search = BeamState(self.config, [limit] * self.rows, self.device, self.room)
            self.record()
        assert self.search is not None
        self.slots.lay(cache)
        self.search.lay(fresh)
        last = torch.arange(self.rows * self.width, device=self.device) // self.width
        self.choose(logits[last.clamp(max=len(requests) - 1)])

    def keep_prompts(self, requests: Sequence[GenerationRequest]) -> None:
        """Stores the prompts for processors that depend on the tokens of the text."""
        longest = max(len(request.prompt) for request in requests)
        if longest > self.prompts.shape[1]:
            slots = -(-longest // PAGE) * PAGE
            self.prompts = self.prompts.new_full((self.rows, slots), NOTHING)
            self.slots = None  # recordings read the old address
        before = self.prompts.shape[1]
        rows = [[*[NOTHING] * (before - len(r.prompt)), *r.prompt] for r in requests]
        self.prompts[: len(requests)] = torch.tensor(rows)

    def recorded(
        self, requests: Sequence[GenerationRequest], limit: int
    ) -> RecordedBeamPrefill | None:
        """Returns a recorded prefill for these prompts if possible.

        It is recorded when a shape occurs for the second time, because recording takes longer than
        a few prefills.
        """
        shape, net = shape_of(requests), self.net
        if any(s is not None and s.active_wrapper is not None for s in (net.encoder, net.decoder)):
            return None  # the tokens of an adapter are read, too
        known = self.prefix_cache is not None and self.prefix_cache.helps(
            [r.prompt for r in requests]
        )
        if self.device.type != "cuda" or self.slots is None or shape is None or known:
            return None
        fits = shape.prompt + self.width * limit <= self.slots.capacity and limit <= self.room
        if not fits or not self.slots.reads(shape.source, shape.padded):
            return None
        if shape not in self.readings and shape in self.met:
            self.readings[shape] = RecordedBeamPrefill(self, shape)
        self.met.add(shape)
        return self.readings.get(shape)

    def step_once(self) -> None:
        assert self.slots is not None and self.net.decoder is not None
        slots, tokens = self.slots, self.tokens
        slots.descend(self.beam)
        real = torch.ones_like(tokens, dtype=torch.bool) if self.pad is None else tokens != self.pad
        ctx = PassContext(
            stack="decoder",
            q_slot=slots.newest.expand(self.width),
            k_slot=slots.slot,
            q_pos=slots.position if self.pad is None else torch.where(real, slots.position, -1),
            key_mask=slots.real,
            encoder_attention_mask=slots.encoder_attention_mask,
            tree_mask=TreeMask(slots.own, slots.slot),
            cache=slots,
        )
        hidden = self.net.decoder(tokens, ctx)
        logits = self.net.heads[self.head](hidden, None)
        slots.advance_by(real)
        self.choose(logits.flatten(0, 1))

    def choose(self, logits: Tensor) -> None:
        """Chooses the beams that continue, from logits of [row, token]."""
        assert self.search is not None
        search = self.search
        log = logits.log_softmax(-1, dtype=torch.float32)
        rows = (self.prompt, search.limit, search.made)
        prompt, limit, made = (x[:, None].expand(-1, self.width).flatten() for x in rows)
        flat = search.tokens.flatten(0, 1)
        text = self.written(flat, made) if self.reads_text else flat
        history = SequenceState(text, search.logprobs.flatten(0, 1), prompt, limit, made)
        scores = processed(self.processors, history, log, spoil=True)
        beam, token = search.step(scores, log, Alone())
        self.beam.copy_(beam)
        self.tokens.copy_(token)

    def written(self, new: Tensor, made: Tensor) -> Tensor:
        """Returns the texts with prompts, [row, slot], right-aligned as in `SequenceState`."""
        whole = torch.cat((self.prompts.repeat_interleave(self.width, 0), new), 1)
        slots = torch.arange(whole.shape[1], device=new.device)
        at = slots - (new.shape[1] - made)[:, None]
        return whole.gather(1, at.clamp(0, whole.shape[1] - 1)).masked_fill(at < 0, NOTHING)

    def record(self) -> None:
        """Records a step as a CUDA graph, on a GPU."""
        self.readings.clear()
        if self.device.type == "cuda":
            assert self.slots is not None
            self.slots.next.zero_()
            self.play = recording(self.work, self.slots.next)

    def burst(self, steps: int) -> None:
        for _ in range(steps):
            self.play()


class Shape(NamedTuple):
    """Shape of a prefill: tokens per prompt and per source, and whether sources are padded."""

    prompt: int
    source: int
    padded: bool


def shape_of(requests: Sequence[GenerationRequest]) -> Shape | None:
    if len({len(request.prompt) for request in requests}) > 1:
        return None
    if not isinstance(requests[0].source, tuple | None):
        return None
    lengths = {len(request.source or ()) for request in requests}
    source = -(-max(lengths) // SOURCE) * SOURCE
    return Shape(len(requests[0].prompt), source, lengths != {source})


class RecordedBeamPrefill:
    """Recorded prefill for prompts and sources of one shape, with the first choice of beams."""

    def __init__(self, runner: BeamRunner, shape: Shape) -> None:
        self.runner = runner
        rows, device = runner.rows, runner.device
        self.prompt = torch.zeros(rows, shape.prompt, dtype=torch.long, device=device)
        self.source = torch.zeros(rows, shape.source, dtype=torch.long, device=device)
        self.mask = torch.ones_like(self.source, dtype=torch.bool) if shape.padded else None
        assert runner.slots is not None
        self.play = recording(self.work, runner.slots.next)

    def work(self) -> None:
        runner, net, memory, cache = self.runner, self.runner.net, None, Cache()
        assert runner.slots is not None
        if self.source.shape[1]:
            memory = net.encode(self.source, self.mask)
        out = net.decode(
            self.prompt,
            encoder_hidden_states=memory,
            encoder_attention_mask=self.mask,
            cache=cache,
            logits_to_keep=1,
        )
        runner.slots.lay(cache)
        assert out.logits is not None
        runner.choose(out.logits[:, -1].repeat_interleave(runner.width, 0))

    def __call__(self, requests: Sequence[GenerationRequest]) -> None:
        length = self.source.shape[1]
        more = [requests[0]] * (self.runner.rows - len(requests))
        rows = [*requests, *more]
        self.prompt.copy_(torch.tensor([request.prompt for request in rows]))
        sources = [request.source or () for request in rows]
        self.source.copy_(torch.tensor([[*ids, *[0] * (length - len(ids))] for ids in sources]))
        if self.mask is not None:
            counts = torch.tensor([[len(ids)] for ids in sources])
            self.mask.copy_(torch.arange(length) < counts)
        self.play()
        assert self.runner.slots is not None
        self.runner.slots.length = self.prompt.shape[1]


def recording(work: Callable[[], None], place: Tensor) -> Callable[[], None]:
    """Records `work` as a CUDA graph and returns its replay.

    The warm-up runs of `work` each start with `place` at zero.
    """
    side = torch.cuda.Stream(place.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            place.zero_()
            work()
    torch.cuda.current_stream().wait_stream(side)
    place.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        work()
    return graph.replay


@torch.inference_mode()
def run_beams(runner: BeamRunner, requests: Sequence[GenerationRequest]) -> Iterator[StepOutput]:
    """Yields the output of every burst of steps. A batch is finished before the next one begins."""
    waiting = deque(requests)
    while waiting:
        batch = [waiting.popleft() for _ in range(min(runner.rows, len(waiting)))]
        runner.begin(batch)
        search = runner.search
        assert search is not None
        left = max(request.limit for request in batch) - 1
        work = dict(enumerate(batch))
        while True:
            over = search.over.all(1).tolist()
            done = [row for row in work if over[row]]
            if done:
                search.check_texts([request.number for request in batch])
                yield StepOutput(finished=results(search, done, [work.pop(row) for row in done]))
            if not work:
                break
            steps = min(BURST, left)
            runner.burst(steps)
            left -= steps
