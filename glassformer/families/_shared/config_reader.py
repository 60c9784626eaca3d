"""A reader for config.json that tracks which keys were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from glassformer.errors import ConfigError, UnsupportedError

T = TypeVar("T")

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

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._number(key, default, int))

    def number(self, key: str, default: float | None = None) -> float:
        return float(self._number(key, default, float))

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

    def assuming(self, defaults: Mapping[str, Any]) -> ConfigReader:
        """Returns a reader of the same file with other defaults for absent or null keys."""
        missing = {key: value for key, value in defaults.items() if self.values.get(key) is None}
        other = ConfigReader({**self.values, **missing}, self.family)
        other.used = self.used
        return other

    def wrong(self, key: str, wanted: str) -> ConfigError:
        """Returns the error for an invalid value."""
        return ConfigError(
            f"config.json has {key} = {self.values.get(key)!r}; it must be {wanted}."
        )

    def unread(self, ignored: Iterable[str]) -> dict[str, Any]:
        """Returns the keys that were not read and are not known to have no effect."""
        known = {*self.used, *ignored, *WITHOUT_EFFECT}
        return {key: value for key, value in self.values.items() if key not in known}

    def _number(self, key: str, default: float | None, kind: type) -> float:
        kinds = (int, float) if kind is float else int
        value: float = self._read(key, default, kinds, "a number")
        if isinstance(value, bool):
            raise self.wrong(key, "a number")
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
        if not isinstance(value, kind):
            raise self.wrong(key, wanted)
        return value  # type: ignore[no-any-return]
