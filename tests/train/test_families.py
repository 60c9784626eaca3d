"""Every family trains: the loss of one batch falls, through the recipe's model and the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassformer.families import classes_of, families, spec_from_config
from glassformer.model import Model
from glassformer.spec import AudioFramesSpec, MemoryHopSpec, ModelSpec, PatchEmbeddingSpec
from glassformer.text import train as train_tokenizer
from glassformer.train.batches.collate import runs_of
from glassformer.train.build_model import build_model, config_of
from glassformer.train.distributed import find_worker
from glassformer.train.loop import TrainingLoop
from glassformer.train.objectives import Objective, TrainingBatch, make_objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Rows
from glassformer.train.recipe import ModelSettings, read_recipe
from glassformer.weights.initialize import initial_value
from glassformer.weights.load import assign_tensor, tie_weights
from glassformer.weights.mapping import build_transformer, tied_names

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
TEXT = f"{LETTERS} the cat sat on the mat and the dog sat on the log."
SPECIAL = {"mask": "<mask>", "cls": "<cls>", "sep": "<sep>"}
RECORDS = {
    "causal-lm": [{"text": TEXT}, {"text": TEXT[::-1]}],
    "permutation-lm": [{"text": TEXT}],
    "masked-lm": [{"text": TEXT}, {"text": TEXT[::-1]}],
    "replaced-token": [{"text": TEXT}],
    "sequence-to-sequence": [
        {"source": TEXT[62:], "target": "two sat"},
        {"source": "the cat", "target": "sat on the mat"},
    ],
    "classification": [
        {"text": "the cat", "label": "LABEL_0"},
        {"text": "the dog", "label": "LABEL_1"},
    ],
}


def fitting(spec: ModelSpec) -> str | None:
    """The objective for a model of this kind, by what it has."""
    names = {head.name for head in spec.heads}
    first = (spec.encoder or spec.last_stack).embed
    if isinstance(first, AudioFramesSpec | PatchEmbeddingSpec) or isinstance(
        spec.last_stack.blocks[0], MemoryHopSpec
    ):
        return "plain" if {"lm", "classify", "answer"} & names else None
    if "replaced" in names:
        return "replaced-token"
    if "lm" in names and spec.encoder is not None and spec.decoder is not None:
        return "sequence-to-sequence"
    if "lm" in names and first.has_query_stream:
        return "permutation-lm"
    if "lm" in names:
        return "causal-lm" if spec.decoder is not None else "masked-lm"
    return "classification" if "classify" in names else None


def choose(model_type: str) -> tuple[str, str]:
    family = families()[model_type]
    for architecture in classes_of(family, model_type):
        config = {"model_type": model_type, **family.TINY[0]}
        objective = fitting(spec_from_config(config, architecture))
        if objective is not None:
            return architecture, objective
    raise AssertionError(f"no class of {model_type} can be trained")


def make(model_type: str, architecture: str) -> Model:
    """As a recipe makes it, of the family's TINY config in place of its preset's."""
    family = families()[model_type]
    tiny = {k: v for k, v in family.TINY[0].items() if not k.endswith("token_id")}
    tiny.pop("vocab_size", None)
    presets = [
        name
        for name, (known, _) in family.PRESETS.items()
        if known in classes_of(family, model_type)
    ]
    if presets:
        settings = {"preset": presets[0], "architecture": architecture, "config": tiny}
        recipe = read_recipe(
            {
                "model": settings,
                "tokenizer": {"type": "char", "special_tokens": SPECIAL},
                "data": {"train": "unread"},
            }
        )
        return build_model(recipe, lambda: [TEXT])
    config = {"model_type": model_type, **family.TINY[0], "architectures": [architecture]}
    model = build_transformer(spec_from_config(config, architecture))
    for name, *_ in tied_names(model):
        assign_tensor(model, name, initial_value(model, name, 0))
    tie_weights(model)
    tokenizer = train_tokenizer("char", texts=[TEXT])
    return Model(model, config, architecture, tokenizer=tokenizer)


class Plain(Objective):
    """For what reads no text: right answers drawn for random sounds, images and stories."""

    fields: ClassVar = {}

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.weights = {"plain": 1.0}
        self.spec = model.spec

    def prepare(self, record):
        return []

    def collate(self, examples):
        draw, spec = torch.Generator().manual_seed(1), self.spec
        first = (spec.encoder or spec.last_stack).embed
        if isinstance(first, PatchEmbeddingSpec):
            shape = (4, first.channels, *first.image_size)
            inputs = {"pixel_values": torch.randn(shape, generator=draw)}
        elif isinstance(first, AudioFramesSpec):
            frames = 2 * first.position.length
            inputs = {
                "input_features": torch.randn(4, first.num_mel_bins, frames, generator=draw),
                "decoder_input_ids": torch.randint(50, (4, 5), generator=draw),
            }
        else:
            inputs = {
                "input_ids": torch.randint(1, 50, (4, 5), generator=draw),
                "memory_tokens": torch.randint(1, 50, (4, 3, 6), generator=draw),
            }
        return TrainingBatch(inputs, {"seed": torch.tensor(2)}, {"plain": 4.0}, 4)

    def forward(self, model, batch):
        logits = model(**batch.inputs).logits
        logits = logits.reshape(-1, logits.shape[-1])
        right = torch.arange(len(logits)) % logits.shape[-1]
        return {"plain": F.cross_entropy(logits, right, reduction="sum")}


class OneBatch:
    """The same rows in every step, with the same masks."""

    has_few_shapes = True
    held_out_splits, tokens_per_epoch, steps_per_epoch = frozenset(), 1, 1.0

    def __init__(
        self, objective: Objective, records: list[dict], length: int, on_gpu: bool = False
    ) -> None:
        examples = [example for record in records for example in objective.prepare(record)]
        if objective.batching == "concatenate":
            cut = length + objective.beyond
            examples = [{k: v[:cut] for k, v in example.items()} for example in examples]
        draws = RowRandom.of(0, rows=np.arange(len(examples)))
        self.batch = objective.collate(objective.vary(Rows.of(examples), draws))
        self.batch.inputs |= runs_of(self.batch.inputs) if on_gpu else {}

    def relative_length(self, tokens):
        return 1.0

    def batches(self, step):
        return [self.batch]


@pytest.mark.parametrize("model_type", [kind for kind, family in families().items() if family.TINY])
def test_the_loss_falls(model_type):
    architecture, name = choose(model_type)
    model = make(model_type, architecture)
    objective = Plain(model) if name == "plain" else make_objective(name, model, {})
    feed = OneBatch(objective, RECORDS.get(name, []), 24)
    settings = {
        "max_steps": 12,
        "learning_rate": 0.01,
        "warmup_steps": 0,
        "lr_scheduler": "constant",
    }
    recipe = read_recipe(
        {"model": {"preset": "gpt2"}, "data": {"train": "unread"}, "train": settings}
    )
    loop = TrainingLoop(recipe, model, objective, feed, find_worker("cpu"))
    model.eval()
    losses = []
    for _ in range(12):
        losses.append(loop.log_entry(loop.train_step())["loss"])
    assert np.isfinite(losses).all()
    assert min(losses[-3:]) < 0.9 * losses[0], losses


@pytest.mark.parametrize(
    "model_type", [t for t, f in families().items() if f.TINY and choose(t)[1] != "plain"]
)
def test_offsets_agree_with_what_the_last_stack_reads(model_type):
    """A GPU reads `cu_seqlens` in place of masks; wrong ones end elsewhere than the batch."""
    architecture, name = choose(model_type)
    model = make(model_type, architecture).eval()
    objective = make_objective(name, model, {})
    batch = OneBatch(objective, RECORDS[name], 24).batch
    with torch.no_grad():
        plain = objective(model, batch)
        offsets = replace(batch, inputs=batch.inputs | runs_of(batch.inputs))
        found = objective(model, offsets)
    assert {part: float(loss) for part, loss in found.items()} == pytest.approx(
        {part: float(loss) for part, loss in plain.items()}
    )


def test_the_size_words_mean_something_for_every_preset():
    """As many layers, as wide, with as many heads, as was asked for."""
    for model_type, family in families().items():
        for preset, (architecture, _) in family.PRESETS.items():
            if architecture not in classes_of(family, model_type):
                continue
            config = {**_preset(preset), **config_of(ModelSettings(preset=preset), None)}
            whole = spec_from_config(config, architecture)
            words = {"num_layers": 4, "dropout": 0.25}
            if whole.last_stack.attention_blocks:
                words |= {"hidden_size": 64, "num_heads": 4}
            if model_type in ("awd-lstm", "lstm", "cnn", "memory-network"):
                words = {"num_layers": 4}
            if model_type == "gptj":  # which rotates so many dimensions of a head
                words["config"] = {"rotary_dim": 16}
            settings = config_of(ModelSettings(preset=preset, **words), None)
            spec = spec_from_config({**_preset(preset), **settings}, architecture)
            assert len(spec.last_stack.order) == 4, preset
            for block in spec.last_stack.attention_blocks:
                assert (spec.last_stack.width, block.attention.heads) == (64, 4), preset
                assert block.attention.heads * block.attention.head_dim == 64, preset


def _preset(name: str) -> dict:
    from glassformer.families import find_preset

    return find_preset(name)


@pytest.mark.parametrize(
    "model_type", ["t5", "deberta", "llama", "transfo-xl", "albert", "awd-lstm"]
)
def test_layers_that_are_computed_again_learn_the_same(model_type):
    """Also where layers share what the first of them has worked out."""
    architecture, name = choose(model_type)
    lengths = []
    for again in (False, True):
        model = make(model_type, architecture)
        objective = make_objective(name, model, {})
        feed = OneBatch(objective, RECORDS[name], 24)
        recipe = read_recipe(
            {
                "model": {"preset": "gpt2"},
                "data": {"train": "unread"},
                "train": {"gradient_checkpointing": again},
            }
        )
        loop = TrainingLoop(recipe, model, objective, feed, find_worker("cpu"))
        lengths.append([float(loop.train_step().grad_norm) for _ in range(2)])
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-6)
