"""A reader for config.json that tracks which keys were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from glassformer.errors import ConfigError, UnsupportedError

T = TypeVar("T")
N = TypeVar("N", int, float)
LARGEST = 2**29
"""The largest size; the bytes of a matrix of two such sizes are still counted in 64 bits."""
MOST_LAYERS = 10_000
MOST = 1e30
"""The largest number; its square and its inverse are finite in float64."""

WITHOUT_EFFECT = {
    key: reason
    for reason, keys in {
        "names the class or the file, read elsewhere": "architectures model_type _name_or_path "
        "name_or_path tokenizer_class finetuning_task task_specific_params _commit_hash "
        "transformers_version auto_map",
        "how the weights are held, seen when they are read": "dtype torch_dtype use_bfloat16 "
        "quantization",
        "how the reference runs, not what it computes": "use_cache output_attentions "
        "output_hidden_states output_past return_dict gradient_checkpointing torchscript "
        "xla_device chunk_size_feed_forward attn_implementation _attn_implementation "
        "_attn_implementation_autoset tf_legacy_loss pretraining_tp memory_efficient_attention",
        "which task the labels are for, used in training": "problem_type",
        "a default of text generation": "max_length min_length do_sample early_stopping num_beams "
        "num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
        "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids "
        "num_return_sequences output_scores return_dict_in_generate forced_bos_token_id "
        "forced_eos_token_id forced_decoder_ids remove_invalid_values "
        "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix "
        "sep_token_id eos_token_ids",
    }.items()
    for key in keys.split()
}


class ConfigReader:
    """A config.json that checks the types of its values and records which keys were read.

    Args:
        values: The contents of config.json.
        family: The family's name, for error messages.
        synonyms: Alternative key -> the key that the family reads. An alternative key overrides
            that key's own value, as in the reference implementation.
    """

    def __init__(
        self, values: Mapping[str, Any], family: str, synonyms: Mapping[str, str] | None = None
    ) -> None:
        given = {word: key for word, key in (synonyms or {}).items() if word in values}
        named = {key: values[word] for word, key in given.items() if values[word] is not None}
        self.values = {**values, **named}
        self.family = family
        self.used: set[str] = set(given)

    def integer(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = LARGEST
    ) -> int:
        """Returns a whole number between two bounds; most are sizes, which are at least 1."""
        value = self._read(key, default, int, "a whole number")
        return self._within(key, value, f"a whole number from {least} to {most:,}", least, most)

    def layers(self, key: str, default: int | None = None) -> int:
        """Returns a number of layers."""
        return self.integer(key, default, most=MOST_LAYERS)

    def number(
        self, key: str, default: float | None = None, *, least: float = -MOST, most: float = MOST
    ) -> float:
        """Returns a finite number between two bounds."""
        wanted = "a finite number"
        if least > -MOST:
            wanted += f" of at least {least:g}" + (f" and at most {most:g}" if most < MOST else "")
        value = float(self._read(key, default, (int, float), wanted))
        return self._within(key, value, wanted, least, most)

    def positive(self, key: str, default: float | None = None) -> float:
        """Returns a finite number above 0, not so small that its inverse is infinite."""
        wanted = "a finite number above 0"
        value = float(self._read(key, default, (int, float), wanted))
        return self._within(key, value, wanted, 1 / MOST, MOST)

    def dropout(self, key: str, default: float | None = None) -> float:
        """Returns a probability of dropout: at least 0 and less than 1."""
        wanted = "a number of at least 0 and less than 1"
        value = float(self._read(key, default, (int, float), wanted))
        return self._within(key, value, wanted, 0, 1 - 1e-9)

    def eps(self, key: str, default: float | None = None) -> float:
        """Returns what a norm adds to the variance."""
        return self.number(key, default, least=0, most=1)

    def nullable_integer(self, key: str, default: int | None, *, least: int = 1) -> int | None:
        """Returns a whole number, or None where the key is null; `default` if it is absent."""
        if self.nullable(key, default) is None:
            return None
        return self.integer(key, default, least=least)

    def nullable_positive(self, key: str, default: float | None) -> float | None:
        """Returns a number above 0, or None where the key is null; `default` if it is absent."""
        return None if self.nullable(key, default) is None else self.positive(key, default)

    def items(self, key: str, default: Sequence[T], kind: type[T], wanted: str) -> list[T]:
        """Returns a list of values of one type.

        Args:
            key: The key.
            default: The values if the key is absent or null.
            kind: Their type; whole numbers are at least 0.
            wanted: What they must be, for the error message.
        """
        values = self.optional(key, list(default))
        if not isinstance(values, list | tuple) or not all(type(v) is kind for v in values):
            raise self.wrong(key, f"a list of {wanted}")
        if any(isinstance(v, int) and not 0 <= v <= LARGEST for v in values):
            raise self.wrong(key, f"a list of {wanted}, each from 0 to {LARGEST:,}")
        return list(values)

    def table(self, key: str) -> Mapping[str, Any]:
        """Returns an object, which is empty if the key is absent or null."""
        value = self.optional(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, "an object")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        return self._read(key, default, bool, "true or false")

    def word(self, key: str, default: str | None = None) -> str:
        return self._read(key, default, str, "a text")

    def optional(self, key: str, default: Any = None) -> Any:
        """Returns a value of any type; `default` if the key is absent or null."""
        self.used.add(key)
        value = self.values.get(key)
        return default if value is None else value

    def nullable(self, key: str, default: Any) -> Any:
        """Returns a value of any type, including null; `default` only if the key is absent."""
        self.used.add(key)
        return self.values.get(key, default)

    def id(self, key: str, default: int | None = None) -> int | None:
        """Returns a token id or None; the first one of a list."""
        self.used.add(key)
        value = self.values.get(key, default)
        if isinstance(value, list):
            value = value[0] if value else None
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.wrong(key, "a token id")
        if value is not None and not -1 <= value <= LARGEST:  # early files write -1 for none
            raise self.wrong(key, f"a token id from 0 to {LARGEST:,}")
        return value

    def only(self, key: str, *known: Any) -> None:
        """Checks that a key is absent, null, or has one of the values that are supported."""
        value = self.optional(key)
        if value is not None and value not in known:
            raise UnsupportedError(
                f"config.json sets {key} to {value!r}, and {self.family} is computed here "
                f"with {' or '.join(map(repr, known))} alone.",
                field=key,
            )

    def with_defaults(self, defaults: Mapping[str, Any]) -> ConfigReader:
        """Returns a reader of the same file with other defaults for absent or null keys."""
        missing = {key: value for key, value in defaults.items() if self.values.get(key) is None}
        other = ConfigReader({**self.values, **missing}, self.family)
        other.used = self.used
        return other

    def wrong(self, key: str, wanted: str, value: Any = None) -> ConfigError:
        """Returns the error for an invalid value: that of the file, or one that follows from it."""
        given = self.values.get(key, value)
        return ConfigError(f"config.json has {key} = {given!r}; it must be {wanted}.")

    def unread(self, ignored: Iterable[str]) -> dict[str, Any]:
        """Returns the keys that were not read and are not known to have no effect."""
        known = {*self.used, *ignored, *WITHOUT_EFFECT}
        return {key: value for key, value in self.values.items() if key not in known}

    def _within(self, key: str, value: N, wanted: str, least: float, most: float) -> N:
        """Returns the value if it is between the bounds, which NaN is not."""
        if not least <= value <= most:
            raise self.wrong(key, wanted, value)
        return value

    def _read(self, key: str, default: T | None, kind: Any, wanted: str) -> T:
        self.used.add(key)
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise ConfigError(
                    f"config.json lacks {key}, which a model of the family {self.family} needs."
                )
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, wanted)
        return value  # type: ignore[no-any-return]
