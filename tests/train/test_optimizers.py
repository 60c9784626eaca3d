"""Every optimizer, compared with its update rule in float64, one matrix at a time."""

from __future__ import annotations

import copy
import math
import os
import re
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch
import transformers
from optimizing import Settings, give_gradients, task, transformer
from torch import Tensor, nn

from glassformer import GlassformerError
from glassformer.errors import ConfigError
from glassformer.train.optimizers import (
    OPTIMIZERS,
    make_optimizer,
    optimizer_options,
    state_tensors,
)
from glassformer.train.optimizers.muon import newton_schulz, orthogonalized
from glassformer.train.parameter_groups import body_matrices, row_blocks
from glassformer.train.recipe import TrainSettings, read_recipe
from glassformer.train.schedules import schedule, set_rate

MODEL = ("llama", "LlamaForCausalLM")  # joined matrices, with and without neighbors
RATE, DECAY = 0.01, 0.1
STEPS = 5
RECIPE = {"model": {"preset": "gpt2"}, "data": {"train": "a.txt"}}


class AdamW:
    """Loshchilov and Hutter, 2017, algorithm 2."""

    def __init__(self, decays: bool) -> None:
        self.decay, self.m, self.v, self.t = DECAY if decays else 0.0, 0.0, 0.0, 0

    def __call__(self, w: Tensor, g: Tensor) -> Tensor:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.95 * self.v + 0.05 * g**2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.95**self.t)
        return w - RATE * self.decay * w - RATE * m / (v.sqrt() + 1e-8)


class SGD:
    def __init__(self, decays: bool) -> None:
        self.decay, self.m = DECAY if decays else 0.0, 0.0

    def __call__(self, w: Tensor, g: Tensor) -> Tensor:
        self.m = 0.9 * self.m + g + self.decay * w
        return w - RATE * self.m


class Adafactor:
    """Shazeer and Stern, 2018, algorithms 4 and 5, with a rate in place of its schedule."""

    def __init__(self, decays: bool) -> None:
        self.decay, self.t = DECAY if decays else 0.0, 0
        self.r = self.c = self.v = 0.0

    def __call__(self, w: Tensor, g: Tensor) -> Tensor:
        self.t += 1
        beta = 1 - self.t**-0.8
        square = g**2 + 1e-30
        if w.ndim == 2:
            self.r = beta * self.r + (1 - beta) * square.sum(1)
            self.c = beta * self.c + (1 - beta) * square.sum(0)
            v = torch.outer(self.r, self.c) / self.r.sum()
        else:
            v = self.v = beta * self.v + (1 - beta) * square
        u = g / v.sqrt()
        u = u / max(1.0, rms(u))
        return w - RATE * self.decay * w - RATE * max(1e-3, rms(w)) * u


class Muon:
    """Jordan et al., 2024, of singular values: the polynomial acts on each by itself. The size of
    the step is that of Liu et al., 2025, equation 4."""

    def __init__(self, decays: bool) -> None:
        self.m = 0.0

    def __call__(self, w: Tensor, g: Tensor) -> Tensor:
        self.m = 0.9 * self.m + 0.1 * g
        u, s, vt = torch.linalg.svd(0.9 * self.m + 0.1 * g, full_matrices=False)
        s = s / s.norm()
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        return w - RATE * DECAY * w - RATE * 0.2 * math.sqrt(max(w.shape)) * (u * s) @ vt


def rms(x: Tensor) -> float:
    return float(x.norm()) / math.sqrt(x.numel())


def plainly(kind: str, made: nn.Module) -> dict[str, Tensor]:
    """The weights after all steps, every joined matrix taken apart where the rule asks for it."""
    rules = {"adamw": AdamW, "sgd": SGD, "adafactor": Adafactor, "muon": AdamW}
    apart = {"adafactor": row_blocks, "muon": body_matrices}.get(kind, lambda _: {})(task(made))
    now = {name: p.detach().double() for name, p in made.named_parameters()}
    walking = {}
    for step in range(STEPS):
        give_gradients(made, step)
        for name, p in made.named_parameters():
            heights = apart.get(p, p.shape[:1])
            chosen = Muon if kind == "muon" and p in apart else rules[kind]
            pieces = zip(now[name].split(heights), p.grad.double().split(heights), strict=True)
            now[name] = torch.cat(
                [
                    walking.setdefault((name, i), chosen(p.ndim >= 2))(w, g)
                    for i, (w, g) in enumerate(pieces)
                ]
            )
    return now


