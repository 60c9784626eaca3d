"""Generation settings, their validation, and their merge with saved settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Literal

from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generate.saved_config import REFUSED, check_saved
from glassformer.text.backends.whisper import TASKS

DEFAULT_NEW_TOKENS = 128
AllowedTokens = Callable[[int, Tensor], Sequence[int]]
LogitsProcessor = Callable[
    [Tensor, Tensor], Tensor
]  # of tokens [row, position], scores [row, token]
Phrase = tuple[tuple[int, ...], ...]  # alternative token sequences, one of which must appear


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Settings of a generation call.

    Names and meanings follow transformers' `GenerationConfig`, with a few additional fields. Values
    are validated on construction.

    `max_length` counts the prompt (for decoder-only models); `max_new_tokens` takes precedence over
    it. `stop_strings` end a text before the first occurrence of any of them. `max_time` is in
    seconds.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int = 0
    min_length: int = 0
    max_time: float | None = None
    stop_strings: tuple[str, ...] = ()

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0  # 0: no limit
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    seed: int = 0
    num_return_sequences: int = 1

    num_beams: int = 1
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    force_words_ids: tuple[Phrase, ...] = ()  # each entry must appear in the text
    tree: bool = False  # record the kept and pruned candidates of a beam search

    penalty_alpha: float = 0.0  # above 0, with top_k: contrastive search
    prompt_lookup_num_tokens: int = 0  # above 0: speculate with matches in the text so far
    num_assistant_tokens: int = 5  # tokens that a draft model proposes at a time

    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: tuple[int, ...] = ()
    prefix_allowed_tokens_fn: AllowedTokens | None = None
    logits_processor: tuple[LogitsProcessor, ...] = ()  # functions that change the scores
    regex: str | None = None  # the whole new text must match it

    bos_token_id: int | None = None
    eos_token_id: tuple[int, ...] = ()
    pad_token_id: int | None = None
    decoder_start_token_id: int | None = None
    source_language: str | None = None  # language name as in the tokenizer; for translation
    target_language: str | None = None
    language: str | None = None  # spoken language, "de" or "german"; None: detect it
    task: str | None = None  # speech models: "transcribe" or "translate" (to English)
    return_timestamps: bool = False  # speech models: generate the times of segments
    no_timestamps_token_id: int | None = None  # the token before the timestamp tokens
    max_initial_timestamp_index: int | None = None  # of the first time, in steps of 0.02 s

    control: str | None = None  # name of a control code, which is put before the prompt
    examples: tuple[str, ...] = ()  # texts before the prompt, whose pattern the new text follows

    batch_size: int = 16  # rows per forward pass
    prefill_chunk: int | None = None  # prompt tokens per forward pass; None: all of them
    prefix_cache_bytes: int = 2**28  # size limit of the cache for shared prompt prefixes
    bidirectional_prefix: bool = False  # bidirectional attention within the prompt (prefix LM)
    enforce_eager: bool = False  # run the modules, without CUDA graphs and compiled C++ steps
    compile: bool = False  # on a GPU: fuse kernels, which takes some seconds once
    truncate: Literal["left", "right"] | None = None  # side on which too long prompts are cut

    def __post_init__(self) -> None:
        for name, (test, range_) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not test(value):
                too_large = isinstance(value, int | float) and value >= LARGEST
                most = ", and below 2^62" if too_large else ""
                raise ConfigError(f"{name} must be {range_}{most}, not {value!r}.")
        for broken, message in self._contradictions():
            if broken:
                raise ConfigError(message)

    def _contradictions(self) -> list[tuple[bool, str]]:
        most, least = self.max_new_tokens, self.min_new_tokens
        beams, groups = self.num_beams, self.num_beam_groups
        wanted = self.num_return_sequences
        sequences = (*self.bad_words_ids, *(way for ways in self.force_words_ids for way in ways))
        return [
            (
                most is not None and least > most,
                f"min_new_tokens ({least}) is above max_new_tokens ({most}).",
            ),
            (
                self.max_length is not None and most is None and self.min_length > self.max_length,
                f"min_length ({self.min_length}) is above max_length ({self.max_length}).",
            ),
            (
                not all(self.stop_strings),
                "A stop string is empty, so that every text would end at once; leave it out.",
            ),
            (
                not all(sequences) or not all(self.force_words_ids),
                "bad_words_ids and force_words_ids are lists of tokens, none of them empty.",
            ),
            (
                beams % groups != 0,
                f"num_beams ({beams}) must be a multiple of num_beam_groups ({groups}).",
            ),
            (
                groups > 1 and self.do_sample,
                "Groups of beams are not sampled; leave do_sample or num_beam_groups out.",
            ),
            (
                self.diversity_penalty > 0 and groups == 1,
                "diversity_penalty needs several groups; set num_beam_groups.",
            ),
            (
                beams > 1 and wanted > beams,
                f"{beams} beams cannot return {wanted} sequences; raise num_beams.",
            ),
            (
                beams == 1 and wanted > 1 and not self.do_sample,
                f"Greedy search has one result, not {wanted}; set do_sample or num_beams.",
            ),
            (
                bool(self.force_words_ids) and (beams == 1 or groups > 1 or self.do_sample),
                "Phrases are forced by a plain beam search; set num_beams above 1.",
            ),
            (
                self.bidirectional_prefix and (self.contrastive or self.prefill_chunk is not None),
                "bidirectional_prefix reads a prompt as a whole; leave penalty_alpha and "
                "prefill_chunk out.",
            ),
            (
                self.tree and beams == 1,
                "Only a beam search has a tree; set num_beams above 1.",
            ),
            (
                self.penalty_alpha > 0 and (self.top_k < 2 or self.do_sample or beams > 1),
                "Contrastive search (penalty_alpha) needs top_k of at least 2, and neither "
                "do_sample nor num_beams.",
            ),
        ]

    @property
    def contrastive(self) -> bool:
        return self.penalty_alpha > 0

    def new_tokens(self, prompt: int, context: int | None) -> int:
        """Returns how many tokens may follow a prompt.

        Args:
            prompt: Number of prompt tokens.
            context: Context length of the model; None means no limit.
        """
        most = self.max_new_tokens
        if most is None:
            most = DEFAULT_NEW_TOKENS if self.max_length is None else self.max_length - prompt
        return most if context is None else min(most, context - prompt)


LARGEST = 2**62
"""The limit of numbers, so that a tensor can hold the sum of two."""


def _above_zero(value: float) -> bool:
    return 0 < value < LARGEST


def _not_negative(value: float) -> bool:
    return 0 <= value < LARGEST


def _share(value: float) -> bool:
    return 0 < value <= 1


MOST_SEQUENCES = 10_000
"""The largest number of beams, and of sequences per prompt."""


def _few(value: int) -> bool:
    return 1 <= value <= MOST_SEQUENCES


RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_new_tokens": (_above_zero, "1 or more"),
    "max_length": (_above_zero, "1 or more"),
    "min_new_tokens": (_not_negative, "0 or more"),
    "min_length": (_not_negative, "0 or more"),
    "max_time": (_above_zero, "a number of seconds above 0"),
    "temperature": (
        lambda value: value >= 1e-9,  # scores stay finite
        "at least 1e-9 to sample (leave do_sample out for the most probable token)",
    ),
    "top_k": (_not_negative, "0 (all tokens) or more"),
    "top_p": (_share, "above 0 and at most 1"),
    "min_p": (lambda value: 0 <= value <= 1, "between 0 and 1"),
    "typical_p": (_share, "above 0 and at most 1"),
    "seed": (lambda value: 0 <= value < 2**63, "a whole number from 0 on"),
    "num_return_sequences": (_few, f"from 1 to {MOST_SEQUENCES:,}"),
    "num_beams": (_few, f"from 1 to {MOST_SEQUENCES:,}"),
    "num_beam_groups": (_few, f"from 1 to {MOST_SEQUENCES:,}"),
    "diversity_penalty": (_not_negative, "0 or more"),
    "early_stopping": (lambda value: value in (True, False, "never"), 'True, False or "never"'),
    "penalty_alpha": (lambda value: 0 <= value <= 1, "between 0 and 1"),
    "prompt_lookup_num_tokens": (_not_negative, "0 or more"),
    "num_assistant_tokens": (_above_zero, "1 or more"),
    "repetition_penalty": (lambda value: 0.01 <= value <= 100, "between 0.01 and 100"),
    "no_repeat_ngram_size": (_not_negative, "0 or more"),
    "batch_size": (_above_zero, "1 or more"),
    "prefill_chunk": (_above_zero, "1 or more"),
    "prefix_cache_bytes": (_not_negative, "0 (keep nothing) or more"),
    "max_initial_timestamp_index": (_not_negative, "0 or more"),
    "task": (lambda value: value in TASKS, "one of " + ", ".join(TASKS)),
    "truncate": (lambda value: value in ("left", "right"), '"left" or "right"'),
}

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
READABLE_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "str": "a text",
    "tuple[str, ...]": "a text or a list of texts",
    "tuple[int, ...]": "a token id or a list of them",
    "tuple[tuple[int, ...], ...]": "a list of lists of token ids",
    "tuple[Phrase, ...]": "a list of phrases, each a list of token ids",
    "AllowedTokens": "a function of a row's number and tokens",
    "tuple[LogitsProcessor, ...]": "a function of tokens and scores, or a list of them",
}
SYNONYMS = {"stop": "stop_strings"}  # other names of options, as on the command line
KINDS = {field.name: str(field.type) for field in fields(GenerationConfig)}
DEFAULTS = {field.name: field.default for field in fields(GenerationConfig)}


def make_generation_config(saved: Mapping[str, Any], given: Mapping[str, Any]) -> GenerationConfig:
    """Merges a model's generation_config.json with the user's settings, which take precedence.

    A saved file may contain settings of other programs: unknown ones are ignored, unless they would
    change the generated text. Unknown settings of the user are an error.

    Args:
        saved: Contents of generation_config.json.
        given: Settings of the user. None resets a setting to its default.

    Returns:
        The validated configuration.
    """
    given = {SYNONYMS.get(name, name): value for name, value in given.items()}
    for name, value in given.items():
        if name not in KINDS and not (name in REFUSED and value is None):
            near = get_close_matches(name, KINDS, 1, cutoff=0.7)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}."
            raise ConfigError(f"There is no option {name!r}; {hint}")
    values = {name: value for name, value in saved.items() if name in KINDS and value is not None}
    if "max_new_tokens" in given or "max_length" in given:  # override both saved limits
        values = {k: v for k, v in values.items() if k not in ("max_new_tokens", "max_length")}
    values |= {name: value for name, value in given.items() if name in KINDS}
    alpha = values.get("penalty_alpha")
    sampled = samples({**given, "penalty_alpha": alpha})
    if sampled is not None:
        values["do_sample"] = sampled
    if given.get("temperature") == 0:  # the other sampling settings have no effect then
        values |= dict.fromkeys(("temperature",) if alpha else SAMPLING)
    if not values.get("do_sample"):  # transformers ignores saved sampling settings then
        kept = ("top_k",) if alpha else ()
        idle = [name for name in SAMPLING if name not in (*given, *kept)]
        values = {name: value for name, value in values.items() if name not in idle}
    config = GenerationConfig(**{name: _as(name, v) for name, v in values.items() if v is not None})
    idle = [name for name in SAMPLING if name in given and getattr(config, name) != DEFAULTS[name]]
    if idle and not config.do_sample and not config.contrastive:
        raise ConfigError(f"{idle[0]} only shapes sampling; set do_sample, or leave it out.")
    check_saved(saved, given, sampled=config.do_sample, beams=config.num_beams > 1)
    return config


def samples(given: Mapping[str, Any]) -> bool | None:
    """Returns whether the user's settings request sampling, or None if they do not say.

    Any sampling setting (such as `top_p`) requests sampling; a temperature of 0 requests the most
    probable token. `top_k` also applies to contrastive search, which does not sample.
    """
    said: bool | None = given.get("do_sample")
    if given.get("temperature") == 0:
        if said:
            raise ConfigError(
                "temperature 0 takes the most probable token, and do_sample draws one; leave one "
                "of them out."
            )
        return False
    if said is None and not given.get("penalty_alpha"):
        return True if any(given.get(name) is not None for name in SAMPLING) else None
    return said


def _as(name: str, value: Any) -> Any:
    """Converts a value to the type of the field; raises an error that names the expected type."""
    kind = KINDS[name]
    try:
        if name == "force_words_ids":
            return tuple(
                _sequences(phrase)
                if phrase and not isinstance(phrase[0], Integral)
                else _sequences([phrase])
                for phrase in value
            )
        if kind.startswith("tuple[tuple[int"):
            return _sequences(value)
        if kind.startswith("tuple[int"):
            return _sequences([[value] if isinstance(value, Integral) else value])[0]
        if kind.startswith("tuple[str"):
            return (value,) if isinstance(value, str) else tuple(_of(str, v) for v in value)
        if kind.startswith("int"):
            return _whole(value)
        if kind.startswith("float"):
            number = float(_of(Real, value))
            if math.isnan(number):
                raise ValueError
            return number
        if kind == "bool" or kind.startswith("str"):
            return _of(bool if kind == "bool" else str, value)
        if kind.startswith("AllowedTokens") and not callable(value):
            raise ValueError
        if kind.startswith("tuple[LogitsProcessor"):
            functions = (value,) if callable(value) else tuple(value)
            if isinstance(value, str) or not all(map(callable, functions)):
                raise ValueError
            return functions
    except (TypeError, ValueError, OverflowError):
        readable = READABLE_KINDS[kind.removesuffix(" | None")]
        raise ConfigError(f"{name} must be {readable}, not {value!r}.") from None
    return value


def _sequences(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(_whole(id) for id in sequence) for sequence in value)


def _whole(value: Any) -> int:
    if isinstance(value, bool | str) or int(value) != value:
        raise ValueError
    return int(value)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value
