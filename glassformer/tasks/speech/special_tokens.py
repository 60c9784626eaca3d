"""The special tokens of a Whisper model, and the tokens that a window's text begins with."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.generate.context import context_length
from glassformer.generate.listen import NO_TIMES, named, tokens_of
from glassformer.spec import AudioFramesSpec
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.text.backends.whisper import TASKS


class SpeechTokens:
    """Token ids of a model that transcribes speech.

    Args:
        model: The model.
    """

    def __init__(self, model: TaskModel) -> None:
        self.tokenizer = require_tokenizer(model)
        generator = model.generator
        saved = generator.saved
        self.languages, known = tokens_of(generator.net, self.tokenizer, saved)
        if NO_TIMES not in known:
            raise UnsupportedError(
                "transcribe needs a model with timestamp tokens, and neither the tokenizer nor "
                f"generation_config.json has {NO_TIMES}."
            )
        self.no_times = known[NO_TIMES]
        self.tasks = {task: known[f"<|{task}|>"] for task in TASKS if f"<|{task}|>" in known}
        self.begin = self.no_times + 1  # the first timestamp
        self.no_speech = self.no_times - 1  # the order of special tokens is the same in all models
        self.previous = self.no_times - 2
        config = generator.resolve_config({})
        self.start = generator.start(config)
        self.eos = config.eos_token_id[0]
        context = context_length(model.decoder)
        assert context is not None
        self.context: int = context

    def prompt(
        self, language: int | None, task: str, times: bool, before: Sequence[int]
    ) -> list[int]:
        """Returns the tokens that a window's text begins with.

        Args:
            language: The language token; None for a model of one language.
            task: "transcribe" or "translate".
            times: Whether timestamps are generated.
            before: Tokens of the text before the window, or of a prompt.
        """
        begun = [self.start, *self._order(language, task)]
        begun += [] if times else [self.no_times]
        return [self.previous, *before, *begun] if before else begun

    def _order(self, language: int | None, task: str) -> list[int]:
        if language is not None:
            return [language, self.tasks[task]]
        if task != "transcribe":
            raise ConfigError("This model knows one language and one task; leave task out.")
        return []

    def language(self, name: str | None) -> int | None:
        """Returns the token of a language that the user names."""
        if name is None:
            return None
        if not self.languages:
            if name.lower() in ("en", "english"):
                return None
            raise ConfigError(
                f"This model knows English only, not {name!r}; choose a multilingual one."
            )
        return named(name, self.languages)

    def code(self, language: int) -> str:
        """Returns the code of a language token."""
        return next(name for name, id in self.languages.items() if id == language).strip("<|>")

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text that is given as a prompt."""
        return list(self.tokenizer.encode(" " + text.strip(), special=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without times."""
        return self.tokenizer.decode([token for token in tokens if token < self.eos])


def listens(model: TaskModel) -> bool:
    """Returns whether a model writes texts about audio."""
    embed = None if model.encoder is None else model.encoder.spec.embed
    return isinstance(embed, AudioFramesSpec) and model.decoder is not None
