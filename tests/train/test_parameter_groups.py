"""The parameter groups of several kinds of model, and frozen parameters."""

from __future__ import annotations

import math
import re

import pytest
import torch
from optimizing import Settings, give_gradients, task, transformer
from torch import Tensor, nn

from glassformer import GlassformerError
from glassformer.core import Transformer
from glassformer.families import classes_of, families, spec_from_config
from glassformer.train.optimizers import make_optimizer
from glassformer.train.parameter_groups import (
    body_matrices,
    depths,
    freeze_base,
    parameter_groups,
    row_blocks,
    unfreeze,
)
from glassformer.train.schedules import schedule, set_rate
from glassformer.weights.mapping import build_transformer

ULMFIT = ("awd-lstm", "AwdLstmForSequenceClassification")

PLACES = {  # by model: what names begin with, and the storey
    ("gpt2", "GPT2LMHeadModel"): {
        r"embed\.position": 0,
        r"blocks\.0\.": 1,
        r"blocks\.1\.": 2,
        r"embed\.token": -1,  # which is the head's, too
    },
    ("bert", "BertForSequenceClassification"): {
        r"encoder\.embed\.": 0,
        r"blocks\.0\.": 1,
        r"blocks\.1\.": 2,
        r"heads\.": -1,
    },
    ("t5", "T5ForConditionalGeneration"): {
        r"encoder\.blocks\.0\.": 1,
        r"encoder\.blocks\.1\.": 2,
        r"encoder\.(final_norm|positions)": "last of the encoder",
        r"decoder\.blocks\.0\.": "next after the encoder",
        r"decoder\.(final_norm|positions)": -2,
        r"embed\.token": -1,
    },
    ("albert", "AlbertForMaskedLM"): {r"embed\.position": 0, r"blocks\.0\.": 1, r"heads\.": -1},
    ULMFIT: {
        r"embed\.": 0,
        r"blocks\.0\.": 1,
        r"blocks\.1\.": 2,
        r"blocks\.2\.": 3,
        r"heads\.": 4,
    },
    ("awd-lstm", "AwdLstmForCausalLM"): {
        r"blocks\.0\.": 1,
        r"blocks\.1\.": 2,
        r"blocks\.2\.": 3,
        r"embed\.": 4,  # fastai's last group: the embedding is the decoder's matrix
        r"heads\.": 4,
    },
}


@pytest.mark.parametrize("model", PLACES, ids=lambda model: model[1])
def test_the_storeys_of_a_model(model):
    made = transformer(*model)
    found = depths(task(made))
    top = max(found.values())
    layers = 0 if made.encoder is None else len(set(made.encoder.spec.order))
    words = {"last of the encoder": layers, "next after the encoder": layers + 1}
    for start, place in PLACES[model].items():
        wanted = words[place] if isinstance(place, str) else place
        places = {depth for name, depth in found.items() if re.search(start, name)}
        assert places == {wanted if wanted >= 0 else top + 1 + wanted}, start
    stacks = [stack for stack in (made.encoder, made.decoder) if stack is not None]
    assert top == 1 + sum(len(stack.blocks) for stack in stacks)


@pytest.mark.parametrize("model_type", families())
def test_every_parameter_of_every_family_has_a_place(model_type):
    family = families()[model_type]
    for architecture in classes_of(family, model_type):
        for config in family.TINY:
            made = build_transformer(
                spec_from_config({"model_type": model_type, **config}, architecture)
            )
            found = depths(task(made))
            assert set(found) == {f"net.{name}" for name, _ in made.named_parameters()}
            shared = {
                name.removeprefix("net.")
                for name, depth in found.items()
                if re.search(r"(encoder|decoder)\.embed\.", name) and depth > 0
            }
            tied = {name for pair in made.spec.tied_weights for name in pair}
            assert all(any(name.startswith(one) for one in tied) for name in shared)


def test_weights_of_an_objective_stand_at_the_top_and_nets_are_aligned_there():
    """ELECTRA's generator is lower than the model that learns from it."""
    large, small = transformer("gpt2", "GPT2LMHeadModel"), transformer(*ULMFIT, n_layers=1)
    found = depths(task(small, generator=large, project=nn.Linear(4, 3)))
    assert found["net.heads.classify.out.weight"] == found["project.weight"] == 3
    assert found["net.decoder.blocks.0.ahead.weight_in"] == 2
    assert found["generator.decoder.blocks.0.ffn.up.weight"] == 1


def test_matrices_decay_and_vectors_do_not():
    made = transformer("bert", "BertForSequenceClassification")
    groups = parameter_groups(task(made), Settings(weight_decay=0.3))
    assert [group["weight_decay"] for group in groups] == [0.0, 0.3]
    still, decaying = ({name for name, _ in group["params"]} for group in groups)
    assert all(re.search(r"bias$|norm\.weight$", name) for name in still)
    assert "net.encoder.embed.token.weight" in decaying
    assert len(still) + len(decaying) == len(list(made.parameters()))


def test_rates_fall_with_depth_as_ulmfits():
    """Each layer's is the one's above divided by 2.6."""
    settings = Settings(learning_rate=0.01, layerwise_lr_decay=1 / 2.6)
    optimizer = make_optimizer(task(transformer(*ULMFIT)), settings)
    rates = {group["depth"]: group["lr"] for group in optimizer.param_groups}
    assert rates == pytest.approx({4 - down: 0.01 / 2.6**down for down in range(5)})


