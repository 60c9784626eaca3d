"""Language codes in the order of their ids, and a backend that marks texts with them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenizers import Tokenizer as Backend

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.text.backend import LibraryBackend, Text, TokenizerBackend, set_template
from glassformer.text.encoding import TextEncoding
from glassformer.text.loading.tokenizer_config import TokenizerConfig, id_of

MBART_CODES = """
    ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
    my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN
"""
MBART_50_CODES = """
    af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX
    sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""
M2M_CODES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha
    he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my
    ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi
    wo xh yi yo zh zu
"""
MBART = MBART_CODES.split()
MBART_50 = MBART + MBART_50_CODES.split()
M2M = M2M_CODES.split()
CODE = re.compile(r"[a-z]{2}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}")  # mBART's and NLLB's codes
ADDRESS = re.compile(r">>[^<>]+<<")  # the language tokens of Marian's multilingual models
M2M_WMT21 = ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]


def known(language: str, languages: Sequence[str]) -> str:
    """Returns `language`, or raises if it is not among `languages`."""
    if language not in languages:
        raise ConfigError(
            f"The tokenizer has no language {language!r}; its languages are {', '.join(languages)}."
        )
    return language


def address(language: str) -> str:
    """Returns the token to put before a text that is translated into a language."""
    return f">>{language}<<"


@dataclass(frozen=True, kw_only=True)
class LanguageBackend:
    """Adds the end token and the language code to each text, as mBART does.

    The code stands before the text or after the end token.
    """

    inner: LibraryBackend
    end: str
    first: bool
    """Whether the code stands before the text."""
    languages: tuple[str, ...]
    source: str
    goal: str | None

    @classmethod
    def of(cls, backend: LibraryBackend, settings: TokenizerConfig) -> "LanguageBackend":
        if settings.flag("legacy_behaviour", False):
            raise UnsupportedError(
                "NLLB's legacy_behaviour, which puts the language behind a text, is not read; set "
                "it to false in tokenizer_config.json.",
                field="legacy_behaviour",
            )
        tokens = backend.vocabulary.get_vocab(with_added_tokens=True)
        languages = sorted(filter(CODE.fullmatch, tokens), key=lambda code: tokens[code])
        english = "eng_Latn" if "eng_Latn" in languages else "en_XX"
        set_template(backend.vocabulary, ["$A"], ["$A", "$B"])
        return cls(
            inner=backend,
            end=settings.roles["eos"],
            first=settings.values["language_code"] == "first",
            languages=tuple(languages),
            source=known(settings.values.get("src_lang") or english, languages),
            goal=settings.values.get("tgt_lang"),
        )

    @property
    def vocabulary(self) -> Backend:
        return self.inner.vocabulary

    @property
    def piecewise(self) -> bool:
        return self.inner.piecewise

    @property
    def target_backend(self) -> TokenizerBackend:
        return self if self.goal is None else replace(self, source=self.goal, goal=None)

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        goal = self.goal if target is None else known(target, self.languages)
        return replace(self, source=known(source or self.source, self.languages), goal=goal)

    @property
    def language_token(self) -> str | None:
        return self.source

    @property
    def frame(self) -> tuple[list[str], list[str]]:
        """The tokens before and after a text."""
        return ([self.source], [self.end]) if self.first else ([], [self.end, self.source])

    def ids(self, texts: list[str]) -> list[list[int]]:
        return self.inner.ids(texts)

    def read(self, texts: list[Text], special: bool) -> Sequence[TextEncoding]:
        encoded = self.inner.read(texts, False)
        if not special:
            return encoded
        before, after = (
            [(token, id_of(self.vocabulary, token)) for token in tokens] for tokens in self.frame
        )
        return [one.framed(before, after) for one in encoded]

    def write(self, tokens: list[str]) -> str:
        return self.inner.write(tokens)

    def files(self) -> dict[str, bytes]:
        before, after = self.frame
        backend = Backend.from_str(self.vocabulary.to_str())
        set_template(backend, [*before, "$A", *after], [*before, "$A", "$B", *after])
        return LibraryBackend(backend, was_parsed=True).files()

    def reference_class(self) -> str:
        return self.inner.reference_class()
