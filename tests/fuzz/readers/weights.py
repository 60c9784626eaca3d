"""Files of tensors: safetensors, shards, pickles, GGUF, llama2.c, and Whisper's files."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import gguf
import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from glassformer.families import find_family
from glassformer.text import Tokenizer
from glassformer.weights.formats.gguf import GgufTensors
from glassformer.weights.formats.pickle import PickleFile
from glassformer.weights.formats.safetensors import SafetensorsFile
from glassformer.weights.formats.tensor_file import TensorFile
from glassformer.weights.load import LoadOptions, load_transformer, read_config
from glassformer.weights.save import published
from glassformer.weights.tensor_files import TensorFiles
from tests.fuzz.mutate import BYTES, change_json, flip_bit, put_number
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, SilentlyWrongError, reader
from tests.weights.ctranslate2_files import model, packed, variables

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).view(2, 3),
    "b.weight": torch.ones(4, 2, dtype=torch.float16),
    "c": torch.arange(5),
    "d": torch.tensor([1.5, -2.0]).bfloat16(),
    "e": torch.tensor([True, False]),
    "f": torch.zeros(0, 3),
}


def all_of(file: TensorFile) -> dict[str, Tensor]:
    """Reads each tensor mapped and copied."""
    found = {}
    for name, shape in file.shapes.items():
        mapped, copied = file.read(name, True), file.read(name, False)
        if tuple(mapped.shape) != shape or not same(mapped, copied):
            raise SilentlyWrongError(f"{name} differs if it is mapped")
        if copied.dtype != file.dtype(name):
            raise SilentlyWrongError(f"{name} is {copied.dtype}, not {file.dtype(name)}")
        found[name] = copied
    return found


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype == torch.bool:  # whose bytes may be others than 0 and 1
        return torch.equal(one, other)
    flat = (each.contiguous().view(-1).view(torch.uint8) for each in (one, other))
    return torch.equal(*flat)


def compare(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    if ours.keys() != theirs.keys():
        raise SilentlyWrongError(f"names {sorted(ours.keys() ^ theirs.keys())[:5]}")
    for name, tensor in ours.items():
        if not same(tensor, theirs[name]):
            raise SilentlyWrongError(f"{name} is not what the file holds")


# --- safetensors ---------------------------------------------------------------------------------


def read_safetensors(folder: Path) -> None:
    path = folder / "model.safetensors"
    compare(all_of(SafetensorsFile(path)), safetensors.torch.load(path.read_bytes()))


def change_safetensors(rng: Random, content: bytes) -> bytes:
    """Changes the header, and its size with it."""
    size = int.from_bytes(content[:8], "little")
    header = change_json(rng, content[8 : 8 + size])
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


@reader(
    "safetensors", read=read_safetensors, mutations={".safetensors": change_safetensors}, weight=3
)
def tensors() -> Iterator[Sample]:
    yield Sample({"model.safetensors": safetensors.torch.save(TENSORS, {"format": "pt"})})
    yield Sample({"model.safetensors": safetensors.torch.save({"x": torch.ones(1)})})


def read_shards(folder: Path) -> None:
    files = TensorFiles(folder)
    for name in files:
        files.read(name, True)


@reader("weight_map", read=read_shards)
def shards() -> Iterator[Sample]:
    halves = {"model-1.safetensors": ["a", "c"], "model-2.safetensors": ["d", "e"]}
    index = {"weight_map": {name: file for file, names in halves.items() for name in names}}
    files = {
        file: safetensors.torch.save({name: TENSORS[name] for name in names})
        for file, names in halves.items()
    }
    index_file = "model.safetensors.index.json"
    files[index_file] = json.dumps({"metadata": {"total_size": 80}, **index}).encode()
    yield Sample(files, (index_file,))


# --- pickles -------------------------------------------------------------------------------------


class Evil:
    """Unpickling it runs a program."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def read_pickle(folder: Path) -> None:
    path = folder / "pytorch_model.bin"
    ours = all_of(PickleFile(path))
    try:
        theirs = torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
    except Exception as error:
        raise SilentlyWrongError(f"PyTorch refuses the file: {error}") from None
    for key in ("state_dict", "model_state_dict", "model", "module"):
        theirs = theirs[key] if isinstance(theirs.get(key), dict) else theirs
    compare(ours, {str(name): t for name, t in theirs.items() if isinstance(t, Tensor)})


