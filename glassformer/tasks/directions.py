"""The languages between which a model translates, and checks of texts against them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from glassformer.errors import ConfigError, InputError
from glassformer.text.detect_language import detect_language, detect_script, scripts_of
from glassformer.text.iso_languages import NAMES, iso_code, language_name

Pair = tuple[str, str]


@dataclass(frozen=True)
class Directions:
    """The directions that config.json says a model was trained for; none if it says nothing."""

    pairs: tuple[Pair, ...] = ()

    @classmethod
    def parse(cls, saved: object) -> Directions:
        """Parses a list of strings such as "fr to en"."""
        texts = saved if isinstance(saved, list | tuple) else []
        pairs = [tuple(str(text).split(" to ")) for text in texts]
        if saved is not None and (not texts or any(len(pair) != 2 for pair in pairs)):
            raise ConfigError(
                f"config.json gives the translation's directions as {saved!r}; they are a list "
                'such as ["fr to en"].'
            )
        return cls(tuple((pair[0], pair[-1]) for pair in pairs))

    def __str__(self) -> str:
        return ", ".join(" to ".join(pair) for pair in self.pairs)

    def target_of(self, source: str | None) -> str | None:
        """Returns the target language, if there is only one (from this source)."""
        targets = {to for of, to in self.pairs if source in (None, of)}
        return targets.pop() if len(targets) == 1 else None

    def sources_of(self, target: str | None) -> list[str]:
        """Returns the languages of texts that can be translated (into this target)."""
        return [of for of, to in self.pairs if target in (None, to)]

    def check(self, source: str | None, target: str | None) -> None:
        """Raises if the model was not trained for this; it would write another language."""
        if source is not None and source == target:
            raise ConfigError(
                f"The text is to be translated from {source} into {target}, which is the same "
                "language; name another."
            )
        fits = any(source in (None, of) and target in (None, to) for of, to in self.pairs)
        if self.pairs and not fits:
            asked = f"{source} to {target}"
            asked = f"into {target}" if source is None else asked
            asked = f"from {source}" if target is None else asked
            raise ConfigError(
                f"This model was not taught to translate {asked}, only {self}; go by way of a "
                "language in between."
            )


def check_text_language(
    text: str, sources: Collection[str], target: str | None, known: Directions | Sequence[str]
) -> None:
    """Raises if a text is surely in another language than the model expects.

    Args:
        text: The text.
        sources: The languages that are expected. Of a language that cannot be detected, nothing
            is known, and no text is refused.
        target: The language that it is translated into.
        known: What the model translates, for the message: directions, or codes of languages.
    """
    expected = {iso_code(source) for source in sources}
    if not expected <= set(NAMES):
        return
    found = detect_language(text)
    if found is None and isinstance(known, Directions):
        found = detect_language(text, {iso_code(code) for pair in known.pairs for code in pair})
    if found in expected:
        return
    if found is None:
        _check_script(text, sources, known)
        return
    if target is not None and found == iso_code(target):
        raise InputError(
            f"The text is {language_name(found)} already, the language to translate into; name "
            "another (target_language, --to), or the text's (source_language, --from)."
        )
    if isinstance(known, Directions):
        raise InputError(
            f"The text is {language_name(found)}, and the model translates {known}; if the text is "
            "in another language, name it (source_language, --from)."
        )
    code = next((code for code in known if iso_code(code) == found), None)
    does = "does not know" if code is None else f"calls {code!r}"
    raise InputError(
        f"The text is {language_name(found)}, which the model {does}, and it would be read as "
        f"{language_name(next(iter(sources)))}; name the text's language (source_language, --from)."
    )


def _check_script(text: str, sources: Collection[str], known: Directions | Sequence[str]) -> None:
    """Raises if a text in a language that is not known is in letters that no source has.

    A text in Latin letters can be a name, an address or a transcription in any language.
    """
    script = detect_script(text)
    scripts = [scripts_of(iso_code(source)) for source in sources]
    if script in (None, "LATIN") or not all(scripts) or any(script in own for own in scripts):
        return
    does = f"the model translates {known}"
    if not isinstance(known, Directions):
        does = f"it would be read as {language_name(next(iter(sources)))}"
    raise InputError(
        f"The text is in {str(script).capitalize()} letters, and {does}; if that is right, name "
        "the text's language (source_language, --from)."
    )


def own_code(language: str | None, known: Collection[str]) -> str | None:
    """Returns the code of a language among those of a model; one that is not known stays.

    >>> [own_code(name, ["fr_XX", "en_XX"]) for name in ("fr", "English", "de")]
    ['fr_XX', 'en_XX', 'de']
    """
    if language is None or language in known:
        return language
    named = {name.casefold(): code for code, name in NAMES.items()}
    code = named.get(language.casefold(), iso_code(language))
    same = [one for one in known if iso_code(one) == code]
    return same[0] if len(same) == 1 else language
