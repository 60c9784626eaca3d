"""Steps on matrices that processes share equal steps on whole ones. `python split_steps.py WORLD
CASE ...`: two processes share a layer's matrices, and if there are more, the rows."""

from __future__ import annotations

import sys
from functools import partial

import torch
from feeds import Rows
from together import forked

import glassformer as gf
from glassformer.text import train as train_tokenizer
from glassformer.train.distributed import find_worker, init_distributed
from glassformer.train.loop import TrainingLoop
from glassformer.train.objectives import make_objective, objective_names
from glassformer.train.objectives.registry import find_objective
from glassformer.train.recipe import Recipe, read_recipe

TEXT = "the cat sat on the mat and the dog sat on the log while the sun went down. " * 8
ROLES = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
CASES = {
    "gpt2": (
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
        | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        "causal-lm",
    ),
    "llama-3.2-1b": (
        {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 4}
        | {"num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32},
        "causal-lm",
    ),
    "qwen3-0.6b": (  # norms of queries and keys, which all heads share
        {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 4}
        | {"num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32},
        "causal-lm",
    ),
    "bert-base": (
        {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"intermediate_size": 32, "max_position_embeddings": 32, "hidden_dropout_prob": 0.0}
        | {"attention_probs_dropout_prob": 0.0, "architectures": ["BertForMaskedLM"]},
        "masked-lm",
    ),
    "t5-small": (
        {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4}
        | {"dropout_rate": 0.0, "is_gated_act": True},
        "sequence-to-sequence",
    ),
}


def loop_of(case: str, recipe: Recipe, worker) -> TrainingLoop:
    sizes, objective_name = CASES[case]
    tokenizer = train_tokenizer("char", texts=[TEXT], special_tokens=ROLES)
    size = {"vocab_size": tokenizer.size}
    model = gf.create(case, 3, tokenizer=tokenizer, **sizes, **size)
    objective = make_objective(objective_name, model, {})
    texts = [TEXT[i : i + 15] for i in range(0, 300, 15)]
    records = [{"text": text, "source": text, "target": text[::-1]} for text in texts]
    rows = [example for record in records for example in objective.prepare(record)]
    return TrainingLoop(recipe, model, objective, Rows(objective, rows, [], recipe.train), worker)


def main(cases: list[str], rank: int) -> int:
    said = {
        "max_steps": 4,
        "batch_size": 4,
        "gradient_accumulation_steps": 2,
        "learning_rate": 0.01,
        "eps": 1e-3,
    }
    tables = {
        "model": {"preset": "gpt2"},
        "data": {"train": "unread.txt"},
        "train": {**said, "warmup_steps": 1, "max_grad_norm": 0.5, "ema_decay": 0.5},
        "scale": {"device": "cpu", "tensor_parallel_size": 2, "parallel": "fsdp"},
    }
    recipe = read_recipe(tables)
    with init_distributed("cpu", recipe.scale) as worker:
        for case in cases:
            alone, split = loop_of(case, recipe, find_worker("cpu")), loop_of(case, recipe, worker)
            rows = split.data.batches
            split.data.batches = lambda step, rows=rows: shares(rows(step), worker)
            for _ in range(4):
                one, other = alone.train_step(), split.train_step()
                assert torch.allclose(one.grad_norm, other.grad_norm, atol=1e-5), case
            whole = alone.checkpoint.tensors()
            for name, tensor in split.checkpoint.tensors().items():
                weight = name.partition(".")[2]
                weight = weight.rpartition(".")[0] if name.startswith("optimizer") else weight
                full = split.shard_plan.plain(weight, tensor) if tensor.ndim else tensor
                difference = float((full - whole[name]).abs().max())
                assert difference < 1e-6, f"{case}: {name} differs by {difference}"
            ups = [n for n, p in split.module.named_parameters() if n.endswith("ffn.up.weight")]
            assert ups and all(
                split.module.get_parameter(n).to_local().numel() * worker.world_size
                == split.module.get_parameter(n).numel()
                for n in ups
            )
    return 0


def shares(batches, worker):
    """Of rows that every process has made, its own."""
    for batch in batches:
        for part in (batch.inputs, batch.targets):
            for key, tensor in part.items():
                size = len(tensor) // worker.data_parallel_size
                part[key] = tensor[worker.data_rank * size : (worker.data_rank + 1) * size]
        batch.counts = {
            key: value / worker.data_parallel_size for key, value in batch.counts.items()
        }
        batch.tokens //= worker.data_parallel_size
    return batches


if __name__ == "__main__":
    for name in objective_names():  # imported once, before processes are forked
        find_objective(name)
    if any(forked(int(sys.argv[1]), partial(main, sys.argv[2:]))):
        sys.exit("they differ")
