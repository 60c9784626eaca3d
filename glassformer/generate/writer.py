"""The text generator: turns prompts into `GenerationOutput`s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Generator as Steps
from dataclasses import replace
from typing import Any

from glassformer.core import Transformer
from glassformer.core.score import Score
from glassformer.core.versioning import in_one_call
from glassformer.errors import ConfigError, InputError
from glassformer.generate.backends.cpp.runner import ROWS, CppRunner
from glassformer.generate.backends.cpp.support import is_supported
from glassformer.generate.beam import BeamSearch
from glassformer.generate.branches import BranchRunner, branches_fit
from glassformer.generate.config import GenerationConfig
from glassformer.generate.context import context_length
from glassformer.generate.contrastive import run_contrastive
from glassformer.generate.guess import DraftModel, PromptLookup, run_guessing
from glassformer.generate.intake import RequestBuilder
from glassformer.generate.loop import run
from glassformer.generate.phrases import PhraseBeam
from glassformer.generate.prefix import PrefixCache, can_share, least_for
from glassformer.generate.processors import Processor, make_processors
from glassformer.generate.prompt import Prompt, is_list_of_prompts
from glassformer.generate.recordings import Recordings, storage_of
from glassformer.generate.regex import match
from glassformer.generate.result import GenerationChunk, GenerationInterrupted, GenerationOutput
from glassformer.generate.runner import Runner, is_edited
from glassformer.generate.score import score, windows
from glassformer.generate.stops import StoppingCriteria, unsure
from glassformer.generate.strategy import (
    FinishedSequence,
    GenerationRequest,
    NoTokenLeftError,
    SamplingStrategy,
    StepOutput,
    Strategy,
)
from glassformer.text import Tokenizer
from glassformer.text.unknown import warned
from glassformer.weights.quantization import is_quantized


class Generator(RequestBuilder):
    """Generates and scores text with a model.

    Args:
        net: The model.
        tokenizer: Its tokenizer; None if prompts are token ids only.
        saved: Settings of the model's generation_config.json.
        recorded: Recorded decoding steps (CUDA graphs) to reuse; see `played`.
        prefix_cache: Prefix cache to reuse.
    """

    def __init__(
        self,
        net: Transformer,
        tokenizer: Tokenizer | None,
        saved: Mapping[str, Any],
        recorded: Recordings | None = None,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        super().__init__(net, tokenizer, saved)
        self.recorded = recorded or Recordings()
        self.prefix_cache = prefix_cache or PrefixCache()

    # --- public methods ------------------------------------------------------------------------

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt] | None,
        given: Mapping[str, Any],
        draft: Transformer | None = None,
    ) -> GenerationOutput | list[GenerationOutput]:
        """Generates text for one prompt or a list of prompts.

        Args:
            prompt: A text, token ids, or (for speech models) a spectrogram; or a list of these.
                None starts from the start token.
            given: Generation settings; see `GenerationConfig`.
            draft: Smaller model with the same vocabulary, for speculative decoding.

        Returns:
            One result, or a list of results if `prompt` is a list.

        Raises:
            GenerationInterrupted: On Ctrl-C, if `prompt` is a list.
        """
        axes = self.net.encoder.embed.axes if self.net.encoder is not None else 1
        several = is_list_of_prompts(prompt, axes)
        prompts: Sequence[Prompt | None] = prompt if several else [prompt]  # type: ignore[assignment,list-item]
        results: dict[int, GenerationOutput] = {}
        try:
            for number, generation in self.each(prompts, given, draft):
                results[number] = generation
        except KeyboardInterrupt:
            if several:
                raise GenerationInterrupted(results) from None
            raise
        ordered = [results[number] for number in range(len(prompts))]
        return ordered if several else ordered[0]

    def each(
        self,
        prompts: Sequence[Prompt | None],
        given: Mapping[str, Any],
        draft: Transformer | None = None,
    ) -> Iterator[tuple[int, GenerationOutput]]:
        """Yields (index of the prompt, result) in the order in which the results are finished."""
        config = self.resolve_config(given)
        try:
            for number, output in self.results(self.requests(prompts, config), config, draft):
                output.unknown_ratio = self.unknown_ratio(prompts[number])
                yield number, output
        except NoTokenLeftError as error:
            raise self.named(error.request, error, prompts) from None

    def results(
        self,
        requests: Sequence[GenerationRequest],
        config: GenerationConfig,
        draft: Transformer | None = None,
    ) -> Iterator[tuple[int, GenerationOutput]]:
        """Yields (request number, result) for prepared requests, in the order of completion."""
        asked = {request.number: request for request in requests}
        parts: dict[int, list[FinishedSequence]] = {}
        for news in self.run(requests, config, draft):
            for one in news.finished:
                parts.setdefault(one.request, []).append(one)
                if len(parts[one.request]) == config.num_return_sequences:
                    whole = self.whole(asked[one.request], parts.pop(one.request), config)
                    yield one.request, whole

    def stream(
        self, prompt: Prompt | None, given: Mapping[str, Any], draft: Transformer | None = None
    ) -> Iterator[GenerationChunk]:
        """Yields the generated tokens of one prompt one by one.

        The text of a chunk is held back while it may be the beginning of a stop string.
        """
        config = self.resolve_config(given)
        if not streams(config):
            raise ConfigError(
                "A stream is one text, token by token; set num_beams and num_return_sequences to 1."
            )
        request, outlet = self.request(0, prompt, config), None
        if self.tokenizer is not None:
            outlet = self.tokenizer.target_tokenizer.stream(after=self.before(request))
        held, gone = "", ""
        for news in self.run([request], config, draft):
            for token in news.tokens:
                fresh = "" if outlet is None else outlet.push(token.id)
                if news.finished and outlet is not None:
                    fresh += outlet.finish()
                held += fresh
                if news.finished:
                    ready = self.whole(request, news.finished, config).text.removeprefix(gone)
                else:
                    ready = held[: len(held) - unsure(held, config.stop_strings)]
                held = held.removeprefix(ready)
                gone += ready
                yield GenerationChunk(ready, token.id, token.logprob)

    def score(
        self, text: Prompt, target: Prompt | None, window: int | None, stride: int | None
    ) -> Score:
        """Returns the log-probability of each token of a text.

        Args:
            text: The text to score; for an encoder-decoder, the input of the encoder.
            target: For an encoder-decoder, the text to score.
            window: Tokens per window for a text longer than the context.
            stride: Tokens by which the window advances.
        """
        config = self.resolve_config({})
        frame = windows(context_length(self.net.decoder), window, stride)
        if not self.translates:
            if target is not None:
                raise InputError("Only an encoder-decoder scores a target; leave it out.")
            found = score(self.net, self.ids(text, config), frame)
            return replace(found, unknown_ratio=self.unknown_ratio(text))
        if target is None:
            raise InputError("An encoder-decoder scores a target beside the text it reads.")
        ids: Prompt = target
        if isinstance(target, str) and target and self.tokenizer is not None:
            warned(self.unknown_ratio(target))
            ids = self.tokenizer.target_tokenizer.encode(target).ids
        wanted, source = self.ids(ids, config), self.source(text, config)
        begun = self.beginning(source, config)
        found = score(self.net, [*begun, *wanted], frame, source)
        unknown = max(map(self.unknown_ratio, (text, target)))
        return Score(wanted, found.logprobs[len(begun) - 1 :], unknown)

    # --- implementation ------------------------------------------------------------------------

    def run(
        self,
        requests: Sequence[GenerationRequest],
        config: GenerationConfig,
        draft: Transformer | None = None,
    ) -> Iterator[StepOutput]:
        """Runs the requests with the decoding algorithm and runner that the settings select."""
        return in_one_call(self.steps(requests, config, draft))

    def steps(
        self,
        requests: Sequence[GenerationRequest],
        config: GenerationConfig,
        draft: Transformer | None,
    ) -> Steps[StepOutput, None, None]:
        stops = StoppingCriteria(config, self.decode if config.stop_strings else None)
        processors = make_processors(config)
        if config.regex is not None:
            assert self.tokenizer is not None
            processors.append(match(config, self.tokenizer, self.translates))
        runner = Runner(
            self.net, chunk=config.prefill_chunk, bidirectional_prefix=config.bidirectional_prefix
        )
        guessing = draft is not None or config.prompt_lookup_num_tokens > 0
        if guessing and (not streams(config) or config.contrastive or config.bidirectional_prefix):
            raise ConfigError(
                "Guessing ahead is for one text at a time; leave the assistant out, or num_beams, "
                "num_return_sequences, penalty_alpha and bidirectional_prefix."
            )
        if guessing or config.contrastive:
            self.share(runner, requests, config)
        for request in requests if guessing or config.contrastive else ():
            if config.contrastive:
                yield from run_contrastive(runner, config, processors, stops, request)
                continue
            guesser = PromptLookup() if draft is None else DraftModel(draft, request.source)
            count = config.num_assistant_tokens if draft else config.prompt_lookup_num_tokens
            pick = SamplingStrategy(config, processors, stops)
            news = run_guessing(runner, pick, request, guesser, count)
            yield from kept(runner, request, news)
            runner.forget()
        if guessing or config.contrastive:
            return
        if self.on_gpu(config):
            yield from self.played(requests, config, processors, stops)
            return
        strategy = self.strategy(config)(config, processors, stops)
        size = min(config.batch_size, ROWS) if is_quantized(self.net) else config.batch_size
        rows = strategy.width * max(1, min(size // strategy.width, len(requests)))
        # only the plain runner supports bidirectional prompts and edited activations
        plain = config.bidirectional_prefix or is_edited(self.net)
        if not config.enforce_eager and rows <= ROWS and is_supported(self.net) and not plain:
            runner = CppRunner(self.net, rows=rows, chunk=config.prefill_chunk)
        elif config.num_beams > 1 and branches_fit(self.net) and not plain:
            runner = BranchRunner(self.net, strategy.width, chunk=config.prefill_chunk)
        self.share(runner, requests, config)
        news = run(runner, strategy, requests, size)
        yield from kept(runner, requests[0], news) if alone(requests, config) else news

    def share(
        self, runner: Runner, requests: Sequence[GenerationRequest], config: GenerationConfig
    ) -> None:
        """Gives a runner access to the prefix cache if the model supports it."""
        runner.prefix_cache = None
        longest = max((len(one.prompt) + one.limit for one in requests), default=0)
        if not config.prefix_cache_bytes:
            self.prefix_cache.forget()
        elif is_quantized(self.net) and not isinstance(runner, CppRunner):
            return  # the modules round keys and values in another way than the compiled step
        elif (
            not config.bidirectional_prefix
            and longest > least_for(self.net)
            and can_share(self.net)
        ):
            prompts = [request.prompt for request in requests]
            new = max(request.limit for request in requests)
            runner.prefix_cache = self.prefix_cache.open(
                self.net, config.prefix_cache_bytes, prompts, new
            )

    def on_gpu(self, config: GenerationConfig) -> bool:
        """Returns whether decoding steps are recorded as CUDA graphs."""
        plain = config.enforce_eager or config.bidirectional_prefix or is_edited(self.net)
        if plain or next(self.net.parameters()).device.type != "cuda":
            return False
        from glassformer.generate.static import fits  # triton is installed only with CUDA builds

        return fits(self.net)

    def played(
        self,
        requests: Sequence[GenerationRequest],
        config: GenerationConfig,
        processors: list[Processor],
        stops: StoppingCriteria,
    ) -> Iterator[StepOutput]:
        """Runs the requests with recorded decoding steps on a GPU.

        Recordings are kept: the next call of the same shape replays them at once.
        """
        from glassformer.generate.beam_burst import BeamRunner, bursts_fit, run_beams
        from glassformer.generate.burst import BurstRunner, run_bursts
        from glassformer.generate.static import StaticRunner

        strategy = self.strategy(config)(config, processors, stops)
        rows = strategy.width * max(1, min(config.batch_size // strategy.width, len(requests)))
        shape = (rows, config.prefill_chunk, config.compile)
        if config.num_beams > 1 and branches_fit(self.net) and bursts_fit(config):
            beams = self.recorded.take(self.net, (rows, config))
            if beams is None:
                count = rows // strategy.width
                beams = BeamRunner(self.net, config, processors, rows=count)
            place = storage_of(self.net)
            self.share(beams, requests, config)
            try:
                yield from run_beams(beams, requests)
            finally:
                beams.forget()
                self.recorded.give((rows, config), beams, place)
            return
        taste = (config.do_sample, config.top_k, config.top_p, config.min_p, config.typical_p)
        plain = bool(processors) or config.num_beams > 1
        key = shape if plain else (shape, taste)
        runner = self.recorded.take(self.net, key)
        if runner is None and plain:
            runner = StaticRunner(
                self.net, rows=rows, chunk=config.prefill_chunk, compiled=config.compile
            )
        elif runner is None:
            runner = BurstRunner(self.net, config, rows=rows)
        place = storage_of(self.net)
        self.share(runner, requests, config)
        try:
            if plain:
                news = run(runner, strategy, requests, rows)
            else:
                news = run_bursts(runner, config, stops, requests)
            yield from kept(runner, requests[0], news) if alone(requests, config) else news
        finally:
            runner.forget()
            self.recorded.give(key, runner, place)

    def strategy(self, config: GenerationConfig) -> Callable[..., Strategy]:
        if config.num_beams == 1:
            return SamplingStrategy
        return PhraseBeam if config.force_words_ids else BeamSearch

    def before(self, request: GenerationRequest) -> Sequence[int]:
        """Returns the tokens that the new text continues; none for an encoder-decoder."""
        return () if self.translates else request.prompt

    def decode(self, request: GenerationRequest, tokens: Sequence[int]) -> str:
        assert self.tokenizer is not None
        return self.tokenizer.target_tokenizer.decode(tokens, after=self.before(request))

    def whole(
        self, request: GenerationRequest, finished: list[FinishedSequence], config: GenerationConfig
    ) -> GenerationOutput:
        """Combines the sequences of one request into a `GenerationOutput` with alternatives."""
        stops = StoppingCriteria(config, self.decode)
        best, *others = (
            GenerationOutput(
                text=self.text(request, one, stops),
                tokens=one.tokens,
                logprobs=one.logprobs,
                finish_reason=one.stop,
                score=one.score,
                tree=one.tree,
            )
            for one in sorted(finished, key=lambda one: one.sequence)
        )
        best.alternatives = others
        return best

    def text(
        self, request: GenerationRequest, one: FinishedSequence, stops: StoppingCriteria
    ) -> str:
        if self.tokenizer is None:
            return ""
        cut = stops.cut(request, one.tokens) if one.stop == "string" else None
        return self.decode(request, one.tokens) if cut is None else cut


def streams(config: GenerationConfig) -> bool:
    """Returns whether tokens are final as soon as they are chosen."""
    return config.num_beams == 1 and config.num_return_sequences == 1


def alone(requests: Sequence[GenerationRequest], config: GenerationConfig) -> bool:
    """Returns whether the batch is a single row."""
    return len(requests) == 1 and streams(config)


def kept(
    runner: Runner, request: GenerationRequest, all_news: Iterator[StepOutput]
) -> Iterator[StepOutput]:
    """Passes step outputs on and stores finished texts in the prefix cache.

    A later prompt may continue such a text.
    """
    for news in all_news:
        for one in news.finished:
            runner.keep((*request.prompt, *one.tokens[:-1]))
        yield news
