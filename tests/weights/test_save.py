from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import glassformer as gf
from glassformer.weights import save as saving


def test_an_interrupted_save_changes_nothing(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "save_file", fail)
    with pytest.raises(
        gf.GlassformerError, match=r"No space left on device.*nothing there has changed"
    ):
        gf.create("gpt2", seed=2, n_embd=16, n_head=2, n_layer=1, vocab_size=9).save(folder.path)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
    assert [path.name for path in folder.path.parent.iterdir()] == [folder.path.name]


def test_saving_over_the_folder_that_the_weights_are_mapped_from(folder):
    model = gf.load(folder.path)
    with torch.no_grad():
        model.decoder.embed.token.weight.mul_(2)
    model.save(folder.path)
    assert torch.equal(
        load_file(folder.weights)["transformer.wte.weight"], model.decoder.embed.token.weight
    )
    again = gf.load(folder.path)
    tokens = torch.arange(6)[None]
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, model(tokens).logits)


def test_old_shards_do_not_stay_behind(folder):
    folder.model.save(folder.path, shard_bytes=6000)
    folder.model.save(folder.path)
    assert sorted(p.name for p in folder.path.iterdir()) == ["config.json", "model.safetensors"]


def test_other_files_in_the_folder_stay(folder):
    (folder.path / "README.md").write_text("mine")
    folder.model.save(folder.path)
    assert (folder.path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generation_config.json", '{"max_new_tokens": 3}'),
        ("modules.json", "[]"),
        ("chat_template.jinja", "{{ messages }}"),
        ("additional_chat_templates/tool.jinja", "{{ messages }}"),
        ("special_tokens_map.json", '{"bos_token": "a"}'),
        ("added_tokens.json", '{"<new>": 900}'),
        ("config.json", '{"port": 8080}'),
        ("config.json", "[1, 2]"),
    ],
)
def test_a_file_that_would_be_read_with_the_model_is_named(folder, tmp_path, name, content):
    """It stays, because it may be the user's, and the saved model would be another."""
    tokenizer = gf.text.train("char", texts=["a b c"])
    model = gf.create("gpt2", tokenizer=tokenizer, vocab_size=tokenizer.size, n_embd=16, n_head=2,
                      n_layer=1)  # fmt: skip
    path = tmp_path / "there" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(gf.GlassformerError, match=rf"{path.name} .*save into another folder\.$"):
        model.save(tmp_path / "there")
    assert path.read_text() == content
    assert [one for one in (tmp_path / "there").rglob("*") if one.is_file()] == [path]


def test_old_side_files_that_say_the_same_may_stay(folder, tmp_path):
    tokenizer = gf.text.train("char", texts=["a b c"])
    tokenizer.save(tmp_path)
    roles = {f"{role}_token": {"content": tokenizer.token(id)} for role, id in
             tokenizer.special.items()}  # fmt: skip
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    gf.Tokenizer.load(tmp_path).save(tmp_path)
    assert gf.Tokenizer.load(tmp_path).special == tokenizer.special


def test_a_file_in_the_way_is_named(folder):
    with pytest.raises(gf.GlassformerError, match=r"model\.safetensors is a file"):
        folder.model.save(folder.weights)


def test_a_place_that_cannot_be_written_is_named(folder):
    with pytest.raises(gf.GlassformerError, match=r"cannot be written \("):
        folder.model.save(folder.weights / "below")


def test_a_model_of_no_family_is_saved_by_its_spec(tmp_path):
    from glassformer import spec

    block = spec.BlockSpec(
        attention=spec.AttentionSpec(heads=2, kv_heads=1, head_dim=8, score="additive"),
        ffn=spec.FeedForwardSpec(width=20, gated=True),
        norm=spec.NormSpec(kind="batch"),
        placement="sandwich",
        position=spec.ShawSpec(max_distance=4),
        pattern=spec.AttentionPattern(left=5, right=5, dilation=2),
    )
    model = spec.ModelSpec(
        encoder=spec.StackSpec(
            width=16,
            embed=spec.TokenEmbeddingSpec(vocabulary=30, embedding_size=6, languages=2),
            blocks=(block,),
            order=(0, 0),
        ),
        heads=(spec.HeadSpec(name="tag", num_outputs=4),),
        labels=("a", "b", "c", "d"),
    )
    made = gf.create(model, seed=5)
    made.save(tmp_path / "own")
    loaded = gf.load(tmp_path / "own")
    assert loaded.spec == model
    tokens = torch.randint(30, (2, 7))
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, made(tokens).logits)


def test_numbers_in_half_the_bytes(folder, tmp_path):
    """The file is of another type, the model stays as it is; ours and the reference read it."""
    model = gf.load(folder.path)
    model.save(tmp_path / "half", dtype=torch.bfloat16)
    assert model.decoder.embed.token.weight.dtype == torch.float32
    kept = load_file(tmp_path / "half" / "model.safetensors")
    for name, tensor in load_file(folder.weights).items():
        assert torch.equal(kept[name], tensor.to(torch.bfloat16))
    assert gf.load(tmp_path / "half").decoder.embed.token.weight.dtype == torch.bfloat16
    transformers = pytest.importorskip("transformers")
    read = transformers.AutoModelForCausalLM.from_pretrained
    assert read(tmp_path / "half").dtype == torch.bfloat16
    theirs = read(tmp_path / "half", dtype=torch.float32)
    tokens = torch.arange(6)[None]
    with torch.no_grad():
        said = gf.load(tmp_path / "half", dtype="float32")(tokens).logits
        torch.testing.assert_close(said, theirs(tokens).logits)
    with pytest.raises(gf.GlassformerError, match="saved as they are; leave `dtype` out"):
        model.quantize("int8").save(tmp_path / "codes", dtype=torch.bfloat16)
