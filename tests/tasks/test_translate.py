"""Models trained in the tests translate their training texts, in Python and as a command."""

from __future__ import annotations

import json
import sys

import pytest
from rights import ALONE, BOTH, ENGLISH, FRENCH, GERMAN, learn, pairs

import glassformer as gf
from glassformer.cli import main
from glassformer.errors import GlassformerError
from glassformer.tasks.task_settings import keep
from glassformer.tasks.translate import Translator
from glassformer.text import train as train_tokenizer
from glassformer.train.objectives import make_objective


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory):
    """An encoder-decoder that is told by a token into which language."""
    records = pairs(GERMAN, ENGLISH, target_language="en")
    records += pairs(GERMAN, FRENCH, target_language="fr")
    return learn(
        tmp_path_factory.mktemp("many") / "run",
        records,
        BOTH,
        tokenizer={"languages": ["en", "fr"]},
        objective={"name": "sequence-to-sequence", "max_source_length": 64},
        train={"max_steps": 120},
    )


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A decoder alone whose sources see all of themselves."""
    return learn(
        tmp_path_factory.mktemp("one") / "run",
        pairs(GERMAN, ENGLISH),
        ALONE,
        tokenizer={"special_tokens": {"sep": "<sep>"}},
        objective={"name": "continuation", "prefix_lm": True},
    )


def texts(translations) -> list[str]:
    return [one.text for one in translations]


def test_many_to_many_by_a_token(polyglot):
    assert texts(polyglot.translate(GERMAN, target_language="en")) == ENGLISH
    assert texts(polyglot.translate(GERMAN, target_language="fr")) == FRENCH
    assert polyglot.translate(GERMAN[4], target_language="fr", num_beams=1).text == FRENCH[4]


def test_a_decoder_alone_knows_what_separates(stream):
    assert texts(stream.translate(GERMAN)) == ENGLISH
    assert texts(stream.translate(GERMAN, num_beams=1, batch_size=2)) == ENGLISH
    kept = stream.config["task_specific_params"]["text2text"]
    assert kept["separator"] == [stream.tokenizer.id("<sep>")] and kept["bidirectional_prefix"]


def test_a_document_keeps_its_paragraphs_and_says_what_comes_from_where(polyglot):
    text = f"{GERMAN[0]} {GERMAN[4]}\n\n  {GERMAN[1]}\n{GERMAN[3]}\n"
    found = polyglot.translate(text, target_language="en", split="sentences")
    assert found.text == f"{ENGLISH[0]} {ENGLISH[4]}\n\n  {ENGLISH[1]}\n{ENGLISH[3]}\n"
    spans = [text[part.start : part.end] for part in found.parts]
    assert spans == [GERMAN[0], GERMAN[4], GERMAN[1], GERMAN[3]]
    assert [part.finish_reason for part in found.parts] == ["eos"] * 4


def test_how_texts_are_split_travels_with_the_model(tmp_path):
    model = gf.load("zoo:translator")
    assert Translator(model, target_language="en").split == "sentences"
    assert Translator(model, target_language="en", split="none").split == "none"
    assert len(model.translate("Bonjour. Où est la gare ?", target_language="en").parts) == 2
    keep(model, "translation", split=None)
    model.save(tmp_path)
    assert Translator(gf.load(tmp_path), target_language="en").split == "parts"


def test_a_direction_that_was_not_taught_is_refused(polyglot, tmp_path):
    polyglot.save(tmp_path)
    model = gf.load(tmp_path)
    taught = model.config["task_specific_params"]
    assert "directions" not in taught.get("translation", {})
    free = model.translate("x", source_language="de", target_language="fr").text
    keep(model, "translation", directions=["de to en", "de to fr"])
    model.save(tmp_path / "kept")
    model = gf.load(tmp_path / "kept")
    assert model.translate("x", source_language="de", target_language="fr").text == free
    assert model.translate("x", target_language="fr").text == free
    with pytest.raises(gf.GlassformerError, match="fr to en, only de to en, de to fr"):
        model.translate("x", source_language="fr", target_language="en")


def test_an_iterator_is_answered_as_it_goes(polyglot):
    asked = []

    def source():
        for text in GERMAN * 200:
            asked.append(text)
            yield text

    results = polyglot.translate(source(), target_language="en", num_beams=1)
    assert [next(results).text, next(results).text] == ENGLISH[:2]
    assert len(asked) < len(GERMAN) * 200


def test_what_was_saved_loads_in_the_reference(polyglot, stream, tmp_path):
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    for model, auto in ((polyglot, AutoModelForSeq2SeqLM), (stream, AutoModelForCausalLM)):
        folder = tmp_path / auto.__name__
        model.save(folder)
        theirs, tokenizer = auto.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        assert theirs.config.task_specific_params == model.config["task_specific_params"]
        text = GERMAN[0] if model is stream else f">>en<< {GERMAN[0]}"
        inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        assert inputs["input_ids"][0].tolist() == model.tokenizer.encode(text).ids
        if model is polyglot:
            ids = theirs.generate(**inputs, num_beams=4, max_new_tokens=60)[0]
            assert tokenizer.decode(ids, skip_special_tokens=True).strip() == ENGLISH[0]


def small_t5():
    roles = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
    tokenizer = train_tokenizer(
        "bpe", texts=GERMAN, vocab_size=80, special_tokens=roles, add_eos=True
    )
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    ids = {"vocab_size": 80, "eos_token_id": 1, "pad_token_id": 2}
    return gf.create("t5-small", tokenizer=tokenizer, **ids, **sizes)


def test_the_prefix_of_a_task_is_read_from_the_config():
    """As T5's config.json has it: prefix and options for every pair of languages."""
    t5 = small_t5()
    for pair, prefix in (("en_to_de", "to German: "), ("en_to_fr", "to French: ")):
        keep(t5, f"translation_{pair}", prefix=prefix, num_beams=2, max_length=7)
    plain = t5.generate("to French: Recht", num_beams=2, max_length=7)
    found = t5.translate("Recht", target_language="fr")
    assert found.text == plain.text.strip() and found.parts[0].score == plain.score
    with pytest.raises(GlassformerError, match="en to de, en to fr"):
        t5.translate("Recht", source_language="en")
    with pytest.raises(GlassformerError, match="en to de, en to fr"):
        t5.translate("Recht", target_language="it")


