"""The languages of the texts that a translation is learned from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.data.record import Record
from glassformer.errors import DataError
from glassformer.text.detect_language import detect_language
from glassformer.text.iso_languages import NAMES, iso_code, language_name

SAMPLE = 200  # pairs of which the language is detected
FEWEST = 3  # texts in a language, from which on it is believed


def columns_of_languages(
    there: Sequence[str], languages: Mapping[str, str | None]
) -> dict[str, str]:
    """Returns the columns that are named after the languages, by their role.

    >>> columns_of_languages(["en", "French"], {"source": "fr", "target": "en"})
    {'source': 'French', 'target': 'en'}
    """
    found: dict[str, str] = {}
    for role, language in languages.items():
        if language is not None:
            names = {iso_code(language), language.lower(), _name(language)}
            own = [one for one in there if {one.strip().lower(), iso_code(one.strip())} & names]
            found |= {role: own[0]} if len(own) == 1 else {}
    return found


def check_languages(
    source: str, records: Sequence[Record], columns: Mapping[str, str], target: str
) -> None:
    """Raises an error if most texts of the target column are in another language.

    Args:
        source: The file, for the error message.
        records: Rows of the file.
        columns: The columns `source` and `target` of the file.
        target: The code of the language to translate into.
    """
    wanted, rows = iso_code(target), records[:SAMPLE]
    if wanted not in NAMES:
        return
    found = _languages(row.get(columns["target"]) for row in rows)
    if not found:
        return
    ((most, count),) = found.most_common(1)
    if most == wanted or count < max(FEWEST, 2 * found[wanted]):
        return
    name = columns["target"]
    raise DataError(
        f"The texts to learn to write, {name} of {source}, are {language_name(most)}, and --to is "
        f"{target}; name the columns by --column source=NAME --column target=NAME (of a file "
        'without names with --format tsv and "column 1", "column 2").',
        path=source,
    )


def _languages(texts: Iterable[Any]) -> Counter[str]:
    found = (detect_language(text) for text in texts if isinstance(text, str))
    return Counter(language for language in found if language is not None)


def _name(language: str) -> str:
    return NAMES.get(iso_code(language), language).lower()
