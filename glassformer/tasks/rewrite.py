"""Shared code of translate and summarize: generates a text for each source, in order.

The layout of sources is saved with the model in config.json: T5's prefix, the separator between
source and target of a decoder-only model, the generation options of a task. A task therefore works
without further options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from glassformer.errors import ConfigError, GlassformerError, InputError, UnsupportedError
from glassformer.generate import GenerationOutput, Generator
from glassformer.generate.config import KINDS, samples
from glassformer.generate.context import context_length
from glassformer.generate.strategy import GenerationRequest
from glassformer.tasks.batching import batched, map_batched
from glassformer.tasks.heads import require_head
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.tasks.task_settings import TRAINED, keep, settings_of
from glassformer.text import Tokenizer
from glassformer.text.unknown import warned

Result = TypeVar("Result")
Ids = list[int]
Finish = Callable[[list[GenerationOutput]], Result]
LANGUAGES = ("source_language", "target_language")
USUAL_LENGTH = 512  # tokens, if nothing sets the length
LENGTHS = {"max_length", "max_new_tokens"}
BEAMS = 4
TEXTS, GPU_TEXTS, ROWS = 16, 64, 16  # per batch; on a CPU a decoder-only model is best up to 16
LEAST_LIMIT = 16  # new tokens that are allowed in addition to the factor
POOLS = 8  # batches whose sources are sorted by length together


class Rewriter:
    """Generates texts from sources with a model.

    Args:
        model: An encoder-decoder or a decoder-only model.
        verb: The task, for error messages.
        task: The name under which config.json may have settings of the task.
        given: The user's generation options.
        source_prefix: The text before each source; the default is that of config.json.
        separator: What separates source and target in a decoder-only model; the default is that of
            config.json.
        max_source_length: The maximum number of tokens of a source.
        new_tokens: The maximum number of new tokens if neither `given` nor config.json sets it.
    """

    def __init__(
        self,
        model: TaskModel,
        verb: str,
        task: str,
        given: Mapping[str, Any],
        *,
        source_prefix: str | None = None,
        separator: str | None = None,
        max_source_length: int | None = None,
        new_tokens: int,
    ) -> None:
        require_head(model, "lm", verb)
        if model.spec.decoder is None:
            raise UnsupportedError(
                f"{verb} needs a model that generates text, and {model.architecture} does not; it "
                "is a model to fill gaps with (fill)."
            )
        self.model, self.verb = model, verb
        if self.generator.listens:
            raise UnsupportedError(
                f"{verb} needs a model that reads text, and {model.architecture} reads sound "
                "(generate)."
            )
        self.alone = model.spec.encoder is None
        saved = {**settings_of(model, task), **settings_of(model, TRAINED)}
        self.saved, self.new_tokens = saved, new_tokens
        options, tokenizer = self._options(given), require_tokenizer(model)
        languages = [options.get(name) for name in LANGUAGES]
        self.tokenizer, address = tokenizer.for_translation(*languages)
        self.config = self.generator.resolve_config(options)
        prefix = saved.get("prefix", "") if source_prefix is None else source_prefix
        if not isinstance(prefix, str):
            raise ConfigError(f"The prefix of a source is a text, not {prefix!r}.")
        self.prefix = address + prefix
        self.behind = self._separator(separator) if self.alone else []
        self.start = start_ids(self.tokenizer) if self.alone else []
        self.capacity = self._capacity(max_source_length)

    @property
    def generator(self) -> Generator:
        return self.model.generator

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Merges the user's options over those of the task over the defaults for rewriting."""
        task = {k: v for k, v in self.saved.items() if k in KINDS}
        if LENGTHS & set(given):
            task = {k: v for k, v in task.items() if k not in LENGTHS}
        saved = {k: v for k, v in self.generator.saved.items() if k in KINDS and v is not None}
        explicit: dict[str, Any] = {**saved, **task, **given}
        sampled = samples(given)
        defaults: dict[str, Any] = {"do_sample": False} if sampled is None else {}
        if "num_beams" not in explicit and not (sampled or given.get("penalty_alpha")):
            defaults["num_beams"] = BEAMS
        self.limited = bool(LENGTHS & set(explicit))  # a length limit is set explicitly
        if not self.limited:
            defaults["max_new_tokens"] = self.new_tokens
        if "batch_size" not in explicit:
            asked = {**defaults, **explicit}.get("num_beams", 1)
            beams = asked if type(asked) is int else 1  # another is refused with the options
            gpu = self.model.device.type != "cpu"
            few = self.alone and not gpu
            defaults["batch_size"] = (
                max(ROWS, beams) if few else (GPU_TEXTS if gpu else TEXTS) * beams
            )
        return {**defaults, **task, **given}

    def _separator(self, separator: str | None) -> Ids:
        if separator is not None:
            return separator_ids(self.tokenizer, separator)
        found = self.saved.get("separator")
        if found is None:
            raise ConfigError(
                f"{self.model.architecture} is a decoder, and its config.json does not contain the "
                f"separator between source and target; give one (--separator), or train the model "
                f"to {self.verb} with the objective continuation."
            )
        size = self.tokenizer.size
        if not isinstance(found, list) or any(
            type(id) is not int or not 0 <= id < size for id in found
        ):
            raise ConfigError(f"config.json gives the separator {found!r}; it is a list of ids.")
        return found

    def _capacity(self, length: int | None) -> int:
        """Returns the maximum number of tokens of a source, including those around the text."""
        stack = self.model.decoder if self.alone else self.model.encoder
        positions = context_length(stack)
        limits = [positions, self.saved.get("length"), self.tokenizer.max_length]
        capacity = min((one for one in limits if one is not None), default=USUAL_LENGTH)
        if self.alone:  # the target is in the same sequence
            new = self.config.max_new_tokens or self.new_tokens
            capacity = max(capacity - new, capacity // 2)
        if length is not None and positions is not None and length > positions:
            raise ConfigError(
                f"A length of {length} tokens exceeds the model's {positions} positions."
            )
        capacity, frame = capacity if length is None else length, self.measure("")
        if capacity <= frame:
            raise ConfigError(
                f"{capacity} tokens leave no space for a text besides the {frame} tokens "
                "around it; increase the length."
            )
        return capacity

    def ids(self, text: str) -> Ids:
        """Returns the token ids of a source, including prefix and separator."""
        if not self.alone:
            return self.tokenizer.encode(self.prefix + text).ids
        inner = self.tokenizer.ids(self.prefix + text)
        return [*self.start, *inner, *self.behind]

    def cut(self, text: str) -> Ids:
        """Like `ids`, but truncates the text to the maximum length.

        As in training, the beginning is kept; for a decoder-only model, the end.
        """
        if not self.alone:
            return self.tokenizer.encode(self.prefix + text, max_length=self.capacity).ids
        before = [*self.start, *self.tokenizer.ids(self.prefix)]
        inner = self.tokenizer.ids(text)
        left = max(self.capacity - len(before) - len(self.behind), 1)
        return [*before, *inner[-left:], *self.behind]

    def unknown_ratio(self, text: str) -> float:
        """Returns the share of a text that the vocabulary does not know; warns of a large one."""
        return warned(self.tokenizer.unknown_ratio(text))

    def measure(self, text: str) -> int:
        """Returns the number of tokens of a source."""
        return len(self.ids(text))

    def request(self, number: int, ids: Ids, factor: float | None) -> GenerationRequest:
        """Returns a generation request.

        If no length limit is set, `factor` times the tokens of the source (plus `LEAST_LIMIT`)
        limits the new tokens.
        """
        found = self.generator.request(number, ids, self.config)
        if factor is None or self.limited:
            return found
        return replace(found, limit=min(found.limit, int(factor * len(ids)) + LEAST_LIMIT))

    @property
    def pool(self) -> int:
        """The number of sources that are sorted by length together."""
        width = max(self.config.num_beams, self.config.num_return_sequences)
        return POOLS * max(1, self.config.batch_size // width)

    def generate_texts(
        self, sources: Iterable[Ids], factor: float | None = None
    ) -> Iterator[GenerationOutput]:
        """Yields the generated text of each source, in order.

        Sources are computed in the order of their length, several batches at a time.
        """
        for pool in batched(sources, self.pool):
            requests = [self.request(i, ids, factor) for i, ids in enumerate(pool)]
            requests.sort(key=lambda one: -len(one.source or one.prompt))
            ready: dict[int, GenerationOutput] = {}
            following = 0
            for number, generation in self.generator.results(requests, self.config):
                ready[number] = generation
                while following in ready:
                    yield ready.pop(following)
                    following += 1

    def each(
        self,
        texts: Iterable[str],
        prepare: Callable[[str], tuple[list[Ids], Finish[Result]]],
        factor: float | None = None,
    ) -> Iterator[Result | GlassformerError]:
        """Yields a result for every text, in order, as soon as it is complete.

        Args:
            texts: The texts.
            prepare: Returns one or more sources of a text, and a function that makes the result
                from their outputs. An error that it raises is yielded in the place of the text.
            factor: See `request`.
        """
        return map_batched(
            texts, partial(self._rewrite, prepare, factor), self.pool, first=self.pool
        )

    def _rewrite(
        self,
        prepare: Callable[[str], tuple[list[Ids], Finish[Result]]],
        factor: float | None,
        texts: list[str],
    ) -> Iterator[Result | GlassformerError]:
        jobs: list[tuple[list[Ids], Finish[Result]] | GlassformerError] = []
        for text in texts:
            try:
                jobs.append(prepare(text))
            except GlassformerError as error:
                jobs.append(error)
        sources = (ids for job in jobs if isinstance(job, tuple) for ids in job[0])
        outputs = self.generate_texts(sources, factor)
        for job in jobs:
            if isinstance(job, GlassformerError):
                yield job
            else:
                own, finish = job
                yield finish(list(islice(outputs, len(own))))

    def checked(self, text: Any) -> str:
        if not isinstance(text, str):
            raise InputError(f"A text to {self.verb} must be a str, not {type(text).__name__}.")
        if not text.strip():
            raise InputError(f"The text is empty; there is nothing to {self.verb}.")
        return text


def start_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the start token if the tokenizer begins texts with it."""
    ids = tokenizer.encode("a").ids
    return ids[:1] if ids[0] == tokenizer.special.get("bos") else []


def separator_ids(tokenizer: Tokenizer, separator: str | None) -> list[int]:
    """Returns the ids of a token or a text; the default is the sep token, or else a line break."""
    if separator is None and "sep" in tokenizer.special:
        return [tokenizer.special["sep"]]
    separator = "\n" if separator is None else separator
    if separator in tokenizer:
        return [tokenizer.id(separator)]
    ids = tokenizer.ids(separator)
    if not ids or tokenizer.special.get("unk") in ids:
        raise ConfigError(
            f"The tokenizer has no token for the separator {separator!r}; name one that it has "
            "(objective.separator), or add it to a new tokenizer (tokenizer.special_tokens.sep)."
        )
    return ids


def keep_layout(model: TaskModel, **settings: Any) -> None:
    """Stores the layout of sources that training used, so that it is saved with the model.

    The directions of a translator become those of the training, if it names them.
    """
    keep(model, TRAINED, **settings)
    languages = [settings.get(name) for name in LANGUAGES]
    trained = None if None in languages else [" to ".join(map(str, languages))]
    if trained or settings_of(model, "translation").get("directions"):
        keep(model, "translation", directions=trained)
