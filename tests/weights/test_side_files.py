"""The files beside the weights have the same meaning after loading and saving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer as Library
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import glassformer as gf

TALK = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "b c"}]
PLAIN = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}{# ü #}"
OTHER = "{% for m in messages %}[{{ m.content }}]{% endfor %}"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of the reference: a tiny Llama with a tokenizer."""
    words = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>", "a", "b", "c"])}
    backend = Library(WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    path = tmp_path / "theirs"
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "vocab_size": 6}  # fmt: skip
    config = transformers.LlamaConfig(**sizes, bos_token_id=1, eos_token_id=2)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def in_a_file(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(PLAIN, "utf-8")


def several_files(folder: Path) -> None:
    in_a_file(folder)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text(OTHER)


def in_the_settings(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": PLAIN}))


def several_settings(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    listed = [{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": OTHER}]
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": listed}))


@pytest.mark.parametrize("write", [in_a_file, several_files, in_the_settings, several_settings])
def test_a_conversation_becomes_the_same_text(folder, tmp_path, write):
    write(folder)
    gf.load(folder).save(tmp_path / "ours")
    before = transformers.AutoTokenizer.from_pretrained(folder)
    after = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert after.chat_template == before.chat_template
    names = before.chat_template if isinstance(before.chat_template, dict) else [None]
    for name in names:
        expected = before.apply_chat_template(TALK, tokenize=False, chat_template=name)
        assert after.apply_chat_template(TALK, tokenize=False, chat_template=name) == expected
        assert "a b" in expected
    gf.load(tmp_path / "ours").save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "ours")


def test_a_tokenizer_for_other_lengths_has_them_too(folder, tmp_path):
    several_files(folder)
    gf.Tokenizer.load(folder).with_max_length(7).save(tmp_path / "ours")
    assert (tmp_path / "ours" / "chat_template.jinja").read_text("utf-8") == PLAIN
    assert (tmp_path / "ours" / "additional_chat_templates" / "tool_use.jinja").is_file()


@pytest.mark.parametrize("name", ["chat_template.json", "normalizer.json"])
def test_files_of_processors(folder, tmp_path, name):
    (folder / name).write_text('{"chat_template": "{{ messages }}"}')
    gf.load(folder).save(tmp_path / "ours")
    assert (tmp_path / "ours" / name).read_bytes() == (folder / name).read_bytes()


def test_every_file_of_the_reference_comes_back(folder, tmp_path):
    """And what it says is the same, for files that are written anew."""
    several_files(folder)
    config = {"eos_token_id": [2, 5], "max_new_tokens": 3, "own": {"a": 1}}
    (folder / "generation_config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text('{"own": 1}')
    (folder / "processor_config.json").write_text('{"own": 2}')
    gf.load(folder).save(tmp_path / "ours")
    assert set(contents(folder)) <= set(contents(tmp_path / "ours"))
    for name in ("generation_config.json", "preprocessor_config.json", "processor_config.json"):
        assert json.loads((tmp_path / "ours" / name).read_text()) == json.loads(
            (folder / name).read_text()
        )


def test_tokens_of_older_side_files_come_back(folder, tmp_path):
    """special_tokens_map.json and added_tokens.json, as folders of before 2023 have them."""
    path = folder / "tokenizer_config.json"
    old = {k: v for k, v in json.loads(path.read_text()).items() if "token" not in k}
    path.write_text(json.dumps(old))
    (folder / "special_tokens_map.json").write_text('{"eos_token": "</s>", "unk_token": "<unk>"}')
    (folder / "added_tokens.json").write_text('{"new": 6}')
    gf.load(folder).save(tmp_path / "ours")
    after = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert (after.eos_token_id, after.unk_token_id) == (2, 0)
    assert after("a new b")["input_ids"] == [3, 6, 4]


def test_how_sentences_are_compared_comes_back(folder, tmp_path):
    steps = ["Transformer", "Pooling"]
    listed = [
        {"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{step}",
         "type": f"sentence_transformers.models.{step}"}
        for i, step in enumerate(steps)
    ]  # fmt: skip
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    about = {"prompts": {"query": "q: "}, "default_prompt_name": "query"}
    about["similarity_fn_name"] = "dot"
    name = "config_sentence_transformers.json"
    (folder / name).write_text(json.dumps(about))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    gf.load(folder).save(tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / name).read_text()) == about
    assert gf.load(tmp_path / "ours").pooling == gf.load(folder).pooling


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
