"""OpenAI's .pt file of a Whisper model is read as the folder that it was converted to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from openai_names import reference_of
from transformers.models.whisper import configuration_whisper
from whisper_tables import write_table

import glassformer as gf
from glassformer.text.speech import suppressed

DIMS = {"n_mels": 6, "n_vocab": 51864, "n_audio_ctx": 11, "n_audio_state": 16, "n_audio_head": 4,
        "n_audio_layer": 3, "n_text_ctx": 20, "n_text_state": 16, "n_text_head": 2,
        "n_text_layer": 2}  # fmt: skip


def tensors() -> dict[str, torch.Tensor]:
    """As OpenAI's class names and shapes them; random."""
    generator = torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.positional_embedding": (11, 16), "encoder.conv1.weight": (16, 6, 3),
        "encoder.conv1.bias": (16,), "encoder.conv2.weight": (16, 16, 3),
        "encoder.conv2.bias": (16,), "encoder.ln_post.weight": (16,), "encoder.ln_post.bias": (16,),
        "decoder.positional_embedding": (20, 16), "decoder.token_embedding.weight": (51864, 16),
        "decoder.ln.weight": (16,), "decoder.ln.bias": (16,),
    }  # fmt: skip
    for stack, layers in (("encoder", 3), ("decoder", 2)):
        parts = ("attn", "cross_attn") if stack == "decoder" else ("attn",)
        for block in (f"{stack}.blocks.{i}" for i in range(layers)):
            for part in parts:
                for matrix in ("query", "key", "value", "out"):
                    shapes[f"{block}.{part}.{matrix}.weight"] = (16, 16)
                    if matrix != "key":
                        shapes[f"{block}.{part}.{matrix}.bias"] = (16,)
            for norm in (*(f"{part}_ln" for part in parts), "mlp_ln"):
                shapes |= {f"{block}.{norm}.weight": (16,), f"{block}.{norm}.bias": (16,)}
            shapes |= {f"{block}.mlp.0.weight": (64, 16), f"{block}.mlp.0.bias": (64,)}
            shapes |= {f"{block}.mlp.2.weight": (16, 64), f"{block}.mlp.2.bias": (16,)}
    return {n: torch.randn(shape, generator=generator) / 4 for n, shape in shapes.items()}


@pytest.fixture
def path(tmp_path) -> Path:
    torch.save({"dims": DIMS, "model_state_dict": tensors()}, tmp_path / "small.pt")
    return tmp_path / "small.pt"


@torch.no_grad()
def test_equals_the_reference_with_the_same_tensors(path):
    model = gf.load(path)
    assert model.architecture == "WhisperForConditionalGeneration" and not model.load_report.made
    theirs = reference_of(model, tensors())
    sound = torch.randn(2, 6, 22, generator=torch.Generator().manual_seed(1))
    tokens = torch.arange(14).view(2, 7)
    expected = theirs(input_features=sound, decoder_input_ids=tokens).logits
    assert (
        float((model(decoder_input_ids=tokens, input_features=sound).logits - expected).abs().max())
        <= 1e-5
    )