@pytest.mark.parametrize("model", [MODEL, ("gpt2", "GPT2LMHeadModel")], ids=["llama", "gpt2"])
@pytest.mark.parametrize("kind", OPTIMIZERS.all())
def test_the_rule_written_out(kind, model):
    """GPT-2 has biases, of which some are joined, too."""
    made = transformer(*model)
    expected = plainly(kind, made)
    optimizer = make_optimizer(task(made), Settings(optimizer=kind))
    for step in range(STEPS):
        give_gradients(made, step)
        optimizer.step()
    for name, parameter in made.named_parameters():
        scale = max(1.0, float(expected[name].abs().max()))
        assert (parameter - expected[name]).abs().max() < 1e-6 * scale, name


def test_adafactor_with_its_own_schedule_is_that_of_the_reference():
    """Which knows no joined matrices: T5's own are apart there."""
    made = transformer("t5", "T5ForConditionalGeneration")
    names, apart = [], []
    blocks = row_blocks(made)
    for name, parameter in made.named_parameters():
        for part in parameter.detach().split(blocks.get(parameter, parameter.shape[:1])):
            names.append(name)
            apart.append(nn.Parameter(part.clone()))
    theirs = transformers.Adafactor(apart)  # relative_step, scale_parameter
    settings = Settings(
        optimizer="adafactor", lr_scheduler="relative-step", learning_rate=1e-2, weight_decay=0.0
    )
    ours, factor = make_optimizer(task(made), settings), schedule(settings)
    for step in range(STEPS):
        give_gradients(made, step)
        pieces = (
            piece for p in made.parameters() for piece in p.grad.split(blocks.get(p, p.shape[:1]))
        )
        for parameter, piece in zip(apart, pieces, strict=True):
            parameter.grad = piece.clone()
        set_rate(ours, 1e-2 * factor(step))
        ours.step()
        theirs.step()
    for name, parameter in made.named_parameters():
        joined = torch.cat([p for n, p in zip(names, apart, strict=True) if n == name])
        assert torch.allclose(parameter, joined, atol=1e-6), name


def test_muon_is_torchs_where_nothing_is_joined():
    """torch's computes in bfloat16, whose rounding grows fivefold and more."""
    made = transformer(*MODEL)
    weight = made.decoder.blocks[0].ffn.down.weight
    theirs = nn.Parameter(weight.detach().clone())
    settings = Settings(optimizer="muon", momentum=0.95)
    ours = make_optimizer(task(made), settings)
    reference = torch.optim.Muon(
        [theirs], lr=RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    begin = weight.detach().clone()
    for step in range(3):
        give_gradients(made, step)
        theirs.grad = weight.grad.clone()
        ours.step()
        reference.step()
    assert (weight - theirs).norm() < 0.03 * (theirs - begin).norm()


def test_orthogonalized_matrices_are_near_the_polar_factor():
    """U V^T of U S V^T: singular values are from 0.65 to 1.25 where they were not tiny."""
    draw = torch.Generator().manual_seed(0)
    shapes = [(12, 40), (40, 12), (12, 40), (8, 30), (30, 8)]
    matrices = [torch.randn(shape, generator=draw) * 10**i for i, shape in enumerate(shapes)]
    for matrix, turned in zip(matrices, orthogonalized(matrices), strict=True):
        u, s, vt = torch.linalg.svd(matrix.double(), full_matrices=False)
        assert turned.shape == matrix.shape and s.min() > 0.2 * s.max()
        assert torch.linalg.matrix_norm(turned - u @ vt, 2) < 0.35
        values = torch.linalg.svdvals(turned)
        assert values.min() > 0.65 and values.max() < 1.25
        (alone,) = orthogonalized([matrix])
        assert torch.allclose(alone, turned, atol=1e-5)
    assert not newton_schulz(torch.zeros(2, 3, 4)).any()  # no gradient, no direction


@pytest.mark.parametrize("kind", OPTIMIZERS.all())
@pytest.mark.parametrize("way", ["state_dict", "state_tensors"])
def test_a_state_that_is_loaded_goes_on_to_the_bit(kind, way):
    settings = Settings(optimizer=kind, layerwise_lr_decay=0.9)
    made = transformer(*MODEL)
    optimizer = make_optimizer(task(made), settings)
    for step in range(3):
        give_gradients(made, step)
        optimizer.step()
    other = copy.deepcopy(made)
    resumed = make_optimizer(task(other), settings)
    if way == "state_dict":
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    else:
        blank, saved = state_tensors(resumed), state_tensors(optimizer)
        assert list(blank) == list(saved)
        for name, tensor in blank.items():
            tensor.copy_(saved[name])
    for step in range(3, 5):
        for each, steps in ((made, optimizer), (other, resumed)):
            give_gradients(each, step)
            steps.step()
    assert all(map(torch.equal, made.parameters(), other.parameters()))
    left, right = state_tensors(optimizer), state_tensors(resumed)
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_state_that_is_there_from_the_start_is_as_torch_begins_it(kind):
    made = transformer(*MODEL)
    eager = make_optimizer(task(made), Settings(optimizer=kind))
    other = copy.deepcopy(made)
    lazy = make_optimizer(task(other), Settings(optimizer=kind))
    lazy.state.clear()
    assert set(state_tensors(eager))
    for step in range(3):
        for each, steps in ((made, eager), (other, lazy)):
            give_gradients(each, step)
            steps.step()
    assert all(map(torch.equal, made.parameters(), other.parameters()))
    assert set(state_tensors(eager)) == set(state_tensors(lazy))


def test_names_say_what_the_state_is_of():
    found = state_tensors(make_optimizer(task(transformer(*MODEL)), Settings(optimizer="muon")))
    assert "net.decoder.blocks.0.attention.qkv.weight.momentum_buffer" in found
    assert "net.decoder.embed.token.weight.exp_avg_sq" in found
    assert all(isinstance(tensor, Tensor) for tensor in found.values())


def test_what_has_no_gradient_is_left_alone():
    for kind in OPTIMIZERS.all():
        made = transformer(*MODEL)
        begin = copy.deepcopy(made)
        optimizer = make_optimizer(task(made), Settings(optimizer=kind))
        give_gradients(made, 0)
        kept = [made.decoder.blocks[0].ffn.up.weight, made.decoder.embed.token.weight]
        for parameter in kept:
            parameter.grad = None
        optimizer.step()
        still = [
            now is k
            for k in kept
            for now, before in zip(made.parameters(), begin.parameters(), strict=True)
            if torch.equal(now, before)
        ]
        assert sum(still) == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"optimizer": "adam"}, "did you mean 'adamw'"),
        ({"betas": (0.9,)}, "two numbers"),
        ({"betas": (0.9, 1.0)}, "below 1"),
    ],
)
def test_bad_settings(wrong, says):
    with pytest.raises(GlassformerError, match=says):
        make_optimizer(task(transformer(*MODEL)), Settings(**wrong))


