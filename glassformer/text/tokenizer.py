"""The tokenizer: encodes texts to token ids and decodes ids to text."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from tokenizers.models import BPE
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.storage.folders import atomic_folder, stable_folder
from glassformer.text.backend import Text
from glassformer.text.checks import as_list, check_choice, check_lengths, check_tensors, check_text
from glassformer.text.detokenize_stream import DetokenizeStream, added, clean_spaces, last_tokens
from glassformer.text.encoding import BatchEncoding, TextEncoding
from glassformer.text.loading.files import json_bytes, read_side_files, write_files
from glassformer.text.loading.kept_files import check_kept_files
from glassformer.text.loading.load import load_backend
from glassformer.text.tokenizer_languages import TokenizerLanguages
from glassformer.text.tokenizer_output import TokenizerOutput, as_tensors, pad_encodings
from glassformer.text.unknown import unknown_ratio

CONFIG = "tokenizer_config.json"
SMALL = 512  # tokens; a smaller vocabulary may have nothing but bytes


class Tokenizer(TokenizerLanguages):
    """Encodes text to token ids and decodes ids to text.

    A tokenizer is immutable: no method changes it, so threads can share one.
    """

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        size: int | None = None,
        context_length: int | None = None,
    ) -> "Tokenizer":
        """Loads a tokenizer from a model folder or a single model file.

        A folder is read from its `tokenizer.json`, or else from the legacy files of the model's
        family. The file may be GGUF, llama2.c's .bin or OpenAI's Whisper .pt.

        Args:
            source: The model folder or file.
            size: The vocabulary size of the model. Needed for OpenAI's .pt files only, because the
                folder may hold the vocabularies of several models.
            context_length: The number of tokens that the model reads. A call of the tokenizer
                truncates to it if the folder states no maximum length.

        Returns:
            The tokenizer.
        """
        with stable_folder(Path(source)):
            backend, settings, segments = load_backend(Path(source), size)
            side_files = read_side_files(Path(source))
        return cls(
            backend,
            settings,
            segments=segments,
            side_files=side_files,
            context_length=context_length,
        )

    def save(self, folder: str | Path) -> None:
        """Writes the files that `load`, and the reference implementation, can read.

        Args:
            folder: The folder to write to.
        """
        with atomic_folder(Path(folder)) as draft:
            write_files(draft, {**self._side_files, **self._files()})
            check_kept_files(Path(folder), draft)

    def _files(self) -> dict[str, bytes]:
        kinds = ["input_ids", "token_type_ids", "attention_mask"]
        if not self._segments:
            kinds.remove("token_type_ids")
        config = self._settings.to_dict(
            tokenizer_class=self._backend.reference_class(),
            model_input_names=kinds,
            padding_side=self.padding_side,
            clean_up_tokenization_spaces=self._settings.flag("clean_up_tokenization_spaces", False),
        )
        return {**self._backend.files(), CONFIG: json_bytes(config)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash that differs for every tokenizer that encodes differently.

        The order of the settings in the config file does not change it.
        """
        digest, files = hashlib.sha256(), self._files()
        files[CONFIG] = json_bytes(dict(sorted(json.loads(files[CONFIG]).items())))
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + content + b"\0")
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        special = ", ".join(f"{role}={self.token(id)!r}" for role, id in self.special.items())
        name = self._backend.reference_class()
        return f"Tokenizer({name}, {self.size:,} tokens, max_length={self.max_length}, {special})"

    def __call__(
        self,
        text: str | Sequence[Text],
        text_pair: str | Sequence[str] | None = None,
        *,
        padding: bool | Literal["longest", "max_length"] = False,
        truncation: bool = False,
        max_length: int | None = None,
        add_special_tokens: bool = True,
        return_tensors: Literal["pt"] | None = None,
        padding_side: Literal["left", "right"] | None = None,
    ) -> TokenizerOutput:
        """Encodes one text or a list of texts to model inputs, as `transformers` does.

        Args:
            text: A text, or a list of texts or of pairs of texts.
            text_pair: The second text, or a list of second texts, of pairs.
            padding: True or "longest" pads to the longest text, "max_length" to `max_length`.
            truncation: Whether to truncate texts to `max_length`.
            max_length: The largest number of tokens; None is the tokenizer's `max_length`, or else
                the context length of its model.
            add_special_tokens: Whether to add special tokens.
            return_tensors: "pt" returns tensors of [batch, position]; None returns lists.
            padding_side: The side to pad; None is the tokenizer's `padding_side`.

        Returns:
            `input_ids`, `attention_mask` and, where the model has segments, `token_type_ids`. One
            text without `return_tensors` gives lists of ids, several give lists of lists.

        Example:
            >>> inputs = tokenizer(["one", "two words"], padding=True, return_tensors="pt")
        """
        if not isinstance(text, Iterable):
            raise InputError(f"A text must be a str, or a list of them, not {type(text).__name__}.")
        single = isinstance(text, str)
        firsts: list[Text] = [text] if isinstance(text, str) else list(text)
        if not firsts:
            raise InputError("The list of texts is empty; pass at least one text.")
        texts = firsts
        if text_pair is not None:
            seconds = [text_pair] if isinstance(text_pair, str) else list(text_pair)
            if len(seconds) != len(firsts):
                raise InputError(
                    f"There are {len(firsts)} texts and {len(seconds)} in text_pair; pass one for "
                    "each."
                )
            texts = [(str(one), two) for one, two in zip(firsts, seconds, strict=True)]
        check_lengths(padding, truncation, max_length)
        check_choice("padding_side", padding_side or self.padding_side)
        limits = (max_length, self.max_length, self._context_length)
        limit = next((length for length in limits if length is not None), None)
        if limit is None and (truncation or padding == "max_length"):
            raise ConfigError("The tokenizer states no maximum length; pass max_length.")
        side = self.truncation_side
        encodings = self._encode(texts, add_special_tokens, limit if truncation else None, side)
        width = max(len(one.ids) for one in encodings) if padding else None
        columns = pad_encodings(
            encodings,
            width=limit if padding == "max_length" else width,
            side=padding_side or self.padding_side,
            pad_id=self.special.get("pad", self.special.get("eos", 0)),
            pad_segment=self._settings.number("pad_token_type_id", 0) if self._segments else None,
        )
        if return_tensors is not None:
            check_tensors(return_tensors)
            return TokenizerOutput(as_tensors(columns))
        return TokenizerOutput(
            {name: rows[0] for name, rows in columns.items()} if single else columns
        )

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        special: bool = True,
        max_length: int | None = None,
        truncate: str = "right",
    ) -> TextEncoding:
        """Encodes one text or a pair of texts.

        Args:
            text: The text.
            pair: The second text of a pair.
            special: Whether to add special tokens.
            max_length: The largest number of tokens; None truncates nothing.
            truncate: The side to truncate: "left" or "right".

        Returns:
            The encoding of the text.
        """
        texts: Text = text if pair is None else (text, pair)
        return self._encode([texts], special, max_length, truncate)[0]

    def encode_all(
        self, texts: Sequence[Text], *, max_length: int | None = None
    ) -> list[TextEncoding]:
        """Encodes texts, or pairs of texts, together, which is faster than one by one.

        Texts longer than `max_length` lose tokens on `truncation_side`.

        Args:
            texts: The texts, or pairs of texts.
            max_length: Truncates to this number of tokens.

        Returns:
            The encodings, in the order of the texts.
        """
        return self._encode(list(texts), True, max_length, self.truncation_side)

    def lazy_encodings(self, texts: list[Text], *, special: bool = True) -> Sequence[TextEncoding]:
        """Encodes texts without truncation; each `TextEncoding` is built when it is accessed.

        All texts are tokenized immediately.

        Args:
            texts: The texts.
            special: Adds special tokens.

        Returns:
            The encodings, in the order of the texts.
        """
        for text in texts:
            check_text(text)
        return self._backend.read(texts, special)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text without special tokens, like `encode` but faster.

        Args:
            text: The text.
        """
        check_text(text)
        return self._backend.ids([text])[0]

    def unknown_ratio(self, text: str | TextEncoding) -> float:
        """Returns the share of a text's characters that the vocabulary does not know.

        They are encoded as the token for what is unknown, or as several tokens with a part of their
        bytes each.

        Args:
            text: The text.
        """
        encoding = self.encode(text, special=False) if isinstance(text, str) else text
        return unknown_ratio(encoding, self.special.get("unk"), self.size > SMALL)

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
        """Encodes texts, or pairs of texts, as padded tensors.

        A vocabulary without a padding token pads with its end token, or else with id 0. Any id
        works, because the attention mask marks the real tokens.

        Args:
            texts: At least one text or pair of texts.
            special: Whether to add special tokens.
            max_length: The largest number of tokens per text; None truncates nothing.
            truncate: The side to truncate: "left" or "right".
            pad_to: The length to pad to; None pads to the longest text.
            side: The side to pad; None uses `padding_side`.

        Returns:
            The token ids and masks, padded to one length.
        """
        if isinstance(texts, str) or not texts:
            raise InputError("A batch is a list of at least one text; encode() takes one.")
        check_choice("side", side or self.padding_side)
        return BatchEncoding.of(
            self._encode(list(texts), special, max_length, truncate),
            pad=self.special.get("pad", self.special.get("eos", 0)),
            length=pad_to,
            side=side or self.padding_side,
            segments=self._settings.number("pad_token_type_id", 0) if self._segments else None,
        )

    def batch_decode(
        self, sequences: Iterable[Iterable[int] | Tensor], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Decodes several sequences of ids, each as `decode` does.

        Args:
            sequences: The token ids of each text.
            skip_special_tokens: Leaves special tokens out.

        Returns:
            The texts.
        """
        return [self.decode(ids, special=not skip_special_tokens) for ids in sequences]

    def decode(
        self,
        ids: int | Iterable[int] | Tensor,
        *,
        special: bool = False,
        after: Iterable[int] = (),
        skip_special_tokens: bool | None = None,
    ) -> str:
        """Decodes ids to text.

        Ids above the vocabulary give no text: models pad their output layer beyond it.

        Args:
            ids: The token ids of one text, or a single id.
            special: Whether to include special tokens in the text.
            after: The ids that precede `ids`. The text then starts with the space that separates it
                from theirs, if there is one.
            skip_special_tokens: The opposite of `special`, by the name that `transformers` uses.

        Returns:
            The text.
        """
        if skip_special_tokens is not None:
            special = not skip_special_tokens
        before = self._before(after, special)
        text = added(self._backend.write, before, self._tokens(ids, special))
        return clean_spaces(text) if self._cleans else text

    def stream(self, *, special: bool = False, after: Iterable[int] = ()) -> DetokenizeStream:
        """Returns a stream that decodes ids one by one, as a model generates them.

        Args:
            special: Whether to include special tokens in the text.
            after: The ids that precede the generated ones.
        """
        return DetokenizeStream(
            lambda id: self._shown(id, special),
            self._backend.write,
            piecewise=self._backend.piecewise,
            clean=self._cleans,
            after=self._before(after, special),
        )

    def _before(self, ids: Iterable[int], special: bool) -> list[str]:
        """Returns the preceding tokens that decoding needs as context."""
        tokens = self._tokens(ids, special)
        return last_tokens(tokens) if self._backend.piecewise else tokens

    def _tokens(self, ids: int | Iterable[int] | Tensor, special: bool) -> list[str]:
        shown = (self._shown(id, special) for id in as_list(ids))
        return [token for token in shown if token is not None]

    def _encode(
        self, texts: list[Text], special: bool, max_length: int | None, truncate: str
    ) -> list[TextEncoding]:
        check_choice("truncate", truncate)
        if max_length is not None and max_length < 0:
            raise ConfigError(f"max_length must be 0 or more, not {max_length}.")
        encoded = self.lazy_encodings(texts, special=special)
        if max_length is None:
            return list(encoded)
        return [one.truncated(max_length, truncate) for one in encoded]

    def _shown(self, id: int, special: bool) -> str | None:
        """Returns the token to decode for an id, or None if the id gives no text."""
        if id < 0:
            raise InputError(f"{id} is not a token id; ids start at 0.")
        if not special and id in self.special_ids:
            return None
        token: str | None = self._backend.vocabulary.id_to_token(id)
        return token

    @property
    def _cleans(self) -> bool:
        # Cleaning is meant for WordPiece; BPE tokens carry their own spaces.
        wanted = self._settings.flag("clean_up_tokenization_spaces", False)
        return wanted and not isinstance(self._backend.vocabulary.model, BPE)
