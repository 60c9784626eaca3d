"""Embeddings, compared with pooled states of transformers; pooling settings of saved folders."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from learned import QUESTIONS, command, finder  # noqa: F401
from small_models import bert, word_tokenizer
from transformers import AutoModel, AutoTokenizer

import glassformer as gf
from glassformer.adapters import LoRA
from glassformer.errors import GlassformerError
from glassformer.tasks.pooling import Pooling
from glassformer.tasks.search.vectors_file import whole_matrix

TEXTS = [*QUESTIONS, *QUESTIONS.values(), "a", "key " * 100]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return finder(tmp_path_factory.mktemp("embed"), symmetric=True, max_length=30)


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


def reference(folder, text: str, mode: str, length: int = 30) -> np.ndarray:
    """One text at a time, by transformers."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        read = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
        states = model(**read).last_hidden_state[0].double().numpy()
    return {"mean": states.mean(0), "first": states[0], "last": states[-1], "max": states.max(0)}[
        mode
    ]


@pytest.mark.parametrize("mode", ["mean", "first", "last", "max"])
def test_as_transformers_pools_it(model, folder, mode):
    found = model.embed(TEXTS, pooling=mode, normalize=False)
    assert found.dtype == np.float32 and found.shape == (len(TEXTS), 32)
    for text, vector in list(zip(TEXTS, found, strict=True))[::3]:
        np.testing.assert_allclose(vector, reference(folder, text, mode), atol=1e-5)
    unit = model.embed(TEXTS[:2], pooling=mode, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(unit[0] * np.linalg.norm(found[0]), found[0], atol=1e-5)


def test_a_trained_model_brings_its_own_pooling(model, folder):
    """The recipe's; and what sentence-transformers looks for in a folder is there."""
    assert model.pooling == Pooling(modes=("mean",), normalize=True, length=30)
    own = model.embed(TEXTS[0])
    np.testing.assert_allclose(own, model.embed(TEXTS[0], pooling="mean", normalize=True))
    modules = json.loads((folder / "modules.json").read_text())
    assert [one["type"].rpartition(".")[2] for one in modules] == [
        "Transformer",
        "Pooling",
        "Normalize",
    ]
    config = json.loads((folder / modules[1]["path"] / "config.json").read_text())
    assert config["pooling_mode_mean_tokens"] and config["word_embedding_dimension"] == 32
    said = [name for name, value in config.items() if name.startswith("pooling_") and value]
    assert said == ["pooling_mode_mean_tokens"]
    assert json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"] == 30
    assert (folder / modules[2]["path"]).is_dir()


def test_pooling_survives_being_saved(model, tmp_path):
    for _ in range(2):  # also over a folder that is there
        model.save(tmp_path / "again")
    again = gf.load(tmp_path / "again")
    assert again.pooling == model.pooling
    np.testing.assert_array_equal(again.embed(TEXTS[:3]), model.embed(TEXTS[:3]))


def test_an_adapter_brings_its_pooling(folder, tmp_path):
    adapted = gf.load(folder)
    adapted.adapters.add(LoRA(rank=2, target_modules=("query",)))
    adapted.pooling = Pooling(modes=("last",), normalize=True)
    adapted.adapters.save(tmp_path / "adapter")
    again = gf.load(folder).adapters.load(tmp_path / "adapter")
    assert again.pooling == adapted.pooling
    np.testing.assert_allclose(again.embed(TEXTS[:2]), adapted.embed(TEXTS[:2]), atol=1e-6)


def test_questions_find_their_answers(model):
    asked, said = model.embed([*QUESTIONS]), model.embed([*QUESTIONS.values()])
    assert (asked @ said.T).argmax(1).tolist() == [*range(len(QUESTIONS))]


def test_one_a_list_a_stream(model):
    whole = model.embed(TEXTS)
    np.testing.assert_allclose(model.embed(TEXTS[5]), whole[5], atol=1e-5)
    streamed = model.embed(iter(TEXTS))
    assert not isinstance(streamed, np.ndarray)
    np.testing.assert_allclose(np.stack(list(streamed)), whole, atol=1e-5)
    assert model.embed([]).shape == (0, 32)
    both = model.embed(TEXTS[:4], pooling=["first", "mean"], normalize=False)
    mean = model.embed(TEXTS[:4], pooling="mean", normalize=False)
    np.testing.assert_allclose(both[:, 32:], mean, atol=1e-6)


def test_decoders_and_encoder_decoders(tmp_path):
    """Of an encoder-decoder, the encoder's states; of a decoder, its own."""
    tokenizer = word_tokenizer(tmp_path, "a b c d e")
    t5 = gf.create("t5-small", tokenizer=tokenizer, vocab_size=tokenizer.size, d_model=16,
                   num_layers=2, num_heads=2, d_kv=8, d_ff=24)  # fmt: skip
    gpt = gf.create("gpt2", tokenizer=tokenizer, vocab_size=tokenizer.size, n_embd=16, n_layer=2,
                    n_head=2, n_positions=16)  # fmt: skip
    ids = torch.tensor([tokenizer.encode("b c d").ids])
    texts = ["b c d", "a", "e d c b a"]
    with torch.no_grad():
        states = t5.encode(ids)[0].mean(0), gpt(ids).last_hidden_state[0, -1]
    np.testing.assert_allclose(t5.embed(texts)[0], states[0], atol=1e-6)
    np.testing.assert_allclose(gpt.embed(texts, pooling="last")[0], states[1], atol=1e-6)


def test_prompts(tmp_path):
    """Words before a text; read and, if the model says so, not pooled."""
    tokenizer = word_tokenizer(tmp_path, "query : a b c")
    model = bert(tokenizer)
    prompts = {"query": "query : ", "document": ""}
    model.pooling = Pooling(prompts=prompts)
    plain = model.embed("query : a b")
    np.testing.assert_allclose(model.embed("a b", prompt="query"), plain, atol=1e-6)
    model.pooling = Pooling(prompts=prompts, skip_prompt=True)
    ids = torch.tensor([tokenizer.encode("query : a b").ids])
    with torch.no_grad():
        states = model(ids).last_hidden_state[0]
    assert len(states) == 6  # [CLS] query : a b [SEP]
    np.testing.assert_allclose(model.embed("a b", prompt="query"), states[3:].mean(0), atol=1e-6)
    with pytest.raises(GlassformerError, match="no prompt 'answer'; it has query, document"):
        model.embed("a", prompt="answer")


def test_the_command_line(command, folder, model, tmp_path):  # noqa: F811
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    words = ("embed", str(folder), "--file", str(tmp_path / "texts.txt"))
    code, shown, said = command(*words, "--out", str(tmp_path / "v.npy"))
    assert code == 0 and f"{len(TEXTS)} vectors of 32 numbers" in shown
    assert "1 texts were too long for the model" in said
    found = np.load(tmp_path / "v.npy", allow_pickle=False)
    np.testing.assert_allclose(found, model.embed(TEXTS), atol=1e-6)
    code, shown, _ = command(*words, "--json", "--pooling", "first", "--no-normalize")
    vectors = [json.loads(line)["vector"] for line in shown.splitlines()]
    wanted = model.embed(TEXTS, pooling="first", normalize=False)
    np.testing.assert_allclose(np.array(vectors), wanted, atol=1e-6)
    code, shown, _ = command("embed", str(folder), TEXTS[0])
    first = model.embed(TEXTS[0])[0]
    assert code == 0 and f"{first:.6f}" in shown and TEXTS[0] in shown


def test_bad_lines_are_skipped_and_nothing_is_lost(command, folder, tmp_path):  # noqa: F811
    rows = ['{"body": "a key"}', '{"body": ""}', '{"text": "no body"}', "{", '{"body": 3}']
    (tmp_path / "t.jsonl").write_text("\n".join(rows), "utf-8")
    out = tmp_path / "v.npy"
    words = ("embed", str(folder), "--file", str(tmp_path / "t.jsonl"), "--field", "body")
    code, _, said = command(*words, "--out", str(out))
    assert code == 1 and "t.jsonl:2" in said.replace("\n", "")
    assert [*tmp_path.glob("*.npy*")] == [tmp_path / "v.partial.npy"]  # what came before it
    assert np.load(tmp_path / "v.partial.npy").shape == (1, 32)
    out.write_bytes(b"mine")
    assert command(*words, "--out", str(out))[0] == 1 and out.read_bytes() == b"mine"
    code, _, said = command(*words, "--out", str(out), "--on-error", "skip", "--overwrite")
    assert code == 0 and np.load(out).shape == (1, 32) and "1 used, 4 skipped" in said


def test_a_matrix_is_whole_or_not_there(tmp_path):
    path = tmp_path / "m.npy"
    with pytest.raises(KeyboardInterrupt), whole_matrix(path, 3) as matrix:
        matrix.add(np.ones(3))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with whole_matrix(path, 3) as matrix:
        for number in range(1000):
            matrix.add(np.full(3, number))
    np.testing.assert_array_equal(np.load(path), np.arange(1000.0)[:, None].repeat(3, 1))
    with whole_matrix(path, 3):
        pass
    assert np.load(path).shape == (0, 3)
    with pytest.raises(GlassformerError, match=r"written as \.npy"), whole_matrix(tmp_path, 3):
        pass


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("", {}, "The text is empty"),
        (" \n", {}, "The text is empty"),
        ("a", {"pooling": "meen"}, "no pooling 'meen'"),
        ("a", {"max_length": 99}, "exceeds the model's 32 positions"),
        ("a \ud800 b", {}, "half a character"),
        (7, {}, "must be a str"),
    ],
)
def test_bad_input_is_named(model, text, how, said):
    with pytest.raises(GlassformerError, match=said):
        model.embed([text], **how)
