"""Translation by language token: what the encoder reads, and with what the decoder begins."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from models import SEQ2SEQ, sentencepiece_in

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer

TEXTS = ["Hallo Welt, wie geht es dir?", "Hello world, how are you today?", "Bonjour le monde."]


def pieces_in(folder, model_type, **settings):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return sentencepiece_in(folder / "sentencepiece.bpe.model", TEXTS * 4)


@pytest.fixture(scope="module")
def m2m(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m2m") / "words"
    pieces = pieces_in(folder, "m2m_100")
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    words = Tokenizer.load(folder)
    size = max(words.size, words.id("__zu__") + 1)
    model = gf.create("m2m100-418m", seed=1, tokenizer=words, vocab_size=size, **SEQ2SEQ)
    theirs = transformers.M2M100Tokenizer.from_pretrained(folder)
    return model, theirs


def test_the_language_is_the_first_token(m2m):
    model, theirs = m2m
    theirs.src_lang = "de"
    source = theirs("Hallo Welt")["input_ids"]
    forced = theirs.get_lang_id("en")
    wanted = model.generate(source, forced_bos_token_id=forced, max_new_tokens=6)
    options = {"source_language": "de", "target_language": "en", "max_new_tokens": 6}
    found = model.generate("Hallo Welt", **options)
    assert found.tokens[0] == forced
    assert found == wanted
    assert "__en__" not in found.text


def test_the_verb_tells_languages_the_same_way(m2m):
    model, _ = m2m
    options = {
        "source_language": "de",
        "target_language": "en",
        "max_new_tokens": 6,
        "num_beams": 2,
    }
    assert (
        model.translate("Hallo Welt", **options).parts[0].score
        == model.generate("Hallo Welt", **options).score
    )
    with pytest.raises(GlassformerError, match="Name the language to translate into"):
        model.translate("Hallo Welt", source_language="de")


def test_a_token_before_the_source_tells_the_language():
    model = gf.load("zoo:translator")
    told = model.generate("I drink tea.", target_language="fr")
    assert told == model.generate(">>fr<< I drink tea.")
    assert told.text == model.translate("I drink tea.", target_language="fr", num_beams=1).text
    assert told.text != model.generate("I drink tea.", target_language="zh").text
    with pytest.raises(GlassformerError, match="no language 'de'; its languages are en, fr, zh"):
        model.generate("I drink tea.", target_language="de")


def test_one_language_of_the_two_keeps_the_other(m2m):
    model, _ = m2m
    plain = model.generate("Hello", target_language="fr", max_new_tokens=4)
    spoken = model.generate("Hello", source_language="en", target_language="fr", max_new_tokens=4)
    assert plain == spoken  # the folder's own is English


@pytest.mark.parametrize("kind", ["MBartTokenizer", "MBart50Tokenizer"])
def test_both_mbarts(kind, tmp_path):
    pieces_in(tmp_path / "words", "mbart", tokenizer_class=kind)
    words = Tokenizer.load(tmp_path / "words")
    model = gf.create("mbart-large-50", seed=1, tokenizer=words, vocab_size=words.size, **SEQ2SEQ)
    options = model.generator.resolve_config(
        {"source_language": "de_DE", "target_language": "en_XX"}
    )
    code = words.id("en_XX")
    read = words.with_languages("de_DE").encode("Hallo").ids
    assert model.generator.ids("Hallo", options) == read and words.id("de_DE") in read
    if kind == "MBart50Tokenizer":
        assert options.forced_bos_token_id == code
    else:  # the target is shifted, so that its last token, the language, begins it
        assert options.decoder_start_token_id == code and options.forced_bos_token_id is None


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    """M2M-100's model with a tokenizer that has the codes of NLLB; the reference, and ours."""
    letters = sorted(set("".join(TEXTS).replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")))
    words = ["<s>", "<pad>", "</s>", "<unk>", *letters]
    vocabulary = {token: id for id, token in enumerate(words)}
    theirs = transformers.NllbTokenizer(vocab=vocabulary, merges=[])
    folder = tmp_path_factory.mktemp("nllb")
    theirs.save_pretrained(folder)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    torch.manual_seed(1)
    config = transformers.M2M100Config(vocab_size=len(theirs), **ids, **SEQ2SEQ)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(8)
    model.save_pretrained(folder)
    return theirs, model, gf.load(folder)


@pytest.mark.parametrize("goal", ["eng_Latn", "zho_Hans"])
def test_nllb_as_the_reference(nllb, goal):
    theirs, transformer, model = nllb
    theirs.src_lang = "deu_Latn"
    for text in TEXTS:
        inputs = theirs(text, return_tensors="pt")
        forced = theirs.convert_tokens_to_ids(goal)
        options = {"max_new_tokens": 8, "num_beams": 2}
        wanted = transformer.generate(**inputs, forced_bos_token_id=forced, **options)[
            0, 1:
        ].tolist()
        found = model.generate(text, source_language="deu_Latn", target_language=goal, **options)
        assert found.tokens == wanted and wanted[0] == forced


@pytest.mark.parametrize(("goal", "beams"), [("fr", 1), ("en", 3)])
def test_m2m_as_the_reference(m2m, tmp_path, goal, beams):
    model, theirs = m2m
    model.save(tmp_path / "model")
    transformer = transformers.M2M100ForConditionalGeneration.from_pretrained(tmp_path / "model")
    theirs.src_lang = "de"
    for text in TEXTS:
        inputs = theirs(text, return_tensors="pt")
        forced = theirs.get_lang_id(goal)
        options = {"max_new_tokens": 8, "num_beams": beams}
        ids = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
        out = transformer.generate(**inputs, forced_bos_token_id=forced, **options, **ids)
        wanted = out[0, 1:].tolist()
        found = model.generate(text, source_language="de", target_language=goal, **options)
        assert found.tokens == wanted


def test_nllb_is_saved_and_says_what_it_cannot_read(nllb, tmp_path):
    model = nllb[2]
    model.save(tmp_path / "again")
    again = gf.load(tmp_path / "again")
    options = {"source_language": "deu_Latn", "target_language": "fra_Latn", "max_new_tokens": 4}
    assert again.generate("Hallo", **options) == model.generate("Hallo", **options)
    config = tmp_path / "again" / "tokenizer_config.json"
    settings = {**json.loads(config.read_text()), "tokenizer_class": "NllbTokenizer"}
    config.write_text(json.dumps({**settings, "legacy_behaviour": True}))
    with pytest.raises(GlassformerError, match="legacy_behaviour"):
        Tokenizer.load(tmp_path / "again")
    (tmp_path / "again" / "tokenizer.json").rename(tmp_path / "again" / "sentencepiece.bpe.model")
    with pytest.raises(GlassformerError, match=r"without tokenizer\.json"):
        Tokenizer.load(tmp_path / "again")


def test_languages_that_are_not_there(m2m):
    with pytest.raises(GlassformerError, match="no language 'xx'; its languages are af, am"):
        m2m[0].generate("Hallo", target_language="xx")
    with pytest.raises(GlassformerError, match="does not distinguish languages"):
        gf.load("shakespeare").generate("Hallo", target_language="en")
    with pytest.raises(GlassformerError, match="target_language needs a tokenizer"):
        gf.create("m2m100-418m", vocab_size=60, **SEQ2SEQ).generate([5], target_language="en")