def test_training_has_the_last_word_on_the_prefix():
    """A T5 that was tuned without a prefix is not given that of its first tasks."""
    t5 = small_t5()
    keep(t5, "translation_en_to_de", prefix="to German: ", num_beams=3)
    make_objective("sequence-to-sequence", t5, {"max_source_length": 32})
    translator = Translator(t5)
    assert translator.rewriter.ids("Recht") == t5.tokenizer.encode("Recht").ids
    assert translator.rewriter.capacity == 32


def test_bad_input_is_named(polyglot, stream):
    with pytest.raises(GlassformerError, match=r"Name the language .* en, fr"):
        polyglot.translate("Recht")
    with pytest.raises(GlassformerError, match="no language 'it'; its languages are en, fr"):
        polyglot.translate("Recht", target_language="it")
    with pytest.raises(GlassformerError, match="empty"):
        stream.translate([GERMAN[0], " \n"])
    with pytest.raises(GlassformerError, match="must be a str, not int"):
        stream.translate([3])
    with pytest.raises(GlassformerError, match="reads 64 at once"):
        polyglot.translate(" ".join(GERMAN * 3), target_language="en", split="none")
    with pytest.raises(GlassformerError, match="split is one of"):
        stream.translate("a", split="words")
    with pytest.raises(GlassformerError, match="did you mean num_beams"):
        stream.translate("a", nun_beams=3)
    with pytest.raises(GlassformerError, match="129 tokens exceeds the model's 128"):
        stream.translate("a", max_source_length=129)
    with pytest.raises(GlassformerError, match="1 tokens leave no space"):
        stream.translate("a", max_source_length=1)
    with pytest.raises(GlassformerError, match="separator between"):
        gf.load("shakespeare").translate("ROMEO")
    bert = gf.create(
        "bert-base",
        num_hidden_layers=1,
        hidden_size=8,
        num_attention_heads=1,
        intermediate_size=8,
        vocab_size=9,
        tokenizer=stream.tokenizer,
        architectures=["BertForSequenceClassification"],
    )
    with pytest.raises(GlassformerError, match="it is a model to classify with"):
        bert.translate("a")


