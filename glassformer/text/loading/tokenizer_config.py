"""The settings in `tokenizer_config.json` and the files beside it.

Keys that are not used here are kept and written back.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from glassformer.errors import ConfigError, LoadError
from glassformer.storage.files import is_utf8
from glassformer.storage.parsing import has_form
from glassformer.text.loading.files import read_json_if_there

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
FLAGS = ("lstrip", "normalized", "rstrip", "single_word", "special")
TOKEN = (str, dict)
FORMS: dict[str, Any] = {
    "added_tokens_decoder": (None, {"*": TOKEN}),
    "additional_special_tokens": (None, [TOKEN]),
    "extra_special_tokens": (None, [TOKEN], {"*": TOKEN}),
    "model_input_names": (None, [str]),
}
NO_LIMIT = 10**9
"""A `model_max_length` at or above this means that none is set (the reference writes 1e30)."""


@dataclass(frozen=True)
class TokenizerConfig:
    """The settings of a tokenizer, validated when they are accessed."""

    values: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, defaults: Mapping[str, Any]) -> "TokenizerConfig":
        config = read_json_if_there(folder / "tokenizer_config.json")
        if "added_tokens_decoder" not in config:
            # Folders from before 2023 describe their tokens in two other files.
            config |= read_json_if_there(folder / "special_tokens_map.json")
            added = {
                str(index): {"content": token, "normalized": True}
                for token, index in read_json_if_there(folder / "added_tokens.json").items()
            }
            config |= {"added_tokens_decoder": added} if added else {}
        for name, form in FORMS.items():
            if not has_form(config.get(name), form):
                raise ConfigError(
                    f"tokenizer_config.json gives {name} the value {config[name]!r}, which has "
                    "another form in all tokenizers."
                )
        for index in config.get("added_tokens_decoder") or {}:
            if not re.fullmatch("[0-9]{1,18}", index):
                raise ConfigError(f"tokenizer_config.json gives an added token the id {index!r}.")
        return cls({**defaults, **config})

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ConfigError(
                f"tokenizer_config.json gives {name} the value {value!r}; it must be true or false."
            )
        return value

    def side(self, name: str, default: str) -> str:
        value = self.values.get(name) or default
        if value not in ("left", "right"):
            raise ConfigError(
                f"tokenizer_config.json gives {name} the value {value!r}; "
                'it must be "left" or "right".'
            )
        return str(value)

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name, default)
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not 0 <= value < math.inf:
            raise ConfigError(
                f"tokenizer_config.json gives {name} the value {value!r}; it must be a number."
            )
        return int(value)

    @property
    def max_length(self) -> int | None:
        limit = self.number("model_max_length", NO_LIMIT)
        return limit if limit < NO_LIMIT else None

    @property
    def roles(self) -> dict[str, str]:
        """Maps each role to its token, for instance `{"eos": "</s>"}`."""
        return {role: token.content for role, token in self._role_tokens().items()}

    def special_tokens(self) -> list[AddedToken]:
        """Returns the tokens with a role, then the other special ones, in the reference's order."""
        extra = self.values.get("extra_special_tokens") or []
        extra = list(extra.values()) if isinstance(extra, dict) else list(extra)
        extra += self.values.get("additional_special_tokens") or []
        return [*self._role_tokens().values(), *(special_token(token) for token in extra)]

    def added_tokens(self) -> list[tuple[int, AddedToken]]:
        """Returns the tokens that were added after training, with their ids, in ascending order."""
        special = {token.content for token in self.special_tokens()}
        return [
            (int(index), special_token(entry) if content(entry) in special else added_token(entry))
            for index, entry in sorted(self._added.items(), key=lambda item: int(item[0]))
        ]

    def to_dict(self, **changes: Any) -> dict[str, Any]:
        """Returns the content to write to `tokenizer_config.json`."""
        tokens = {f"{role}_token": token for role, token in self.roles.items()}
        return {**self.values, **tokens, **changes}

    @property
    def _added(self) -> dict[str, Any]:
        return self.values.get("added_tokens_decoder") or {}

    def _role_tokens(self) -> dict[str, AddedToken]:
        described = {content(entry): entry for entry in self._added.values()}
        named = {role: self.values.get(f"{role}_token") for role in ROLES}
        return {
            role: special_token(described.get(content(value), value))
            for role, value in named.items()
            if value is not None
        }


def content(value: Any) -> str:
    """Returns the text of a token, which a config gives as a string or as a description."""
    text = value.get("content") if isinstance(value, Mapping) else value
    if not isinstance(text, str) or not is_utf8(text):
        raise ConfigError(f"tokenizer_config.json describes a token by {value!r}.")
    return text


def special_token(value: Any) -> AddedToken:
    entry = value if isinstance(value, Mapping) else {"content": value}
    return added_token({"normalized": False, **entry, "special": True})


def added_token(entry: Mapping[str, Any]) -> AddedToken:
    flags = {key: entry[key] for key in FLAGS if key in entry}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise ConfigError(f"tokenizer_config.json describes a token by {dict(entry)!r}.")
    return AddedToken(content(entry), **flags)


def id_of(backend: Backend, token: str) -> int:
    id = backend.token_to_id(token)
    if id is None:
        raise LoadError(f"The vocabulary lacks the token {token!r}.")
    return id


def add_tokens(backend: Backend, settings: TokenizerConfig) -> None:
    """Adds the tokens that the settings name to the backend."""
    added = settings.added_tokens()
    for special, run in groupby((token for _, token in added), key=lambda token: token.special):
        (backend.add_special_tokens if special else backend.add_tokens)(list(run))
    for index, token in added:
        if backend.token_to_id(token.content) != index:
            raise LoadError(
                f"tokenizer_config.json gives the added token {token.content!r} the id {index}, "
                f"but the vocabulary gives it {backend.token_to_id(token.content)}."
            )
    known = {
        token.content for token in backend.get_added_tokens_decoder().values() if token.special
    }
    for token in settings.special_tokens():
        # A plain string does not describe the spaces around the token; the backend may know more.
        if token.lstrip or token.rstrip or token.single_word or token.content not in known:
            backend.add_special_tokens([token])
