"""Translation by language token: what the encoder reads, and with what the decoder begins."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
import sentencepiece
import transformers

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer

TEXTS = ["Hallo Welt, wie geht es dir?", "Hello world, how are you today?", "Bonjour le monde."]
SIZES = {
    "d_model": 16,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


def pieces_in(folder, model_type, **settings):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=model,
        minloglevel=2,
        hard_vocab_limit=False,
        vocab_size=60,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture(scope="module")
def m2m(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m2m") / "words"
    pieces = pieces_in(folder, "m2m_100")
    tokens = ["<s>", "<pad>", "</s>", "<unk>"]
    tokens += [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    words = Tokenizer.load(folder)
    size = max(words.size, words.id("__zu__") + 1)
    model = gf.create("m2m100-418m", seed=1, tokenizer=words, vocab_size=size, **SIZES)
    theirs = transformers.M2M100Tokenizer.from_pretrained(folder)
    return model, theirs


def test_the_language_is_the_first_token(m2m):
    model, theirs = m2m
    theirs.src_lang = "de"
    source = theirs("Hallo Welt")["input_ids"]
    forced = theirs.get_lang_id("en")
    wanted = model.generate(source, forced_bos_token_id=forced, max_new_tokens=6)
    knobs = {"source_language": "de", "target_language": "en", "max_new_tokens": 6}
    found = model.generate("Hallo Welt", **knobs)
    assert found.tokens[0] == forced
    assert found == wanted
    assert "__en__" not in found.text


def test_one_language_of_the_two_keeps_the_other(m2m):
    model, _ = m2m
    plain = model.generate("Hello", target_language="fr", max_new_tokens=4)
    spoken = model.generate("Hello", source_language="en", target_language="fr", max_new_tokens=4)
    assert plain == spoken  # the folder's own is English


@pytest.mark.parametrize("kind", ["MBartTokenizer", "MBart50Tokenizer"])
def test_both_mbarts(kind, tmp_path):
    pieces_in(tmp_path / "words", "mbart", tokenizer_class=kind)
    words = Tokenizer.load(tmp_path / "words")
    model = gf.create("mbart-large-50", seed=1, tokenizer=words, vocab_size=words.size, **SIZES)
    knobs = model.writer.knobs({"source_language": "de_DE", "target_language": "en_XX"})
    code = words.id("en_XX")
    read = words.with_languages("de_DE").encode("Hallo").ids
    assert model.writer.ids("Hallo", knobs) == read and words.id("de_DE") in read
    if kind == "MBart50Tokenizer":
        assert knobs.forced_bos_token_id == code
    else:  # the target is shifted, so that its last token, the language, begins it
        assert knobs.decoder_start_token_id == code and knobs.forced_bos_token_id is None


def test_languages_that_are_not_there(m2m):
    with pytest.raises(GlassformerError, match="no language 'xx'; its languages are af, am"):
        m2m[0].generate("Hallo", target_language="xx")
    with pytest.raises(GlassformerError, match="reads all languages alike"):
        gf.load("shakespeare").generate("Hallo", target_language="en")
    with pytest.raises(GlassformerError, match="target_language needs a tokenizer"):
        gf.create("m2m100-418m", vocab_size=60, **SIZES).generate([5], target_language="en")
