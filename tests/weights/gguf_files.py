"""Small GGUF files for tests: our models as llama.cpp's converter would write them.

Names come from the `gguf` package's own map, so that they do not rest on our tables.
"""

from __future__ import annotations

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from tokenizers.pre_tokenizers import ByteLevel

from glassformer.families import find_family
from glassformer.weights.save import published

LLAMA = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 264,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5}  # fmt: skip
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "n_inner": 96,
        "vocab_size": 264}  # fmt: skip


def write(path, architecture, keys, tensors, tokenizer=None):
    """`keys` by name, None to leave one out; `tensors` as (bytes or values, type)."""
    writer = gguf.GGUFWriter(path, architecture)
    if tokenizer is not None:
        tokenizer(writer)
    for key, value in keys.items():
        if value is not None:
            add(writer, key, value)
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer, key, value):
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32,
             str: writer.add_string, list: writer.add_array}  # fmt: skip
    writer.kv_data[0].pop(key, None)
    kinds[type(value)](key, value)


def write_model(path, model, kind=Type.F32, *, keys=(), extra=(), replace=(), tokenizer=False):
    architecture = model.config["model_type"]
    metadata = {"llama": llama_keys, "gpt2": gpt2_keys}[architecture](model)
    tensors = {}
    for name, values in converted(model).items():
        # as the converter does, vectors stay as they are
        stored = kind if values.ndim > 1 else Type.F32
        tensors[name] = gguf.quants.quantize(values, stored), stored
    tensors |= {name: (values, Type.F32) for name, values in dict(extra).items()}
    tensors |= dict(replace)
    return write(
        path,
        architecture,
        {**metadata, **dict(keys)},
        tensors,
        tokenizer=add_tokenizer if tokenizer else None,
    )


def converted(model):
    """Our tensors, with the converter's names and in its form."""
    kinds = {"llama": gguf.MODEL_ARCH.LLAMA, "gpt2": gguf.MODEL_ARCH.GPT2}
    kind = kinds[model.config["model_type"]]
    names = gguf.get_tensor_name_map(kind, len(model.spec.decoder.blocks))
    tensors = {}
    attention = model.spec.decoder.blocks[0].attention
    heads = {"q_proj": attention.heads, "k_proj": attention.key_heads}
    family = find_family(model.config)
    for name, tensor in published(model, family, model.architecture).items():
        values = np.ascontiguousarray(tensor.numpy(force=True))
        module = name.split(".")[-2]
        if module in ("c_attn", "c_proj", "c_fc") and values.ndim == 2:
            values = values.T.copy()
        if module in heads:
            shape = values.shape
            values = values.reshape(heads[module], 2, -1, *shape[1:]).swapaxes(1, 2).reshape(shape)
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new is not None, name
        tensors[new] = np.ascontiguousarray(values)
    return tensors


def llama_keys(model):
    config = model.config
    return {
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": 10_000.0,
        "llama.rope.dimension_count": config["hidden_size"] // config["num_attention_heads"],
        "llama.vocab_size": config["vocab_size"],
    }


def gpt2_keys(model):
    config = model.config
    return {
        "gpt2.context_length": config["n_positions"],
        "gpt2.embedding_length": config["n_embd"],
        "gpt2.block_count": config["n_layer"],
        "gpt2.feed_forward_length": config["n_inner"],
        "gpt2.attention.head_count": config["n_head"],
        "gpt2.attention.layer_norm_epsilon": 1e-5,
    }


def byte_pairs():
    """Tokens, their kinds and merges: all bytes, a few pairs, and some special tokens."""
    merges = ["a b", "Ġ b", "Ġb a", "1 2"]
    tokens = ["<|endoftext|>", *sorted(ByteLevel.alphabet())]
    tokens += [merge.replace(" ", "") for merge in merges]
    tokens += ["<|im_start|>", "<tool>", "unused"]
    normal = gguf.TokenType.NORMAL
    kinds = [gguf.TokenType.CONTROL, *[normal] * (len(tokens) - 4)]
    kinds += [gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED, gguf.TokenType.UNUSED]
    return tokens, [int(kind) for kind in kinds], merges


def add_tokenizer(writer):
    tokens, kinds, merges = byte_pairs()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