def test_an_unknown_optimizer_is_told_all_names():
    with pytest.raises(ConfigError, match="there are: adafactor, adamw, muon, sgd"):
        OPTIMIZERS.find("xyz")


@pytest.mark.parametrize("kind", OPTIMIZERS.all())
def test_options_are_keys_of_a_recipe_and_are_stored_with_it(kind):
    options = asdict(optimizer_options(kind, {}))
    taken = {each.name for each in fields(TrainSettings)}
    assert not taken & {*options}, "a key of [train] cannot be an option of an optimizer"
    recipe = read_recipe({**RECIPE, "train": {"optimizer": kind}})
    assert recipe.train.options == options
    assert read_recipe(recipe).train == recipe.train
    guide = (Path(__file__).parent.parent.parent / "docs" / "train.md").read_text("utf-8")
    row = re.search(rf"^\| `{kind}` \|.*$", guide, re.MULTILINE)[0]
    for key, default in options.items():
        said = list(default) if isinstance(default, tuple) else default
        assert f"`{key}` ({said})" in row


def test_an_option_of_another_optimizer_is_refused():
    with pytest.raises(ConfigError, match=r"train.betas is an option of the optimizer adamw or"):
        read_recipe({**RECIPE, "train": {"optimizer": "sgd", "betas": [0.9, 0.99]}})
    with pytest.raises(ConfigError, match="no key 'max_stepps'; did you mean 'max_steps'"):
        read_recipe({**RECIPE, "train": {"max_stepps": 3}})
    with pytest.raises(ConfigError, match=r"train.momentum is 1.5; it must be at least 0.0 and"):
        read_recipe({**RECIPE, "train": {"optimizer": "sgd", "momentum": 1.5}})


def test_two_processes_that_share_every_weight_take_the_same_steps():
    """FSDP2 over gloo; `shared_steps.py` compares with one process alone."""
    script = Path(__file__).with_name("shared_steps.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", OPTIMIZERS.all())
def test_a_gpu_takes_the_same_steps(kind):
    """Muon's matrices are turned in bfloat16 there."""
    made = transformer(*MODEL)
    other = copy.deepcopy(made).cuda()
    turned = {name for name, p in made.named_parameters() if p in body_matrices(task(made))}
    settings = Settings(optimizer=kind)
    ours, theirs = make_optimizer(task(made), settings), make_optimizer(task(other), settings)
    for step in range(STEPS):
        give_gradients(made, step)
        for parameter, same in zip(made.parameters(), other.parameters(), strict=True):
            same.grad = parameter.grad.cuda()
        ours.step()
        theirs.step()
    for (name, parameter), same in zip(made.named_parameters(), other.parameters(), strict=True):
        tolerance = 0.03 * RATE * STEPS if kind == "muon" and name in turned else 1e-6
        assert (parameter - same.cpu()).abs().max() < tolerance * max(1.0, parameter.abs().max())
