"""Invalid tokenizer folders raise an error of one sentence."""

import json
import math
import shutil
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train
from glassformer.text.loading.catalog import FAMILIES


@pytest.fixture
def saved(corpus: list[str], tmp_path: Path) -> Path:
    train("wordpiece", texts=corpus, vocab_size=300).save(tmp_path / "saved")
    return tmp_path / "saved"


def sentence(folder: Path) -> str:
    with pytest.raises(GlassformerError) as caught:
        Tokenizer.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_folder(tmp_path: Path) -> None:
    assert (
        sentence(tmp_path / "nowhere") == f"The tokenizer folder {tmp_path}/nowhere does not exist."
    )


def test_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    message = sentence(tmp_path)
    for name in ("tokenizer.json", "vocab.txt", "merges.txt", "spiece.model", "source.spm"):
        assert name in message


def test_missing_files_of_a_known_family(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "vocab.json").write_text("{}")
    assert "there is no merges.txt" in sentence(tmp_path)


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_names_its_files(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    message = sentence(tmp_path)
    assert all(name in message for name in FAMILIES[kind].files)
    for name in FAMILIES[kind].files:
        (tmp_path / name).write_bytes(b"\xff broken \xfe")
    assert str(tmp_path) in sentence(tmp_path)


def test_unknown_family_is_not_guessed(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["gpt2"], tmp_path / "abacus")
    (folder / "config.json").write_text('{"model_type": "abacus"}')
    assert "its model type 'abacus' is not among those" in sentence(folder)


def test_cut_off_tokenizer_json(saved: Path) -> None:
    path = saved / "tokenizer.json"
    path.write_bytes(path.read_bytes()[:-50])
    assert f"{path} is not JSON" in sentence(saved)


def test_json_that_is_no_tokenizer(saved: Path) -> None:
    (saved / "tokenizer.json").write_text('{"model": {"type": "Abacus"}}')
    assert "not a tokenizer that the tokenizers library knows" in sentence(saved)


@pytest.mark.parametrize("form", ["single", "pair"])
def test_a_template_names_a_token_that_it_does_not_define(form: str, saved: Path, capfd) -> None:
    """The library would panic at the first text, and print where."""
    path = saved / "tokenizer.json"
    described = json.loads(path.read_text("utf-8"))
    described["post_processor"][form].append({"SpecialToken": {"id": "[GONE]", "type_id": 0}})
    path.write_text(json.dumps(described), "utf-8")
    assert "not a tokenizer that the tokenizers library knows" in sentence(saved)
    assert capfd.readouterr().err == ""


def test_a_template_adds_an_id_that_is_no_token(saved: Path) -> None:
    path = saved / "tokenizer.json"
    described = json.loads(path.read_text("utf-8"))
    tokens = described["post_processor"]["special_tokens"]
    next(iter(tokens.values()))["ids"] = [10**9]
    path.write_text(json.dumps(described), "utf-8")
    assert "adds the id 1000000000, which is no token" in sentence(saved)


def test_the_unknown_token_is_listed_twice(tmp_path: Path) -> None:
    train("unigram", texts=["time flies like an arrow"] * 9, vocab_size=40).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    described = json.loads(path.read_text("utf-8"))
    described["model"]["vocab"] *= 2
    path.write_text(json.dumps(described), "utf-8")
    assert "lists the unknown token '<unk>' twice" in sentence(tmp_path)


def test_a_token_that_is_no_text(saved: Path) -> None:
    path = saved / "tokenizer_config.json"
    described = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(described | {"additional_special_tokens": ["\ud800"]}))
    assert "tokenizer_config.json describes a token by" in sentence(saved)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_broken_side_files(name: str, saved: Path) -> None:
    (saved / name).write_text("[1, 2]")
    assert f"{name} must hold a JSON object" in sentence(saved)
    (saved / name).write_bytes(b"\xff\xfe{")
    assert f"{name} is not JSON" in sentence(saved)