def change_zip(rng: Random, content: bytes) -> bytes:
    """Changes one file of the archive, with a valid checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([*parts, *(name for name in parts if name.endswith(".pkl"))])
    parts[name] = rng.choice(BYTES)(rng, parts[name])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    return file.getvalue()


@reader("bin (pickle)", read=read_pickle, mutations={".bin": change_zip}, weight=3)
def pickles() -> Iterator[Sample]:
    states: list[Any] = [TENSORS, {"state_dict": TENSORS, "epoch": 3, "optimizer": {"lr": [0.1]}}]
    states += [{"x": torch.ones(2), "y": Evil(os.system, "touch executed")}]
    states += [{"x": torch.ones(2), "y": Evil(eval, "open('executed', 'w')")}]
    for state in states:
        for zipped in (True, False):
            file = io.BytesIO()
            torch.save(state, file, _use_new_zipfile_serialization=zipped)
            yield Sample({"pytorch_model.bin": file.getvalue()})
    yield Sample({"pytorch_model.bin": pickle.dumps(Evil(os.system, "touch executed"))})


# --- a whole checkpoint in one file --------------------------------------------------------------


def load_single(path: Path) -> None:
    config = read_config(path)
    load_transformer(path, config, LoadOptions())


def read_gguf(folder: Path) -> None:
    path = folder / "a.gguf"
    file = GgufTensors(path)
    ours = {name: file.read(name, False) for name in file.entries}
    theirs = independent(path)
    if theirs is not None:
        compare(ours, theirs)
    load_single(path)
    if "tokenizer.ggml.model" in file.metadata:
        Tokenizer.load(path).encode("Time flies.")


def independent(path: Path) -> dict[str, Tensor] | None:
    """Returns what llama.cpp's package reads; None if it fails, as at names that are not UTF-8."""
    found = {}
    try:
        for each in gguf.GGUFReader(path).tensors:
            values = gguf.quants.dequantize(each.data, each.tensor_type)
            shape = tuple(int(size) for size in each.shape[::-1])
            found[each.name] = torch.from_numpy(np.array(values, np.float32)).view(shape)
    except Exception:
        return None
    return found


def change_numbers(rng: Random, content: bytes) -> bytes:
    return rng.choice((put_number, put_number, flip_bit))(rng, content)


@reader("gguf", read=read_gguf, mutations={".gguf": change_numbers}, weight=3)
def ggufs() -> Iterator[Sample]:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[2] / "weights"))
    import gguf_files

    import glassformer as gf

    config = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16, "n_inner": 32,
              "vocab_size": 264}  # fmt: skip
    gpt2 = gf.create("gpt2", seed=1, **config)
    for kind in (gguf_files.Type.F16, gguf_files.Type.Q8_0, gguf_files.Type.Q4_0):
        files = _made.written(
            lambda folder, kind=kind: gguf_files.write_model(
                folder / "a.gguf", gpt2, kind, tokenizer=kind is gguf_files.Type.F16
            )
        )
        yield Sample(files)


def read_llama2c(folder: Path) -> None:
    load_single(folder / "a.bin")
    if (folder / "tokenizer.bin").is_file():
        Tokenizer.load(folder / "a.bin").encode("Time")


@reader("llama2c", read=read_llama2c, mutations={".bin": change_numbers})
def llama2c() -> Iterator[Sample]:
    width, inner, layers, heads, keys, words, length = 8, 8, 1, 2, 1, 262, 4
    numbers = struct.pack("<7i", width, inner, layers, heads, keys, words, length)
    count = words * width + width + layers * (2 * width + 2 * width * width + 2 * 4 * width)
    count += layers * 3 * inner * width + 2 * length * 2
    content = numbers + np.zeros(count, np.float32).tobytes()
    pieces = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % i for i in range(256)), b" ", b"T", b"i"]
    table = struct.pack("<i", 6)
    table += b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))
    yield Sample({"a.bin": content})
    yield Sample({"a.bin": content, "tokenizer.bin": table}, ("tokenizer.bin",))


def read_consolidated(folder: Path) -> None:
    loaded = load_transformer(folder, read_config(folder), LoadOptions())
    with torch.no_grad():
        output = loaded.transformer(torch.arange(4)[None])
    if output.logits.shape[:2] != (1, 4):
        raise SilentlyWrongError(f"logits of {tuple(output.logits.shape)}")


CONSOLIDATED = {".safetensors": change_safetensors, ".pth": change_zip}


