"""Our Unigram segmentation is SentencePiece's, character for character."""

import random
from io import BytesIO
from pathlib import Path

import pytest
import sentencepiece

from glassformer.errors import GlassformerError
from glassformer.text.backends.unigram_segmenter import UnigramSegmenter
from glassformer.text.loading.sentencepiece_model import SentencePieceModel

VARIANTS = {
    "plain": {},
    "no-prefix": {"add_dummy_prefix": False},
    "all-spaces": {"remove_extra_whitespaces": False},
    "identity": {"normalization_rule_name": "identity"},
    "casefold": {"normalization_rule_name": "nmt_nfkc_cf"},
    "user-defined": {"user_defined_symbols": ["-", "()", "ＡＢ", "<tool>"]},
}


def trained(corpus: list[str], **options: object) -> bytes:
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus * 4),
        model_writer=model,
        minloglevel=2,
        **{"vocab_size": 400, "hard_vocab_limit": False, **options},
    )
    return model.getvalue()


def samples(texts: list[str]) -> list[str]:
    generator = random.Random(1)
    combining = "".join(
        map(chr, [*range(0x300, 0x370), *range(0x1100, 0x1200), *range(0xFF00, 0xFFEF)])
    )
    runs = "aI.=-1!? ▁中é\u3000\t\n"
    made = [
        "".join(generator.choice(runs) * generator.randint(1, 7) for _ in range(6))
        for _ in range(300)
    ]
    made += ["".join(generator.choices("".join(texts) + combining, k=12)) for _ in range(500)]
    return [*texts, *made]


@pytest.mark.parametrize("variant", VARIANTS)
def test_segments_as_sentencepiece_does(variant: str, corpus: list[str], texts: list[str]) -> None:
    content = trained(corpus, **VARIANTS[variant])
    reference = sentencepiece.SentencePieceProcessor(model_proto=content)
    segmenter = UnigramSegmenter(SentencePieceModel.parse(content))
    for text in samples(texts):
        pieces = [piece for piece, _, _ in segmenter.segment(text)]
        assert pieces == reference.encode(text, out_type=str), text


def test_places_are_in_the_original_text(corpus: list[str]) -> None:
    segmenter = UnigramSegmenter(SentencePieceModel.parse(trained(corpus)))
    text = "  ﬁne　ＡＢＣ e\u0301cole 😀 你好"
    cuts = segmenter.segment(text)
    covered = {i for _, start, end in cuts for i in range(start, end)}
    assert {i for i, character in enumerate(text) if not character.isspace()} <= covered
    assert [start for _, start, _ in cuts] == sorted(start for _, start, _ in cuts)
    at = {text[start:end] for _, start, end in cuts}
    assert {"ﬁ", "Ａ", "e\u0301", "😀"} <= at | {part.strip() for part in at}


def test_only_unigram(folders: dict[str, Path]) -> None:
    model = SentencePieceModel.read(folders["llama"] / "tokenizer.model")
    with pytest.raises(GlassformerError, match="of kind bpe"):
        UnigramSegmenter(model)


def test_byte_pieces_are_refused(corpus: list[str]) -> None:
    model = SentencePieceModel.parse(trained(corpus, byte_fallback=True, vocab_size=700))
    with pytest.raises(GlassformerError, match="byte pieces"):
        UnigramSegmenter(model)
