"""Generate room, its desk: prompts come in, `Generation`s go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from glassformer.core import Net
from glassformer.core.signal import Signal
from glassformer.errors import GlassformerError
from glassformer.generate.beam import Beam
from glassformer.generate.contrastive import run_contrastive
from glassformer.generate.guess import Draft, Lookup, run_guessing
from glassformer.generate.knobs import Knobs, make_knobs
from glassformer.generate.loop import run
from glassformer.generate.phrases import PhraseBeam
from glassformer.generate.processors import Processor, make_processors
from glassformer.generate.prompt import Prompt, as_ids, is_list_of_prompts
from glassformer.generate.regex import match
from glassformer.generate.result import Generation, Interrupted, Piece
from glassformer.generate.runner import Runner
from glassformer.generate.score import Score, score, windows
from glassformer.generate.stops import Stops
from glassformer.generate.strategy import Finished, News, Pick, Request, Strategy
from glassformer.generate.taped import ROWS, TapeRunner, knows
from glassformer.text import Tokenizer


class Writer:
    """A net that writes, with its tokenizer and the knobs that were saved with it."""

    def __init__(
        self,
        net: Net,
        tokenizer: Tokenizer | None,
        saved: Mapping[str, Any],
        recorded: dict[Any, Any] | None = None,
    ) -> None:
        if net.decoder is None or not any(
            head.pick == "each" and head.outputs is not None for head in net.spec.heads
        ):
            raise GlassformerError(
                "This model cannot write: it needs a decoder and a language-model head."
            )
        self.net, self.tokenizer, self.saved = net, tokenizer, saved
        self.recorded = {} if recorded is None else recorded  # by shape: see `played`
        self.translates = net.encoder is not None
        self.listens = net.encoder is not None and isinstance(net.encoder.embed, Signal)

    # --- what a user calls ---------------------------------------------------------------------

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt] | None,
        given: Mapping[str, Any],
        draft: Net | None = None,
    ) -> Generation | list[Generation]:
        axes = self.net.encoder.embed.axes if self.net.encoder is not None else 1
        several = is_list_of_prompts(prompt, axes)
        prompts: Sequence[Prompt | None] = prompt if several else [prompt]  # type: ignore[assignment,list-item]
        results: dict[int, Generation] = {}
        try:
            for number, generation in self.each(prompts, given, draft):
                results[number] = generation
        except KeyboardInterrupt:
            if several:
                raise Interrupted(results) from None
            raise
        ordered = [results[number] for number in range(len(prompts))]
        return ordered if several else ordered[0]

    def each(
        self,
        prompts: Sequence[Prompt | None],
        given: Mapping[str, Any],
        draft: Net | None = None,
    ) -> Iterator[tuple[int, Generation]]:
        """Results as they are finished, with the number of their prompt."""
        knobs = self.knobs(given)
        yield from self.results(self.requests(prompts, knobs), knobs, draft)

    def requests(self, prompts: Sequence[Prompt | None], knobs: Knobs) -> list[Request]:
        """What is wrong with a prompt of several is said with its number."""
        found: list[Request] = []
        for number, prompt in enumerate(prompts):
            try:
                found.append(self.request(number, prompt, knobs))
            except GlassformerError as error:
                where = f"Prompt {number}: " if len(prompts) > 1 else ""
                raise GlassformerError(f"{where}{error}") from None
        return found

    def results(
        self, requests: Sequence[Request], knobs: Knobs, draft: Net | None = None
    ) -> Iterator[tuple[int, Generation]]:
        parts: dict[int, list[Finished]] = {}
        for news in self.run(requests, knobs, draft):
            for one in news.finished:
                parts.setdefault(one.request, []).append(one)
                if len(parts[one.request]) == knobs.num_return_sequences:
                    yield one.request, self.whole(parts.pop(one.request), knobs)

    def stream(
        self, prompt: Prompt | None, given: Mapping[str, Any], draft: Net | None = None
    ) -> Iterator[Piece]:
        knobs = self.knobs(given)
        if not streams(knobs):
            raise GlassformerError(
                "A stream is one text, token by token; set num_beams and num_return_sequences to 1."
            )
        outlet = None if self.tokenizer is None else self.tokenizer.target.stream()
        held, gone = "", ""
        for news in self.run([self.request(0, prompt, knobs)], knobs, draft):
            for token in news.tokens:
                fresh = "" if outlet is None else outlet.push(token.id)
                if news.finished and outlet is not None:
                    fresh += outlet.finish()
                held += fresh
                if news.finished:
                    ready = self.whole(news.finished, knobs).text.removeprefix(gone)
                else:
                    ready = held[: len(held) - unsure(held, knobs.stop_strings)]
                held = held.removeprefix(ready)
                gone += ready
                yield Piece(ready, token.id, token.logprob)

    def score(
        self, text: Prompt, target: Prompt | None, window: int | None, stride: int | None
    ) -> Score:
        knobs = self.knobs({})
        frame = windows(self.context(self.net.decoder), window, stride)
        if not self.translates:
            if target is not None:
                raise GlassformerError("Only an encoder-decoder scores a target; leave it out.")
            return score(self.net, self.ids(text, knobs), frame)
        if target is None:
            raise GlassformerError("An encoder-decoder scores a target beside the text it reads.")
        if isinstance(target, str) and target and self.tokenizer is not None:
            target = self.tokenizer.target.encode(target).ids
        wanted = self.ids(target, knobs)
        return score(self.net, [self.start(knobs), *wanted], frame, self.source(text, knobs))

    # --- how it is done ------------------------------------------------------------------------

    def run(
        self, requests: Sequence[Request], knobs: Knobs, draft: Net | None = None
    ) -> Iterator[News]:
        stops = Stops(knobs, self.decode if knobs.stop_strings else None)
        processors = make_processors(knobs, self.most(knobs))
        if knobs.regex is not None:
            assert self.tokenizer is not None
            processors.append(match(knobs, self.tokenizer))
        runner = Runner(self.net, chunk=knobs.prefill_chunk)
        guessing = draft is not None or knobs.prompt_lookup_num_tokens > 0
        if guessing and (
            knobs.num_beams > 1 or knobs.num_return_sequences > 1 or knobs.contrastive
        ):
            raise GlassformerError(
                "Guessing ahead is for one text at a time; leave the assistant out, or num_beams, "
                "num_return_sequences and penalty_alpha."
            )
        for request in requests if guessing or knobs.contrastive else ():
            if knobs.contrastive:
                yield from run_contrastive(runner, knobs, processors, stops, request)
                continue
            guesser = Lookup() if draft is None else Draft(draft, request.source)
            count = knobs.num_assistant_tokens if draft else knobs.prompt_lookup_num_tokens
            pick = Pick(knobs, processors, stops)
            yield from run_guessing(runner, pick, request, guesser, count)
            runner.forget()
        if guessing or knobs.contrastive:
            return
        if self.on_gpu(knobs):
            yield from self.played(requests, knobs, processors, stops)
            return
        strategy = self.strategy(knobs)(knobs, processors, stops)
        rows = strategy.width * max(1, min(knobs.batch_size // strategy.width, len(requests)))
        if knobs.graph and rows <= ROWS and knows(self.net):
            runner = TapeRunner(self.net, rows=rows, chunk=knobs.prefill_chunk)
        yield from run(runner, strategy, requests, knobs.batch_size)

    def on_gpu(self, knobs: Knobs) -> bool:
        """Whether steps are recorded and played back."""
        if not knobs.graph or next(self.net.parameters()).device.type != "cuda":
            return False
        from glassformer.generate.static import fits  # triton is there only beside a GPU

        return fits(self.net)

    def played(
        self, requests: Sequence[Request], knobs: Knobs, processors: list[Processor], stops: Stops
    ) -> Iterator[News]:
        """Recordings are kept: the next call of the same shape plays them at once."""
        from glassformer.generate.burst import BurstRunner, run_bursts
        from glassformer.generate.static import StaticRunner

        strategy = self.strategy(knobs)(knobs, processors, stops)
        rows = strategy.width * max(1, min(knobs.batch_size // strategy.width, len(requests)))
        shape = (id(self.net), rows, knobs.prefill_chunk, knobs.compile)
        if processors or knobs.num_beams > 1:
            if shape not in self.recorded:
                self.recorded[shape] = StaticRunner(
                    self.net, rows=rows, chunk=knobs.prefill_chunk, compiled=knobs.compile
                )
            yield from run(self.recorded[shape], strategy, requests, rows)
            return
        taste = (knobs.do_sample, knobs.temperature, knobs.top_k, knobs.top_p, knobs.min_p)
        if (shape, taste, knobs.typical_p) not in self.recorded:
            self.recorded[shape, taste, knobs.typical_p] = BurstRunner(self.net, knobs, rows=rows)
        runner = self.recorded[shape, taste, knobs.typical_p]
        yield from run_bursts(runner, knobs, stops, requests)

    def strategy(self, knobs: Knobs) -> Callable[..., Strategy]:
        if knobs.num_beams == 1:
            return Pick
        return PhraseBeam if knobs.force_words_ids else Beam

    def knobs(self, given: Mapping[str, Any]) -> Knobs:
        special = self.net.spec.tokens
        known = {
            "bos_token_id": special.bos,
            "eos_token_id": special.eos,
            "pad_token_id": special.pad,
            "decoder_start_token_id": special.start,
        }
        found = make_knobs({**known, **self.saved}, given)
        for name in ("stop_strings", "regex", "source_language", "target_language"):
            if getattr(found, name) and self.tokenizer is None:
                raise GlassformerError(
                    f"{name} needs a tokenizer, and the model's folder has none."
                )
        return self.in_language(found)

    def in_language(self, knobs: Knobs) -> Knobs:
        """A translation starts with the token of its language, or has it as its first."""
        if knobs.source_language is None and knobs.target_language is None:
            return knobs
        target = self.reads(knobs).target
        if knobs.target_language is None or target.language is None:
            return knobs
        if target.encode("").ids[0] == target.language:
            return replace(knobs, forced_bos_token_id=target.language)
        return replace(knobs, decoder_start_token_id=target.language)

    def reads(self, knobs: Knobs) -> Tokenizer:
        if self.tokenizer is None:
            raise GlassformerError(
                "The model's folder has no tokenizer; give the prompt as token ids."
            )
        if knobs.source_language is None and knobs.target_language is None:
            return self.tokenizer
        return self.tokenizer.with_languages(knobs.source_language, knobs.target_language)

    def request(self, number: int, prompt: Prompt | None, knobs: Knobs) -> Request:
        source = self.source(prompt, knobs) if self.translates else None
        ids = [self.start(knobs)] if self.translates else self.ids(prompt, knobs)
        room = 0 if self.translates else 1
        ids = self.fitting(ids, self.net.decoder, knobs, room)
        return Request(number, tuple(ids), self.most(knobs)(len(ids)), source)

    def source(self, prompt: Prompt | None, knobs: Knobs) -> tuple[int, ...] | Tensor:
        """What the encoder reads."""
        if not self.listens:
            ids = self.ids(prompt, knobs)
            return tuple(self.fitting(ids, self.net.encoder, knobs, room=0))
        if not isinstance(prompt, Tensor):
            raise GlassformerError(
                "This model writes about sound: give it a spectrogram, as model.reader makes it."
            )
        return prompt

    def ids(self, prompt: Prompt | None, knobs: Knobs) -> list[int]:
        if prompt is None:
            if self.translates:
                raise GlassformerError("This model rewrites a text: give it one as the prompt.")
            return [self.start(knobs)]
        if isinstance(prompt, str):
            tokenizer = self.reads(knobs)
            ids = tokenizer.encode(prompt).ids if prompt else []
        else:
            ids = as_ids(prompt)
        if not ids:
            raise GlassformerError(
                "The prompt is empty; leave it out for a text from the start token."
            )
        stack = self.net.decoder if self.listens else self.net.encoder or self.net.decoder
        assert stack is not None
        size = stack.spec.embed.vocabulary
        for id in ids:
            if not 0 <= id < size:
                raise GlassformerError(
                    f"The prompt has the token {id}, and the model's end at {size - 1}."
                )
        return ids

    def start(self, knobs: Knobs) -> int:
        order = (knobs.decoder_start_token_id, knobs.bos_token_id, *knobs.eos_token_id)
        found = next((id for id in order if id is not None), None)
        if found is None:
            raise GlassformerError("The model has no start token; give one as bos_token_id.")
        return found

    def context(self, stack: Any) -> int | None:
        table = stack.spec.embed.position
        return None if table is None else int(table.length)

    def fitting(self, ids: list[int], stack: Any, knobs: Knobs, room: int) -> list[int]:
        """The prompt if it fits, or what `truncate` leaves of it."""
        context = self.context(stack)
        if context is None or len(ids) + room <= context:
            return ids
        over = len(ids) + room - context
        if knobs.truncate is None:
            raise GlassformerError(
                f"The prompt has {len(ids)} tokens, {over} more than the model's {context} "
                "positions leave room for; shorten it, or choose a side to cut with truncate."
            )
        return ids[over:] if knobs.truncate == "left" else ids[: len(ids) - over]

    def most(self, knobs: Knobs) -> Callable[[int], int]:
        context = self.context(self.net.decoder)

        def limit(prompt: int) -> int:
            count = knobs.new_tokens(prompt, context)
            if count < 1:
                raise GlassformerError(
                    f"max_length ({knobs.max_length}) leaves no room behind the prompt's {prompt} "
                    "tokens; raise it, or set max_new_tokens."
                )
            return count

        return limit

    def decode(self, tokens: Sequence[int]) -> str:
        assert self.tokenizer is not None
        return self.tokenizer.target.decode(tokens)

    def whole(self, finished: list[Finished], knobs: Knobs) -> Generation:
        """The sequences of one request as a Generation with its alternatives."""
        stops = Stops(knobs, self.decode)
        best, *others = (
            Generation(
                text=self.text(one, stops),
                tokens=one.tokens,
                logprobs=one.logprobs,
                stop=one.stop,
                score=one.score,
                tree=one.tree,
            )
            for one in sorted(finished, key=lambda one: one.sequence)
        )
        best.alternatives = others
        return best

    def text(self, one: Finished, stops: Stops) -> str:
        if self.tokenizer is None:
            return ""
        cut = stops.cut(one.tokens) if one.stop == "string" else None
        return self.decode(one.tokens) if cut is None else cut


def streams(knobs: Knobs) -> bool:
    """Whether tokens are final as they come."""
    return knobs.num_beams == 1 and knobs.num_return_sequences == 1


def unsure(text: str, strings: Sequence[str]) -> int:
    """How much of the text's end may be the beginning of a stop string."""
    longest = max((len(string) - 1 for string in strings), default=0)
    for count in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-count:]) for string in strings):
            return count
    return 0
