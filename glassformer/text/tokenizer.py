"""The tokenizer. Texts come in and tokens go out, or the other way."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers.models import BPE
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.storage.folders import stable_folder
from glassformer.text.backend import Text, TokenizerBackend
from glassformer.text.detokenize_stream import DetokenizeStream, added, clean_spaces, tail
from glassformer.text.encoding import BatchEncoding, TextEncoding
from glassformer.text.languages import ADDRESS, address, known
from glassformer.text.loading.files import json_bytes, read_side_files, write_files
from glassformer.text.loading.load import load_backend
from glassformer.text.loading.tokenizer_config import TokenizerConfig

CONFIG = "tokenizer_config.json"


class Tokenizer:
    """Text to token ids and back. It is a value: no method changes it, so threads may share one."""

    def __init__(
        self,
        codec: TokenizerBackend,
        settings: TokenizerConfig,
        *,
        segments: bool = False,
        side_files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._codec = codec
        self._settings = settings
        self._segments = segments
        self._side_files = side_files or {}  # not read here, and saved along

    @classmethod
    def load(cls, source: str | Path, *, size: int | None = None) -> "Tokenizer":
        """From a folder's `tokenizer.json`, or else from the legacy files of the model's family;
        or from a GGUF file. `size` is how many tokens a model has that is OpenAI's .pt file, beside
        which there may be the words of several."""
        with stable_folder(Path(source)):
            codec, settings, segments = load_backend(Path(source), size)
            side_files = read_side_files(Path(source))
        return cls(codec, settings, segments=segments, side_files=side_files)

    def save(self, folder: str | Path) -> None:
        """Write the files that `load`, and the reference implementation, read."""
        write_files(Path(folder), {**self._side_files, **self._files()})

    def _files(self) -> dict[str, bytes]:
        kinds = ["input_ids", "token_type_ids", "attention_mask"]
        if not self._segments:
            kinds.remove("token_type_ids")
        config = self._settings.written(
            tokenizer_class=self._codec.reference_class(),
            model_input_names=kinds,
            padding_side=self.padding_side,
            clean_up_tokenization_spaces=self._settings.flag("clean_up_tokenization_spaces", False),
        )
        return {**self._codec.files(), CONFIG: json_bytes(config)}

    @cached_property
    def fingerprint(self) -> str:
        """Another one for every tokenizer that reads texts otherwise; in which order its settings
        stand does not matter."""
        digest, files = hashlib.sha256(), self._files()
        files[CONFIG] = json_bytes(dict(sorted(json.loads(files[CONFIG]).items())))
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + content + b"\0")
        return digest.hexdigest()[:16]

    @property
    def size(self) -> int:
        """How many tokens the vocabulary has."""
        return self._codec.vocabulary.get_vocab_size(with_added_tokens=True)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id."""
        return self._codec.vocabulary.get_vocab(with_added_tokens=True)

    @cached_property
    def special(self) -> dict[str, int]:
        """Role (bos, eos, unk, sep, pad, cls, mask) to id; a role that nobody has is absent."""
        ids = {r: self._codec.vocabulary.token_to_id(t) for r, t in self._settings.roles.items()}
        return {role: id for role, id in ids.items() if id is not None}

    @property
    def max_length(self) -> int | None:
        """The longest input the model was made for, where the folder says so."""
        return self._settings.max_length

    def with_max_length(self, length: int) -> "Tokenizer":
        """The same, for texts of at most so many tokens."""
        settings = TokenizerConfig({**self._settings.values, "model_max_length": length})
        return self._changed(self._codec, settings)

    @property
    def padding_side(self) -> str:
        """Where short texts of a batch are filled up: left or right."""
        return self._settings.side("padding_side", "right")

    @property
    def truncation_side(self) -> str:
        """Where a text that is too long is cut: left or right."""
        return self._settings.side("truncation_side", "right")

    @cached_property
    def target(self) -> "Tokenizer":
        """The tokenizer of the language that a translation model writes; mostly this one."""
        if self._codec.target is self._codec:
            return self
        return self._changed(self._codec.target, self._settings)

    def with_languages(self, source: str | None, target: str | None = None) -> "Tokenizer":
        """This tokenizer for texts in `source`, and its `target` for texts in that language; None
        keeps what the folder says.

        >>> mbart = gf.Tokenizer.load(folder).with_languages("en_XX", "ro_RO")
        """
        codec = self._codec.with_languages(source, target)
        chosen = {"src_lang": source, "tgt_lang": target}
        given = {name: language for name, language in chosen.items() if language is not None}
        settings = TokenizerConfig({**self._settings.values, **given})
        return self._changed(codec, settings)

    def _changed(self, codec: TokenizerBackend, settings: TokenizerConfig) -> "Tokenizer":
        return Tokenizer(codec, settings, segments=self._segments, side_files=self._side_files)

    def for_translation(
        self, source: str | None, target: str | None = None
    ) -> tuple["Tokenizer", str]:
        """The tokenizer for texts between two languages, and what is written before a text: the
        token of the language to translate into, as in `>>fra<< Good morning`, where that is how the
        vocabulary tells them apart (Marian's way)."""
        if source is None and target is None:
            return self, ""
        codes = self.language_tokens
        if not codes:
            return self.with_languages(source, target), ""
        return self, "" if target is None else address(known(target, codes)) + " "

    @cached_property
    def language_tokens(self) -> tuple[str, ...]:
        """The languages that a text can be addressed to, as `>>fra<<` does it."""
        return tuple(sorted(t[2:-2] for t in self.vocabulary if ADDRESS.fullmatch(t)))

    @property
    def language(self) -> int | None:
        """The token that stands for the language of a text, where there is one."""
        token = self._codec.language_token
        return None if token is None else self.id(token)

    def token(self, id: int) -> str:
        """As the vocabulary writes it, which may differ from its text."""
        token = self._codec.vocabulary.id_to_token(id) if id >= 0 else None
        if token is None:
            raise GlassformerError(f"The vocabulary of {self.size} tokens has no id {id}.")
        return str(token)

    def id(self, token: str) -> int:
        """Of a token as the vocabulary writes it."""
        id = self._codec.vocabulary.token_to_id(token)
        if id is None:
            raise GlassformerError(f"The vocabulary of {self.size} tokens lacks {token!r}.")
        return int(id)

    def __contains__(self, token: str) -> bool:
        return self._codec.vocabulary.token_to_id(token) is not None

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        special: bool = True,
        max_length: int | None = None,
        truncate: str = "right",
    ) -> TextEncoding:
        """One text, or a pair of them. Without `max_length` nothing is cut off."""
        texts: Text = text if pair is None else (text, pair)
        return self._encode([texts], special, max_length, truncate)[0]

    def encode_all(
        self, texts: Sequence[Text], *, max_length: int | None = None
    ) -> list[TextEncoding]:
        """Texts, or pairs of them, which is faster than one by one; what is too long loses tokens
        on the side that the folder says."""
        return self._encode(list(texts), True, max_length, self.truncation_side)

    def unfolding(self, texts: list[Text], *, special: bool = True) -> Sequence[TextEncoding]:
        """The same of whole texts, each made when it is looked at; all are tokenized now."""
        for text in texts:
            check_text(text)
        return self._codec.read(texts, special)

    def ids(self, text: str) -> list[int]:
        """Of a text alone, as `encode` gives them without special tokens, and sooner."""
        check_text(text)
        return self._codec.ids([text])[0]

    def batch(
        self,
        texts: Sequence[str | tuple[str, str]],
        *,
        special: bool = True,
        max_length: int | None = None,
        truncate: str = "right",
        pad_to: int | None = None,
        side: str | None = None,
    ) -> BatchEncoding:
        """Texts, or pairs of them, as tensors: padded to the longest, or to `pad_to`.

        A vocabulary without a padding token pads with its end token, or else with id 0. Any id
        would do: the mask, not the id, says what is real.
        """
        if isinstance(texts, str) or not texts:
            raise GlassformerError("A batch is a list of at least one text; encode() takes one.")
        check_choice("side", side or self.padding_side)
        return BatchEncoding.of(
            self._encode(list(texts), special, max_length, truncate),
            pad=self.special.get("pad", self.special.get("eos", 0)),
            length=pad_to,
            side=side or self.padding_side,
            segments=self._settings.number("pad_token_type_id", 0) if self._segments else None,
        )

    def decode(
        self, ids: Iterable[int] | Tensor, *, special: bool = False, after: Iterable[int] = ()
    ) -> str:
        """The text of these ids; with `special`, special tokens are written out. `after` are ids
        that stand before them: the text then begins with the space that joins it to theirs, if
        there is one.

        Ids above the vocabulary give no text: models pad their output layer beyond it.
        """
        before = self._before(after, special)
        text = added(self._codec.write, before, self._tokens(ids, special))
        return clean_spaces(text) if self._cleans else text

    def stream(self, *, special: bool = False, after: Iterable[int] = ()) -> DetokenizeStream:
        """Decode ids one by one, as a model makes them, behind others."""
        return DetokenizeStream(
            lambda id: self._shown(id, special),
            self._codec.write,
            piecewise=self._codec.piecewise,
            clean=self._cleans,
            after=self._before(after, special),
        )

    def _before(self, ids: Iterable[int], special: bool) -> list[str]:
        """What decoding must know of the tokens before a text."""
        tokens = self._tokens(ids, special)
        return tail(tokens) if self._codec.piecewise else tokens

    def _tokens(self, ids: Iterable[int] | Tensor, special: bool) -> list[str]:
        shown = (self._shown(int(id), special) for id in ids)
        return [token for token in shown if token is not None]

    def _encode(
        self, texts: list[Text], special: bool, max_length: int | None, truncate: str
    ) -> list[TextEncoding]:
        check_choice("truncate", truncate)
        if max_length is not None and max_length < 0:
            raise GlassformerError(f"max_length must be 0 or more, not {max_length}.")
        encoded = self.unfolding(texts, special=special)
        if max_length is None:
            return list(encoded)
        return [one.truncated(max_length, truncate) for one in encoded]

    def _shown(self, id: int, special: bool) -> str | None:
        """The token that decoding writes for an id, if any."""
        if id < 0:
            raise GlassformerError(f"{id} is no token id; ids start at 0.")
        if not special and id in self.special_ids:
            return None
        token: str | None = self._codec.vocabulary.id_to_token(id)
        return token

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Those that are no part of a text: roles, and what else was added to the vocabulary."""
        added = self._codec.vocabulary.get_added_tokens_decoder()
        silent = re.compile(self._settings.values.get("silent_tokens", "(?!)"))
        return frozenset(
            id for id, token in added.items() if token.special or silent.fullmatch(token.content)
        )

    @property
    def _cleans(self) -> bool:
        # Cleaning is meant for word pieces; byte pairs carry their own spaces.
        wanted = self._settings.flag("clean_up_tokenization_spaces", False)
        return wanted and not isinstance(self._codec.vocabulary.model, BPE)


def check_choice(name: str, value: str) -> None:
    if value not in ("left", "right"):
        raise GlassformerError(f'{name} must be "left" or "right", not {value!r}.')


def check_text(text: Text) -> None:
    parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
    for part in parts:
        if not isinstance(part, str):
            raise GlassformerError(
                f"A text must be a str, or a tuple of two for a pair, not {type(part).__name__}."
            )
        try:
            part.encode("utf-8")
        except UnicodeEncodeError as error:
            raise GlassformerError(
                f"The text has half a character (a lone surrogate) at index {error.start}."
            ) from None
