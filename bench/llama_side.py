"""llama.cpp's side of generate.py: a Llama of random weights in blocks of 4 bits, written as a GGUF
file and run through llama.cpp's own interface. Needs llama-cpp-python, gguf and numpy alone."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_gguf(path: Path, config: dict[str, Any], kind: str, context: int) -> None:
    """Every matrix in `kind`, the table of tokens too, which is the head as well."""
    import gguf
    import numpy as np

    width, inner = config["hidden_size"], config["intermediate_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    layers, vocabulary = config["num_hidden_layers"], config["vocab_size"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("none")
    draw = np.random.default_rng(0)

    def matrix(name: str, rows: int, columns: int) -> None:
        form = getattr(gguf.GGMLQuantizationType, kind)
        numbers = draw.normal(0, 0.02, (rows, columns)).astype(np.float32)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(numbers, form), raw_dtype=form)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))

    matrix("token_embd", vocabulary, width)
    norm("output_norm")
    keys = width // heads * groups
    for i in range(layers):
        norm(f"blk.{i}.attn_norm")
        norm(f"blk.{i}.ffn_norm")
        for part, rows in (("q", width), ("k", keys), ("v", keys), ("output", width)):
            matrix(f"blk.{i}.attn_{part}", rows, width)
        matrix(f"blk.{i}.ffn_gate", inner, width)
        matrix(f"blk.{i}.ffn_up", inner, width)
        matrix(f"blk.{i}.ffn_down", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(
    config: dict[str, Any], kind: str, context: int, new: int
) -> tuple[Callable[[list[list[int]]], list[int]], int]:
    """And the file's size, all of which a step reads."""
    import llama_cpp as cpp

    path = Path(tempfile.mkdtemp()) / "model.gguf"
    write_gguf(path, config, kind, context)
    cpp.llama_backend_init()
    model = cpp.llama_model_load_from_file(str(path).encode(), cpp.llama_model_default_params())
    settings = cpp.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = context, 2, 2
    state = cpp.llama_init_from_model(model, settings)
    greedy = cpp.llama_sampler_init_greedy()

    def run(prompts: list[list[int]]) -> list[int]:
        (prompt,) = prompts
        cpp.llama_memory_clear(cpp.llama_get_memory(state), True)
        given, made = prompt, []
        for _ in range(new):
            tokens = (ctypes.c_int32 * len(given))(*given)
            failed = cpp.llama_decode(state, cpp.llama_batch_get_one(tokens, len(given)))
            assert not failed
            given = [cpp.llama_sampler_sample(greedy, state, -1)]
            made += given
        return made

    return run, path.stat().st_size
