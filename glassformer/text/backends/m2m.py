"""M2M-100's tokenizer: SentencePiece pieces after the token of the text's language.

It is read from `sentencepiece.bpe.model` and `vocab.json`.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.text.backend import TokenizerBackend
from glassformer.text.backends.python_backend import Cut, PythonBackend, numbered
from glassformer.text.backends.unigram_segmenter import UnigramSegmenter
from glassformer.text.languages import M2M, M2M_WMT21, known
from glassformer.text.loading.files import read_bytes, read_vocabulary
from glassformer.text.loading.sentencepiece_model import SPACE, SentencePieceModel
from glassformer.text.loading.tokenizer_config import TokenizerConfig, special_token

FILES = ("sentencepiece.bpe.model", "vocab.json")


@dataclass(frozen=True, kw_only=True)
class M2MBackend(PythonBackend):
    segmenter: UnigramSegmenter
    languages: tuple[str, ...]

    @property
    def piecewise(self) -> bool:
        return True

    def reference_class(self) -> str:
        return "M2M100Tokenizer"

    def with_languages(self, source: str | None, target: str | None) -> TokenizerBackend:
        other = None if target is None else replace(self, start=self._code(target), other=None)
        start = self.start if source is None else self._code(source)
        return replace(self, start=start, other=other or self.other)

    @property
    def language_token(self) -> str | None:
        return self.start

    def _code(self, language: str) -> str:
        return f"__{known(language, self.languages)}__"

    def cut(self, text: str) -> list[Cut]:
        return self.segmenter.segment(text)

    def write(self, tokens: list[str]) -> str:
        text = group = ""
        for token in tokens:
            if self.special_pattern.fullmatch(token):
                text, group = text + merge_pieces(group) + token, ""
            else:
                group += token
        return (text + merge_pieces(group)).strip()


def merge_pieces(pieces: str) -> str:
    return pieces.replace(SPACE, " ").removeprefix(" ")


def load_m2m(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    languages = M2M_WMT21 if settings.values.get("language_codes") == "wmt21" else M2M
    path = folder / "vocab.json"
    vocabulary = read_vocabulary(path)
    codes = [f"__{language}__" for language in languages]
    numbers = {code: len(vocabulary) + i for i, code in enumerate(codes)}
    backend = numbered({**vocabulary, **numbers}, settings, path)
    backend.add_special_tokens([special_token(code) for code in codes])
    m2m = M2MBackend(
        vocabulary=backend,
        segmenter=UnigramSegmenter(SentencePieceModel.read(folder / "sentencepiece.bpe.model")),
        unknown=settings.roles["unk"],
        end=settings.roles["eos"],
        originals={name: read_bytes(folder / name) for name in FILES},
        languages=tuple(languages),
    )
    return m2m.with_languages(
        settings.values.get("src_lang") or "en", settings.values.get("tgt_lang")
    )