def test_vocab_json_that_is_not_json(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    (folder / "vocab.json").write_text("the 1\nof 2\n")
    assert "vocab.json is not JSON" in sentence(folder)
    (folder / "vocab.json").write_text('{"the": "first"}')
    assert "vocab.json gives the token 'the' the id 'first'" in sentence(folder)


def test_malformed_merge_names_its_line(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    lines = (folder / "merges.txt").read_text().splitlines()
    lines[4] = "three little words"
    (folder / "merges.txt").write_text("\n".join(lines))
    assert "Line 5 of" in sentence(folder) and "'three little words'" in sentence(folder)


def test_files_that_do_not_belong_together(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(dict(list(vocabulary.items())[:270])))
    assert "do not belong together" in sentence(folder)


def test_vocab_txt_without_unknown(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["bert-cased"], tmp_path / "bert")
    (folder / "vocab.txt").write_text("[CLS]\n[SEP]\nthe\n")
    assert "lacks the token '[UNK]'" in sentence(folder)
    (folder / "vocab.txt").write_bytes(b"[UNK]\n\xff\xfe\n")
    assert "is not UTF-8 text: byte 6" in sentence(folder)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("do_lower_case", "yes", "gives do_lower_case the value 'yes'; it must be true or false"),
        ("model_max_length", "long", "gives model_max_length the value 'long'"),
        ("padding_side", "top", "gives padding_side the value 'top'"),
        ("pad_token", 3, "describes a token by 3"),
        ("added_tokens_decoder", {"7": {"content": "new"}}, "'new' the id 7, but the vocabulary"),
    ],
)
def test_bad_settings(
    key: str, value: object, message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders["bert-cased"], tmp_path / "bert")
    (folder / "tokenizer_config.json").write_text(json.dumps({key: value}))
    with pytest.raises(GlassformerError) as caught:
        tokenizer = Tokenizer.load(folder)
        tokenizer.batch(["text"], max_length=tokenizer.max_length)
    assert message in str(caught.value)


def test_baked_in_truncation_and_padding_are_off(saved: Path) -> None:
    content = json.loads((saved / "tokenizer.json").read_text())
    content["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    content["padding"] = {
        "strategy": {"Fixed": 30},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    expected = Tokenizer.load(saved).encode("the quick brown fox").ids
    (saved / "tokenizer.json").write_text(json.dumps(content))
    assert Tokenizer.load(saved).encode("the quick brown fox").ids == expected
    assert 4 < len(expected) < 30


def test_family_defaults_do_not_enlarge_a_foreign_vocabulary(saved: Path) -> None:
    size = Tokenizer.load(saved).size
    (saved / "config.json").write_text('{"model_type": "gpt2"}')
    assert Tokenizer.load(saved).size == size


def test_unknown_settings_are_kept(saved: Path, tmp_path: Path) -> None:
    path = saved / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "chat_template": "{{ 你好 }}", "own": {"a": [1]}}
    path.write_text(json.dumps(config))
    Tokenizer.load(saved).save(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert again["chat_template"] == "{{ 你好 }}" and again["own"] == {"a": [1]}


@pytest.mark.parametrize(
    "settings",
    [
        {"added_tokens_decoder": []},
        {"added_tokens_decoder": {"None": {"content": "<x>"}}},
        {"added_tokens_decoder": {"9" * 30: {"content": "<x>"}}},
        {"added_tokens_decoder": {"5": {"content": "<x>", "lstrip": "yes"}}},
        {"additional_special_tokens": 5},
        {"extra_special_tokens": [[]]},
        {"model_input_names": 5},
        {"model_max_length": math.nan},
        {"model_max_length": math.inf},
        {"eos_token": 5},
    ],
    ids=str,
)
def test_settings_of_another_form(saved: Path, settings: dict[str, object]) -> None:
    path = saved / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    with pytest.raises(GlassformerError, match=r"tokenizer_config\.json (gives|describes)"):
        Tokenizer.load(saved).max_length  # noqa: B018 - validated when it is read


def test_a_setting_with_half_a_character_is_written(saved: Path, tmp_path: Path) -> None:
    path = saved / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "note": "\ud800"}))
    Tokenizer.load(saved).save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / path.name).read_text())["note"] == "\ud800"
