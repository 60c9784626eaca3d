"""Decoding of audio windows with temperature fallback.

A window is decoded by beam search (or greedily) first. If its text is too repetitive or too
improbable, it is decoded again by sampling, at rising temperatures (Radford et al., 2022, 4.5).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.generate import GenerationOutput, Generator
from glassformer.generate.config import GenerationConfig
from glassformer.generate.encoded_source import EncodedSource, encode_sources
from glassformer.generate.strategy import GenerationRequest, SamplingStrategy, Strategy
from glassformer.generate.timestamp_rules import PRECISION
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.speech.options import TranscribeOptions
from glassformer.tasks.speech.special_tokens import SpeechTokens

FIRST_TIME = 1.0
"""Latest start of the first segment in its window, in seconds, if nothing else is said."""


@dataclass(frozen=True)
class DecodedWindow:
    """The tokens of a window, without the end token, and how sure the model is of them."""

    tokens: tuple[int, ...]
    text: str
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


@dataclass(frozen=True)
class EncodedWindow:
    """A window that the encoder has read, and the logits after the start token."""

    source: EncodedSource
    first_logits: Tensor  # [token]


class SpeechSampling(SamplingStrategy):
    """Sampling with the log-probabilities of Whisper's thresholds, those after the rules."""

    logprobs_after_processors = True


class SpeechGenerator(Generator):
    """Generator whose samples have the log-probabilities after the processors."""

    def strategy(self, configs: GenerationConfig) -> Callable[..., Strategy]:
        return SpeechSampling if configs.num_beams == 1 else super().strategy(configs)


class WindowDecoder:
    """Encodes and decodes windows of audio.

    Args:
        model: A speech recognition model.
        tokens: Its special tokens.
        options: The options.
    """

    def __init__(self, model: TaskModel, tokens: SpeechTokens, options: TranscribeOptions) -> None:
        base = model.generator
        self.tokens, self.options = tokens, options
        self.net = base.net
        self.generator = SpeechGenerator(base.net, base.tokenizer, base.saved, base.recorded)
        self.configs = {t: self._config(t) for t in options.temperatures}

    def _config(self, temperature: float) -> GenerationConfig:
        options, times = self.options, not self.options.without_timestamps
        given: dict[str, Any] = {
            "return_timestamps": times,
            "max_new_tokens": self.tokens.context,  # each request has its own limit
            "task": options.task if self.tokens.languages else None,
            "seed": options.seed,
            "batch_size": max(1, options.batch_size) * max(options.beam_size, options.best_of),
        }
        if times:
            seconds = options.max_initial_timestamp
            saved = self.generator.saved.get("max_initial_timestamp_index")
            if seconds is not None or saved is None:
                seconds = FIRST_TIME if seconds is None else seconds
                given["max_initial_timestamp_index"] = round(seconds / PRECISION)
            given["no_timestamps_token_id"] = self.tokens.no_times
        if options.suppress_tokens is not None:
            given["suppress_tokens"] = options.suppress_tokens
        if temperature == 0:
            given |= {"num_beams": options.beam_size, "length_penalty": options.length_penalty}
        else:
            given |= {"do_sample": True, "temperature": temperature, "num_beams": 1}
            given["num_return_sequences"] = options.best_of
        return self.generator.resolve_config(given)

    def encode(self, windows: Tensor) -> list[EncodedWindow]:
        """Runs the encoder over windows, [window, band, frame]."""
        weight = next(self.net.parameters())
        sources, logits = encode_sources(self.net, windows.to(weight.dtype), self.tokens.start)
        return [EncodedWindow(*one) for one in zip(sources, logits, strict=True)]

    def languages(self, window: EncodedWindow) -> dict[int, float]:
        """Returns the probability of each language token."""
        ids = list(self.tokens.languages.values())
        probabilities = window.first_logits[ids].softmax(-1).tolist()
        return dict(zip(ids, probabilities, strict=True))

    def decode(
        self, windows: Sequence[EncodedWindow], prompts: Sequence[Sequence[int]]
    ) -> list[DecodedWindow]:
        """Decodes windows, again at the next temperature where the text fails the thresholds.

        Args:
            windows: The windows.
            prompts: The tokens that each text begins with.
        """
        silence = [self._no_speech(*one) for one in zip(windows, prompts, strict=True)]
        found: dict[int, DecodedWindow] = {}
        waiting = list(range(len(windows)))
        most = self.options.max_new_tokens or self.tokens.context // 2
        for temperature, configs in self.configs.items():
            requests = [
                GenerationRequest(
                    number,
                    tuple(prompts[number]),
                    min(most, self.tokens.context - len(prompts[number])),
                    windows[number].source,
                )
                for number in waiting
            ]
            for number, output in self.generator.results(requests, configs):
                found[number] = self._result(output, temperature, silence[number])
            waiting = [number for number in waiting if self._fails(found[number])]
            if not waiting:
                break
        return [found[number] for number in range(len(windows))]

    def _fails(self, result: DecodedWindow) -> bool:
        """Returns whether a text is too repetitive or too improbable, and not silence."""
        options = self.options
        improbable = result.avg_logprob < options.logprob_threshold
        if improbable and result.no_speech_prob > options.no_speech_threshold:
            return False
        return improbable or result.compression_ratio > options.compression_ratio_threshold

    @torch.inference_mode()
    def _no_speech(self, window: EncodedWindow, prompt: Sequence[int]) -> float:
        logits, place = window.first_logits, prompt.index(self.tokens.start)
        if place:
            ids = torch.tensor([prompt[: place + 1]], device=logits.device)
            out = self.net.decode(ids, cache=window.source.cache(), logits_to_keep=1)
            assert out.logits is not None
            logits = out.logits[0, -1].float()
        return float(logits.softmax(-1)[self.tokens.no_speech])

    def _result(
        self, output: GenerationOutput, temperature: float, no_speech_prob: float
    ) -> DecodedWindow:
        outputs = [output, *output.alternatives]
        if temperature == 0 and self.options.beam_size > 1:
            outputs = outputs[:1]
        best = max(outputs, key=self._mean)
        tokens = tuple(token for token in best.tokens if token != self.tokens.eos)
        text = self.tokens.decode(tokens).strip()
        mean = self._mean(best) if best.score is None else best.score
        return DecodedWindow(
            tokens, text, temperature, mean, compression_ratio(text), no_speech_prob
        )

    def _mean(self, output: GenerationOutput) -> float:
        """Returns the mean log-probability, counting the end token as OpenAI's program does."""
        texts = sum(token != self.tokens.eos for token in output.tokens)
        return sum(output.logprobs) / (texts + 1)


def compression_ratio(text: str) -> float:
    """Returns the size of a text divided by its size after compression; 0 without text."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0
