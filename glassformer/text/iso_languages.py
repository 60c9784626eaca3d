"""Names and codes of languages, as models and tokenizers write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES: Mapping[str, str] = {  # ISO 639-1
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "lo": "Lao",
    "ml": "Malayalam", "mr": "Marathi", "my": "Burmese", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala",
    "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
THREE: Mapping[str, str] = {  # ISO 639-2 and 639-3, as NLLB and OPUS-MT write them
    "ara": "ar", "arb": "ar", "bul": "bg", "ben": "bn", "ces": "cs", "dan": "da", "deu": "de",
    "ell": "el", "eng": "en", "spa": "es", "fas": "fa", "pes": "fa", "fin": "fi", "fra": "fr",
    "guj": "gu", "heb": "he", "hin": "hi", "hun": "hu", "hye": "hy", "ind": "id", "ita": "it",
    "jpn": "ja", "kat": "ka", "khm": "km", "kan": "kn", "kor": "ko", "lao": "lo", "mal": "ml",
    "mar": "mr", "mya": "my", "nld": "nl", "nob": "no", "nno": "no", "nor": "no", "pol": "pl",
    "por": "pt", "ron": "ro", "rus": "ru", "sin": "si", "srp": "sr", "swe": "sv", "tam": "ta",
    "tel": "te", "tha": "th", "tur": "tr", "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh",
    "cmn": "zh", "yue": "zh", "nb": "no", "nn": "no", "iw": "he",
}  # fmt: skip


def iso_code(code: str) -> str:
    """Returns the ISO 639-1 code of a language code; one that is not known stays as it is.

    >>> [iso_code(code) for code in ("de", "de_DE", "deu_Latn", "zh_CN")]
    ['de', 'de', 'de', 'zh']
    """
    first = re.split(r"[_-]", code.lower())[0]
    return THREE.get(first, first)


def language_name(code: str) -> str:
    """Returns the name of a language with its code, such as "German (de)"."""
    name = NAMES.get(iso_code(code))
    return code if name is None else f"{name} ({code})"