@reader("consolidated", read=read_consolidated, mutations=CONSOLIDATED, weight=3)
def consolidated() -> Iterator[Sample]:
    """As Meta and Mistral publish them: params.json, and tensors of other names."""
    width, inner, words = 16, 24, 30
    sizes = {"attention.wq": (16, 16), "attention.wk": (8, 16), "attention.wv": (8, 16),
             "attention.wo": (16, 16), "feed_forward.w1": (inner, width),
             "feed_forward.w2": (width, inner), "feed_forward.w3": (inner, width),
             "attention_norm": (width,), "ffn_norm": (width,)}  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {f"layers.0.{name}": s for name, s in sizes.items()}
    shapes |= {"tok_embeddings": (words, width), "norm": (width,), "output": (words, width)}
    draw = torch.Generator().manual_seed(0)
    tensors = {f"{n}.weight": torch.randn(s, generator=draw) / 4 for n, s in shapes.items()}
    params = {"dim": width, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5,
              "vocab_size": -1, "multiple_of": 8, "rope_theta": 10000.0}  # fmt: skip
    mistral = {**params, "head_dim": 4, "hidden_dim": inner, "sliding_window": 3}
    yield Sample({"params.json": json.dumps(mistral).encode(),
                  "consolidated.safetensors": safetensors.torch.save(tensors)})  # fmt: skip
    parts = {}
    for part in range(2):
        own = {}
        for name, tensor in tensors.items():
            axis = None if tensor.ndim == 1 else int("wo" in name or "w2" in name)
            own[name] = (tensor if axis is None else tensor.chunk(2, axis)[part]).clone()
        file = io.BytesIO()
        torch.save(own, file)
        parts[f"consolidated.{part:02}.pth"] = file.getvalue()
    yield Sample({"params.json": json.dumps(params).encode(), **parts})


def read_whisper(folder: Path) -> None:
    load_single(folder / "a.pt")


@reader("whisper .pt", read=read_whisper, mutations={".pt": change_zip})
def whisper() -> Iterator[Sample]:
    import glassformer as gf

    model = gf.create("whisper-tiny", seed=1, d_model=8, encoder_layers=1, decoder_layers=1,
                      encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
                      decoder_ffn_dim=32, max_source_positions=6, max_target_positions=5,
                      num_mel_bins=4, vocab_size=51864)  # fmt: skip
    state = published(model, find_family(model.config), model.architecture)
    dims = {"n_mels": 4, "n_vocab": 51864, "n_audio_ctx": 6, "n_audio_state": 8, "n_audio_head": 2,
            "n_audio_layer": 1, "n_text_ctx": 5, "n_text_state": 8, "n_text_head": 2,
            "n_text_layer": 1}  # fmt: skip
    words = {
        "model.": "", "layers": "blocks", "fc1": "mlp.0", "fc2": "mlp.2",
        "encoder_attn_layer_norm": "cross_attn_ln", "self_attn_layer_norm": "attn_ln",
        "final_layer_norm": "mlp_ln", "encoder_attn": "cross_attn", "self_attn": "attn",
        "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out",
        "decoder.layer_norm": "decoder.ln", "encoder.layer_norm": "encoder.ln_post",
        "embed_tokens": "token_embedding", "embed_positions.weight": "positional_embedding",
    }  # fmt: skip
    renamed = {}
    for name, tensor in state.items():
        for theirs, ours in words.items():
            name = name.replace(theirs, ours)
        renamed[name] = tensor.detach().half().clone()
    renamed.pop("proj_out.weight", None)
    file = io.BytesIO()
    torch.save({"dims": dims, "model_state_dict": renamed}, file)
    yield Sample({"a.pt": file.getvalue()})


def change_variable(rng: Random, content: bytes) -> bytes:
    """Changes a byte of the part that has names, shapes and sizes, or cuts the file."""
    data = bytearray(content)
    if rng.random() < 0.2:
        return bytes(data[: rng.randrange(len(data))])
    name = rng.choice((b"encoder/conv1/weight", b"decoder/num_heads", b"layer_0/ffn/linear_0"))
    at = data.find(name) + rng.randrange(len(name) + 24)
    data[at] = rng.choice((0, 1, 2, 5, 7, 127, 255))
    return bytes(data)


def read_ctranslate2(folder: Path) -> None:
    load_single(folder / "model.bin")


@reader("CTranslate2", read=read_ctranslate2, mutations={".bin": change_variable})
def ctranslate2() -> Iterator[Sample]:
    made = model()
    state = published(made, find_family(made.config), made.architecture)
    for quantized in (False, True):
        content = packed(variables({n: t.detach() for n, t in state.items()}, quantized))
        yield Sample({"model.bin": content})
