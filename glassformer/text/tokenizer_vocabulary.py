"""The vocabulary and the settings of a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Self

from glassformer.errors import InputError
from glassformer.text.backend import TokenizerBackend
from glassformer.text.loading.tokenizer_config import TokenizerConfig


class TokenizerVocabulary:
    """The tokens and the settings of a `Tokenizer`."""

    def __init__(
        self,
        backend: TokenizerBackend,
        settings: TokenizerConfig,
        *,
        segments: bool = False,
        side_files: Mapping[str, bytes] | None = None,
        context_length: int | None = None,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._segments = segments
        self._side_files = side_files or {}  # not used here, but saved with the tokenizer
        self._context_length = context_length  # the model's; not saved with the tokenizer

    @property
    def size(self) -> int:
        """The number of tokens in the vocabulary, added tokens included."""
        return self._backend.vocabulary.get_vocab_size(with_added_tokens=True)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Maps every token to its id."""
        return self._backend.vocabulary.get_vocab(with_added_tokens=True)

    @cached_property
    def special(self) -> dict[str, int]:
        """Maps each role (bos, eos, unk, sep, pad, cls, mask) to its id; roles without a token are
        absent.
        """
        ids = {r: self._backend.vocabulary.token_to_id(t) for r, t in self._settings.roles.items()}
        return {role: id for role, id in ids.items() if id is not None}

    @property
    def bos_token_id(self) -> int | None:
        """The id of the token at the start of a text; None if there is none."""
        return self.special.get("bos")

    @property
    def eos_token_id(self) -> int | None:
        """The id of the token at the end of a text; None if there is none."""
        return self.special.get("eos")

    @property
    def unk_token_id(self) -> int | None:
        """The id of the token for what the vocabulary does not know; None if there is none."""
        return self.special.get("unk")

    @property
    def sep_token_id(self) -> int | None:
        """The id of the token between two texts; None if there is none."""
        return self.special.get("sep")

    @property
    def pad_token_id(self) -> int | None:
        """The id of the token that pads the rows of a batch; None if there is none."""
        return self.special.get("pad")

    @property
    def cls_token_id(self) -> int | None:
        """The id of the token whose vector stands for the text; None if there is none."""
        return self.special.get("cls")

    @property
    def mask_token_id(self) -> int | None:
        """The id of the token in the place of a masked one; None if there is none."""
        return self.special.get("mask")

    @property
    def max_length(self) -> int | None:
        """The longest input the model was made for, or None if the folder does not state it."""
        return self._settings.max_length

    def with_max_length(self, length: int) -> Self:
        """Returns a copy of this tokenizer whose `max_length` is `length`.

        Args:
            length: The maximum number of tokens.
        """
        settings = TokenizerConfig({**self._settings.values, "model_max_length": length})
        return self._changed(self._backend, settings)

    @property
    def padding_side(self) -> str:
        """The side on which the shorter texts of a batch are padded: left or right."""
        return self._settings.side("padding_side", "right")

    @property
    def truncation_side(self) -> str:
        """The side on which a text that is too long is truncated: left or right."""
        return self._settings.side("truncation_side", "right")

    def token(self, id: int) -> str:
        """Returns the token with this id as the vocabulary spells it, which may differ from its
        decoded text.

        Args:
            id: The token id.
        """
        token = self._backend.vocabulary.id_to_token(id) if id >= 0 else None
        if token is None:
            raise InputError(f"The vocabulary of {self.size} tokens has no id {id}.")
        return str(token)

    def id(self, token: str) -> int:
        """Returns the id of a token, given as the vocabulary spells it.

        Args:
            token: The token.
        """
        id = self._backend.vocabulary.token_to_id(token)
        if id is None:
            raise InputError(f"The vocabulary of {self.size} tokens lacks {token!r}.")
        return int(id)

    def __len__(self) -> int:
        return self.size

    def __contains__(self, token: str) -> bool:
        return self._backend.vocabulary.token_to_id(token) is not None

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids that are not part of a text: those with a role and other added special tokens."""
        added = self._backend.vocabulary.get_added_tokens_decoder()
        silent = re.compile(self._settings.values.get("silent_tokens", "(?!)"))
        return frozenset(
            id for id, token in added.items() if token.special or silent.fullmatch(token.content)
        )

    def _changed(self, backend: TokenizerBackend, settings: TokenizerConfig) -> Self:
        return type(self)(
            backend,
            settings,
            segments=self._segments,
            side_files=self._side_files,
            context_length=self._context_length,
        )
