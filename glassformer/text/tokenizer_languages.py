"""The languages and control codes that a tokenizer marks texts with."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from glassformer.errors import ConfigError
from glassformer.text.languages import ADDRESS, address, known
from glassformer.text.loading.tokenizer_config import TokenizerConfig
from glassformer.text.tokenizer_vocabulary import TokenizerVocabulary


class TokenizerLanguages(TokenizerVocabulary):
    """The part of `Tokenizer` that marks texts: with a language, or with a control code."""

    @cached_property
    def target_tokenizer(self) -> Self:
        """The tokenizer of a translation model's target language; usually this one."""
        if self._backend.target_backend is self._backend:
            return self
        return self._changed(self._backend.target_backend, self._settings)

    def with_languages(self, source: str | None, target: str | None = None) -> Self:
        """Returns a copy that encodes texts in `source` and whose `target` encodes that language.

        None keeps the language that the folder sets.

        Args:
            source: The language of the texts.
            target: The language of the target texts.

        >>> mbart = gf.Tokenizer.load(folder).with_languages("en_XX", "ro_RO")
        """
        backend = self._backend.with_languages(source, target)
        chosen = {"src_lang": source, "tgt_lang": target}
        given = {name: language for name, language in chosen.items() if language is not None}
        settings = TokenizerConfig({**self._settings.values, **given})
        return self._changed(backend, settings)

    def for_translation(self, source: str | None, target: str | None = None) -> tuple[Self, str]:
        """Returns the tokenizer for a translation direction and the prefix for source texts.

        The prefix is the token of the target language, as in `>>fra<< Good morning`, if the
        vocabulary marks languages in this way (as Marian's does); otherwise it is "".

        Args:
            source: The language of the source.
            target: The language of the translation.
        """
        if source is None and target is None:
            return self, ""
        codes = self.language_tokens
        if not codes:
            return self.with_languages(source, target), ""
        return self, "" if target is None else address(known(target, codes)) + " "

    @cached_property
    def language_tokens(self) -> tuple[str, ...]:
        """The target languages that a text can be prefixed with, as `>>fra<<` does."""
        return tuple(sorted(t[2:-2] for t in self.vocabulary if ADDRESS.fullmatch(t)))

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that a text can be marked with; usually none."""
        return tuple(getattr(self._backend, "languages", ()))

    @property
    def source_language(self) -> str | None:
        """The code of the language that texts are marked with, or None if there is none."""
        token = self._backend.language_token
        return None if token is None else token.strip("_")

    @property
    def language(self) -> int | None:
        """The id of the token that marks the language of a text, or None if there is none."""
        token = self._backend.language_token
        return None if token is None else self.id(token)

    @cached_property
    def control_codes(self) -> dict[str, str]:
        """The control codes by name, each with the text that stands for it before a prompt.

        They are those of CTRL, or the `control_codes` of tokenizer_config.json; usually none.
        """
        own = self._settings.values.get("control_codes") or []
        if not isinstance(own, list) or not all(isinstance(name, str) for name in own):
            raise ConfigError(
                f"tokenizer_config.json gives control_codes the value {own!r}; it must be a list "
                "of names."
            )
        published: dict[str, str] = getattr(self._backend, "control_codes", {})
        return published | {name: control_token(name) for name in own}

    def control_code(self, name: str) -> str:
        """Returns the text of a control code.

        Args:
            name: The name of the code.
        """
        known = self.control_codes
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none; leave control out"
            raise ConfigError(f"The model has no control code {name!r}; {there}.")
        return known[name]


def control_token(name: str) -> str:
    """Returns the special token of a control code."""
    return f"<|{name}|>"