def test_saved_it_is_a_folder_of_the_reference(path, tmp_path):
    model = gf.load(path)
    model.save(tmp_path / "folder")
    again = gf.load(tmp_path / "folder")
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True)
    )
    _, info = transformers.WhisperForConditionalGeneration.from_pretrained(
        tmp_path / "folder", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_on_a_cpu_it_is_float32(tmp_path):
    """OpenAI's files are of float16, in which a CPU takes ten times as long."""
    half = {name: tensor.half() for name, tensor in tensors().items()}
    torch.save({"dims": DIMS, "model_state_dict": half}, tmp_path / "small.pt")
    model = gf.load(tmp_path / "small.pt")
    assert model.load_report.dtypes == ("float32",)
    assert gf.load(tmp_path / "small.pt", dtype="float16").load_report.dtypes == ("float16",)
    weight = model.state_dict()["decoder.embed.token.weight"]
    assert torch.equal(weight, half["decoder.token_embedding.weight"].float())


def test_without_its_words_it_says_what_it_needs(path):
    model = gf.load(path)
    said = r"small\.pt needs gpt2\.tiktoken beside it, from .*openai-whisper"
    for write in (model.generate, lambda sound: list(model.stream(sound))):
        with pytest.raises(gf.GlassformerError, match=said):
            write(torch.zeros(6, 22))
    (path.parent / "vocab.txt").write_text("[UNK]\n")  # another model's
    with pytest.raises(gf.GlassformerError, match=said):
        gf.load(path).generate(torch.zeros(6, 22))
    write_table(path.parent, "multilingual.tiktoken")
    with pytest.raises(gf.GlassformerError, match=r"not made with multilingual.*put gpt2\.tikt"):
        gf.load(path)


def test_words_of_another_whisper_are_refused(path, tmp_path):
    (tmp_path / "many").mkdir()
    write_table(tmp_path / "many", "multilingual.tiktoken")
    gf.Tokenizer.load(tmp_path / "many").save(path.parent)
    with pytest.raises(gf.GlassformerError, match=r"is another model's: .* is not its token 50257"):
        gf.load(path)


@pytest.mark.parametrize(
    ("words", "table", "published"),
    [
        (51864, "gpt2.tiktoken", "NON_SPEECH_TOKENS"),
        (51865, "multilingual.tiktoken", "NON_SPEECH_TOKENS_MULTI"),
        (51866, "multilingual.tiktoken", "NON_SPEECH_TOKENS_MULTI"),
    ],
)
def test_of_two_tables_the_model_has_one(tmp_path, words, table, published):
    for name in ("gpt2.tiktoken", "multilingual.tiktoken"):
        write_table(tmp_path, name)
    (tmp_path / "small.pt").touch()
    tokenizer = gf.Tokenizer.load(tmp_path / "small.pt", size=words)
    assert tokenizer.size == words
    english = table == "gpt2.tiktoken"
    assert tokenizer.id("<|startoftranscript|>") == (50257 if english else 50258)
    if words < 51866:  # the reference's list is of the models with 99 languages; it lacks the tasks
        tasks = [tokenizer.id("<|translate|>"), tokenizer.id("<|transcribe|>")]
        expected = getattr(configuration_whisper, published)
        assert suppressed(tokenizer) == sorted([*expected, *tasks])
    with pytest.raises(gf.GlassformerError, match=r"both multilingual\.\w+ and gpt2\.tik"):
        gf.Tokenizer.load(tmp_path / "small.pt")


@torch.no_grad()
def test_it_writes_as_the_reference_with_the_published_settings(path, tmp_path):
    for name in ("gpt2.tiktoken", "multilingual.tiktoken"):
        write_table(path.parent, name)
    model = gf.load(path)
    settings = model.generation_config
    assert settings["begin_suppress_tokens"] == [220, 50256] and settings["max_length"] == 20
    model.save(tmp_path / "folder")
    assert gf.load(tmp_path / "folder").generation_config == settings
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "folder")
    sound = torch.randn(2, 6, 22, generator=torch.Generator().manual_seed(2))
    for heard in sound:
        expected = theirs.generate(heard[None], max_new_tokens=12)[0].tolist()
        found = model.generate(heard, max_new_tokens=12)
        assert found.tokens == expected and found.text
        assert not set(found.tokens) & set(settings["suppress_tokens"])


@pytest.mark.parametrize(("words", "start"), [(51864, 50257), (51865, 50258), (51866, 50258)])
def test_english_and_multilingual_models_start_differently(words, start):
    from glassformer.weights.formats.openai_whisper import config_of

    config = config_of({**DIMS, "n_vocab": words})
    assert config["decoder_start_token_id"] == start and config["eos_token_id"] == start - 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"weight": torch.zeros(2)}, "it is not OpenAI's Whisper"),
        ([1, 2], "it is not OpenAI's Whisper"),
        ({"dims": {**DIMS, "n_mels": "6"}, "model_state_dict": tensors()}, "no number for n_mels"),
        ({"dims": {**DIMS, "n_text_state": 32}, "model_state_dict": tensors()}, "two are equal"),
        ({"dims": {**DIMS, "n_mels": 7}, "model_state_dict": tensors()}, "conv1.weight has the sh"),
        ({"dims": {**DIMS, "n_text_layer": 1}, "model_state_dict": tensors()}, "By its metadata"),
    ],
)
def test_what_is_not_a_whisper_model_is_named(tmp_path, content, said):
    torch.save(content, tmp_path / "bad.pt")
    with pytest.raises(gf.GlassformerError, match=said):
        gf.load(tmp_path / "bad.pt")


def test_no_code_in_a_file_is_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"dims": DIMS, "model_state_dict": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(gf.GlassformerError, match="a pickle can run code"):
        gf.load(tmp_path / "trap.pt")
    assert not (tmp_path / "sprung").exists()