# --- on the command line -----------------------------------------------------------------------


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["glassformer", "translate", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def folder(polyglot, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "model"
    polyglot.save(place)
    return place


def test_lines_for_lines_and_figures_beside_references(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "in.de").write_text("\n".join([*GERMAN[:2], "", *GERMAN[2:]]) + "\n")
    (tmp_path / "right.en").write_text("\n".join([*ENGLISH[:2], "", *ENGLISH[2:]]) + "\n")
    files = ["--file", tmp_path / "in.de", "--reference", tmp_path / "right.en"]
    assert run(monkeypatch, folder, "--target-language", "en", *files) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [*ENGLISH[:2], "", *ENGLISH[2:]]
    assert "BLEU       100.00  nrefs:1|case:mixed|eff:no|tok:13a" in said.err
    assert "chrF2      100.00" in said.err


def test_json_lines_in_and_out(folder, tmp_path, monkeypatch, capsys):
    lines = [
        json.dumps({"id": 7, "de": GERMAN[1], "en": [ENGLISH[1], "Life."]}),
        "{not json",
        json.dumps({"id": 8, "de": " ", "en": "x"}),
        json.dumps({"id": 9, "en": "x"}),
        json.dumps({"id": 10, "de": GERMAN[4], "en": 5}),
        json.dumps({"id": 11, "de": GERMAN[4], "en": ENGLISH[4]}),
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines) + "\n")
    words = [
        folder,
        "--target-language",
        "en",
        "--file",
        path,
        "--field",
        "de",
        "--reference-field",
        "en",
        "--json",
    ]
    assert run(monkeypatch, *words, "--on-error", "skip") == 0
    said = capsys.readouterr()
    *found, scores = map(json.loads, said.out.splitlines())
    assert [(one["id"], one["translation"]) for one in found] == [(7, ENGLISH[1]), (11, ENGLISH[4])]
    assert scores["metrics"][0]["name"] == "BLEU" and scores["metrics"][0]["value"] > 99
    assert [f"in.jsonl:{line}" in said.err for line in (1, 2, 3, 4, 5, 6)] == [
        False, True, True, True, True, False,
    ]  # fmt: skip
    assert "2 used, 4 skipped." in said.err
    assert run(monkeypatch, *words) == 1
    assert "in.jsonl:2" in capsys.readouterr().err


def test_a_whole_document_and_a_text(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "doc.txt").write_text(f"{GERMAN[0]}\n\n{GERMAN[4]}\n")
    assert (
        run(
            monkeypatch,
            folder,
            "--target-language",
            "fr",
            "--file",
            tmp_path / "doc.txt",
            "--whole",
        )
        == 0
    )
    assert capsys.readouterr().out == f"{FRENCH[0]}\n\n{FRENCH[4]}\n"
    assert run(monkeypatch, folder, "--target-language", "fr", GERMAN[4], "--num-beams", "1") == 0
    assert capsys.readouterr().out == f"{FRENCH[4]}\n"


def test_what_is_wrong_is_one_sentence(folder, tmp_path, monkeypatch, capsys):
    cases = [
        (["--target-language", "en", ""], "the text is empty"),
        (["--target-language", "en", "--file", tmp_path / "none.txt"], "none.txt"),
        (["a"], "Name the language"),
        (["--target-language", "en", "a", "--reference", tmp_path / "none.txt"], "none.txt"),
    ]
    (tmp_path / "two.de").write_text(f"{GERMAN[0]}\n{GERMAN[1]}\n")
    (tmp_path / "one.en").write_text(f"{ENGLISH[0]}\n")
    (tmp_path / "latin.de").write_bytes("Würde\n".encode("latin-1"))
    short = ["--file", tmp_path / "two.de", "--reference", tmp_path / "one.en"]
    cases.append((["--target-language", "en", *short], "one.en has no line 2"))
    cases.append((["--target-language", "en", "--file", tmp_path / "latin.de"], "latin.de:1"))
    for words, message in cases:
        assert run(monkeypatch, folder, *words) == 1
        said = capsys.readouterr().err
        assert message in said and said.count("error:") == 1 and "Traceback" not in said


def test_a_text_in_another_language_is_refused(glassformer):
    model = gf.load("zoo:translator")
    wrong = {
        ("我爱你。", "zh"): r"is Chinese \(zh\) already",
        ("我爱你。", "fr"): "is Chinese .* translates fr to en, en to fr, zh to en, en to zh",
        ("Ich liebe dich.", "en"): "is German .* translates fr to en",
        ("I love you very much.", "en"): "is English .* already",
        ("Où est la gare ?", "zh"): "is French .* translates",
        ("Дай пройти!", "en"): r"in Cyrillic letters, and the model translates fr to en.*--from",
        ("ⵣⵣⵣ", "en"): "in Tifinagh letters",
    }
    for (text, target), sentence in wrong.items():
        with pytest.raises(gf.InputError, match=sentence):
            model.translate(text, target_language=target)
    assert model.translate("Ich liebe dich.", source_language="fr", target_language="en").text
    for source, target in (("zh", "fr"), ("de", "en"), (None, "de")):
        with pytest.raises(gf.ConfigError, match=r"not trained to translate .* only fr to en"):
            model.translate("x", source_language=source, target_language=target)
    with pytest.raises(gf.ConfigError, match="the same language"):
        model.translate("x", source_language="en", target_language="en")
    assert model.translate("Bonjour.", source_language="fr").text == "Good morning."
    for names in ({"source_language": "French"}, {"source_language": "fra", "to": "english"}):
        assert model.translate("Bonjour.", **names).text == "Good morning."
    code, shown, said = glassformer("translate", "zoo:translator", "我爱你。", "--to", "fr")
    assert (code, shown) == (1, "")
    assert "is Chinese (zh), and the model translates" in said


def test_a_multilingual_model_asks_for_the_language_of_a_text(tmp_path):
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = "<s> <pad> </s> <unk> ich liebe dich i love you very much en_XX de_DE fr_XX <mask>"
    table = {word: number for number, word in enumerate(words.split())}
    backend = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    config = transformers.MBartConfig(
        vocab_size=len(table), d_model=8, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
        max_position_embeddings=32,
    )  # fmt: skip
    transformers.MBartForConditionalGeneration(config).save_pretrained(tmp_path)
    backend.save(str(tmp_path / "tokenizer.json"))
    settings = {"tokenizer_class": "MBartTokenizer", "eos_token": "</s>", "unk_token": "<unk>"}
    settings |= {"pad_token": "<pad>", "src_lang": "en_XX", "tgt_lang": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    model = gf.load(tmp_path)
    options = {"target_language": "fr_XX", "max_new_tokens": 2}
    with pytest.raises(gf.InputError, match=r"German \(de\), which the model calls 'de_DE'"):
        model.translate("ich liebe dich", **options)
    model.translate("ich liebe dich", source_language="de_DE", **options)
    model.translate("i love you very much", **options)


def test_a_model_trained_for_one_pair_needs_no_language(tmp_path):
    run = learn(
        tmp_path / "run",
        pairs(GERMAN, ENGLISH),
        BOTH,
        tokenizer={"languages": ["en", "fr"]},
        objective={
            "name": "sequence-to-sequence",
            "source_language": "de",
            "target_language": "en",
        },
        train={"max_steps": 2},
    )
    assert run.config["task_specific_params"]["translation"]["directions"] == ["de to en"]
    run.save(tmp_path / "saved")
    model = gf.load(tmp_path / "saved")
    prefix = model.tokenizer.id(">>en<<")
    assert Translator(model).rewriter.ids("x")[0] == prefix
    with pytest.raises(gf.InputError, match=r"is English .* already"):
        model.translate("I love you very much.")


def test_training_forgets_the_directions_of_its_base():
    model = gf.load("zoo:translator")
    make_objective("sequence-to-sequence", model, {"target_language": "en"})
    assert "directions" not in model.config["task_specific_params"]["translation"]
    assert model.translate("Ich liebe dich.").text


def test_directions_that_cannot_be_read():
    model = gf.load("zoo:translator")
    keep(model, "translation", directions="fr to en")
    with pytest.raises(gf.ConfigError, match=r"directions as 'fr to en'; they are a list"):
        model.translate("x", target_language="en")