def test_one_storey_more_is_unfrozen_every_so_often():
    made = transformer(*ULMFIT)
    place = depths(task(made))
    settings = Settings(gradual_unfreezing_steps=3, learning_rate=0.1)
    optimizer = make_optimizer(task(made), settings)
    changes = []
    for step in range(14):
        before = {name: p.detach().clone() for name, p in task(made).named_parameters()}
        changes.append(unfreeze(optimizer, settings, step))
        give_gradients(made, step)
        optimizer.step()
        learned = {
            place[name]
            for name, parameter in task(made).named_parameters()
            if not torch.equal(parameter, before[name])
        }
        assert learned == set(range(4 - min(4, step // 3), 5))
        optimizer.zero_grad()
    assert changes == [step % 3 == 0 and step < 13 for step in range(14)]


def test_a_run_that_goes_on_has_unfrozen_what_it_had():
    settings = Settings(gradual_unfreezing_steps=3)
    made = transformer(*ULMFIT)
    unfreeze(make_optimizer(task(made), settings), settings, 7)
    place = depths(task(made))
    learns = {place[name] for name, p in task(made).named_parameters() if p.requires_grad}
    assert learns == {2, 3, 4}


def test_what_was_frozen_before_stays_frozen():
    made = transformer(*ULMFIT)
    kept = made.decoder.blocks[1].ahead.bias_in.requires_grad_(False)
    settings = Settings(gradual_unfreezing_steps=1)
    unfreeze(make_optimizer(task(made), settings), settings, 100)
    assert [p is kept for p in made.parameters() if not p.requires_grad] == [True]


def test_a_frozen_body():
    made = transformer("gpt2", "GPT2ForSequenceClassification")
    optimizer = make_optimizer(task(made), Settings(freeze_base=True))
    names = [name for group in optimizer.param_groups for name in group["param_names"]]
    assert names and all(name.startswith("net.heads.") for name in names)
    assert not made.decoder.final_norm.weight.requires_grad


def test_nothing_to_train_is_said():
    made = transformer(*ULMFIT).requires_grad_(False)
    freeze_base(made)
    with pytest.raises(GlassformerError, match="every parameter is frozen"):
        make_optimizer(task(made), Settings())
    with pytest.raises(GlassformerError, match="layerwise_lr_decay"):
        make_optimizer(task(transformer(*ULMFIT)), Settings(layerwise_lr_decay=1.5))


def test_matrices_of_the_body_and_what_is_joined_in_them():
    made = transformer("llama", "LlamaForCausalLM")
    block, head = made.decoder.blocks[0], made.heads["lm"].out.weight
    body, every = body_matrices(task(made)), row_blocks(task(made))
    assert body[block.attention.qkv.weight] == block.attention.qkv.parts
    assert len(body[block.attention.qkv.weight]) == 3 and len(body[block.ffn.up.weight]) == 2
    assert made.decoder.embed.token.weight not in body and head not in body
    assert block.attention_norm.weight not in every
    assert len(body) == 4 * len(made.decoder.blocks)
    walk = transformer(*ULMFIT).decoder.blocks[0].ahead
    assert row_blocks(walk) == dict.fromkeys(walk.parameters(), (24,) * 4)


def test_ulmfits_recipe():
    """With its dropouts: a language model learns that a text has either words below 20 or others,
    then its body, with a new head, to say which; without that, 50 steps are too few."""
    torch.manual_seed(0)
    ulmfit = {"betas": (0.7, 0.99), "weight_decay": 0.01, "lr_scheduler": "slanted-triangular"}
    first = Settings(learning_rate=0.1, num_training_steps=120, **ulmfit)
    second = Settings(
        learning_rate=0.02,
        num_training_steps=50,
        layerwise_lr_decay=1 / 2.6,
        gradual_unfreezing_steps=10,
        **ulmfit,
    )
    reader = transformer("awd-lstm", "AwdLstmForCausalLM")
    assert tune(reader, first, next_words) < 3.0 < math.log(36)
    judge = transformer(*ULMFIT, num_labels=2)
    assert tune(judge, second, sort) > 0.5
    judge = transformer(*ULMFIT, num_labels=2)
    judge.decoder.load_state_dict(reader.decoder.state_dict())
    assert tune(judge, second, sort) < 0.1


def tune(made: Transformer, settings: Settings, loss_of) -> float:
    """The loss, as a mean of the last ten steps."""
    optimizer, factor = make_optimizer(task(made.train()), settings), schedule(settings)
    draw = torch.Generator().manual_seed(0)
    losses = []
    for step in range(settings.num_training_steps):
        label = torch.randint(2, (16, 1), generator=draw)
        tokens = torch.randint(2, 20, (16, 9), generator=draw) + 20 * label
        unfreeze(optimizer, settings, step)
        set_rate(optimizer, settings.learning_rate * factor(step))
        loss = loss_of(made(tokens).logits, tokens, label[:, 0])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return sum(losses[-10:]) / 10


def next_words(logits: Tensor, tokens: Tensor, label: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def sort(logits: Tensor, tokens: Tensor, label: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, label)
