"""Embeddings of audio and images, compared with the sums that the papers describe."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import tiny
import torch

import glassformer as gf
from glassformer import spec
from glassformer.core import ActivationCapture
from glassformer.core.audio_image_embedding import unpatchify

FRAMES = spec.AudioFramesSpec(
    num_mel_bins=3, position=spec.PositionTableSpec(length=6, layout="inclusive")
)
PATCHES = spec.PatchEmbeddingSpec(
    channels=2, image_size=(6, 8), patch_size=(3, 2), has_mask_token=True
)


def model(embed, *heads):
    encoder = replace(tiny.stack(), embed=embed)
    made = spec.ModelSpec(encoder=encoder, heads=heads, init=spec.InitSpec(std=0.3))
    return gf.create(made, seed=1)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


@torch.no_grad()
@pytest.mark.parametrize("frames", [12, 7, 1])
def test_frames_are_convolved_twice_and_halved(frames):
    transformer = model(FRAMES)
    sound = random(2, 3, frames)
    seen = ActivationCapture("encoder.embed")
    transformer(input_features=sound, tap=seen)

    def three(x, conv, at):  # frames at - 1 to at + 1; beyond the ends there is nothing
        near = [(x[:, :, i], conv.weight[:, :, i - at + 1]) for i in range(at - 1, at + 2)
                if 0 <= i < x.shape[2]]  # fmt: skip
        return gelu(sum(part @ weight.T for part, weight in near) + conv.bias)

    embed = transformer.encoder.embed
    first = torch.stack([three(sound, embed.near, at) for at in range(frames)], -1)
    second = torch.stack([three(first, embed.halve, at) for at in range(0, frames, 2)], 1)
    expected = second + embed.position.weight[: second.shape[1]]
    assert torch.allclose(seen["encoder.embed"], expected, atol=1e-5)


@torch.no_grad()
def test_patches_are_read_row_by_row_behind_the_first_vector():
    transformer = model(PATCHES)
    image, hide = random(2, 2, 6, 8), torch.zeros(2, 8, dtype=torch.bool)
    hide[1, 6] = True
    seen = ActivationCapture("encoder.embed")
    transformer(pixel_values=image, bool_masked_pos=hide, tap=seen)
    embed = transformer.encoder.embed
    weight = embed.patch.weight.flatten(1)
    rows = [embed.first[0, 0].expand(2, -1)]
    for row, column in ((row, column) for row in (0, 3) for column in (0, 2, 4, 6)):
        tile = image[:, :, row : row + 3, column : column + 2].flatten(1)
        rows.append(tile @ weight.T + embed.patch.bias)
    rows[7][1] = embed.blank[0, 0]
    expected = torch.stack(rows, 1) + embed.position
    assert torch.allclose(seen["encoder.embed"], expected, atol=1e-5)


def test_a_picture_is_put_together_from_its_tiles():
    image = torch.arange(2 * 6 * 9.0).view(1, 2, 6, 9)
    tiles = [image[..., r : r + 3, c : c + 3].flatten(1) for r in (0, 3) for c in (0, 3, 6)]
    patches = torch.stack([torch.zeros_like(tiles[0]), *tiles], 1)
    assert torch.equal(unpatchify(patches, (2, 3), 3), image)


@torch.no_grad()
def test_a_head_may_read_a_mix_of_all_layers():
    head = spec.HeadSpec(name="classify", pooling="mean", num_weighted_layers=3, num_outputs=4)
    transformer = model(FRAMES, head)
    module = transformer.heads["classify"]
    module.mix.copy_(torch.tensor([0.5, -1.0, 2.0]))
    seen = ActivationCapture("*.embed", "*.resid_post", "*.final")
    found = transformer(input_features=random(2, 3, 12), tap=seen).logits
    names = ("embed", "blocks.0.resid_post", "final")
    shares = torch.tensor([0.5, -1.0, 2.0]).exp()
    shares = shares / shares.sum()
    states = sum(w * seen[f"encoder.{n}"] for w, n in zip(shares, names, strict=True))
    expected = states.mean(1) @ module.out.weight.T + module.out.bias
    assert torch.allclose(found, expected, atol=1e-5)


def test_what_does_not_fit_a_signal_is_named():
    transformer = model(PATCHES)
    image = random(1, 2, 6, 8)
    with pytest.raises(gf.GlassformerError, match=r"9 vectors, and the mask is \[1, 8\]"):
        transformer(pixel_values=image, attention_mask=torch.ones(1, 8))
    with pytest.raises(gf.GlassformerError, match="no vector for masked patches"):
        gf.create(tiny.decoder())(tiny.tokens(1, 4), bool_masked_pos=torch.ones(1, 4))
    with pytest.raises(gf.GlassformerError, match=r"8 patches, and bool_masked_pos is \[1, 9\]"):
        transformer(pixel_values=image, bool_masked_pos=torch.ones(1, 9))


@pytest.mark.parametrize("embed", [FRAMES, PATCHES], ids=["sound", "image"])
def test_a_model_of_ones_own_that_reads_signals_is_saved_and_loaded(embed, tmp_path):
    made = model(embed, spec.HeadSpec(name="classify", pooling="first", num_outputs=2))
    made.save(tmp_path)
    again = gf.load(tmp_path)
    assert again.spec == made.spec
    signal = random(1, 3, 12) if embed is FRAMES else random(1, 2, 6, 8)
    name = "input_features" if embed is FRAMES else "pixel_values"
    logits = made(**{name: signal}).logits
    assert torch.equal(again(**{name: signal}).logits, logits)
    assert torch.allclose(made(**{name: signal[0]}).logits, logits[0], atol=1e-6)
