"""Properties of audio and image models: other sizes, masked patches, shorter audio."""

from __future__ import annotations

import pytest
import reference
import torch
from cases import TOLERANCE

import glassformer as gf
from glassformer.families import families

IMAGE = {**families()["vit"].TINY[0], "model_type": "vit"}
SOUND = {**families()["whisper"].TINY[0], "model_type": "whisper"}


def both(config, architecture, folder):
    theirs = reference.make(config, architecture, seed=3)
    reference.save(theirs, folder)
    return theirs, gf.load(folder)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def largest(ours, theirs):
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max())


@torch.no_grad()
@pytest.mark.parametrize("size", [(28, 28), (12, 12), (16, 40), (27, 21)])
def test_positions_are_interpolated_for_images_of_another_size(size, tmp_path):
    theirs, model = both(IMAGE, "ViTForImageClassification", tmp_path)
    image = random(2, 3, *size)
    expected = theirs(pixel_values=image, interpolate_pos_encoding=True).logits
    assert largest(model(pixel_values=image).logits, expected) <= TOLERANCE


@torch.no_grad()
def test_images_need_not_be_square(tmp_path):
    config = {**IMAGE, "image_size": [12, 32], "patch_size": [4, 8]}
    theirs, model = both(config, "ViTModel", tmp_path)
    image = random(2, 3, 12, 32)
    expected = theirs(pixel_values=image)
    found = model(pixel_values=image)
    assert largest(found.last_hidden_state, expected.last_hidden_state) <= TOLERANCE
    assert largest(found.head_outputs["pooler"], expected.pooler_output) <= TOLERANCE


@torch.no_grad()
def test_hidden_patches_are_painted(tmp_path):
    theirs, model = both(IMAGE, "ViTForMaskedImageModeling", tmp_path)
    image = random(2, 3, 20, 20)
    hide = random(2, 25) > 0
    expected = theirs(pixel_values=image, bool_masked_pos=hide).reconstruction
    found = model(pixel_values=image, bool_masked_pos=hide).logits
    assert found.shape == image.shape and largest(found, expected) <= TOLERANCE
    assert not torch.equal(found, model(pixel_values=image).logits)


@torch.no_grad()
def test_a_painted_image_has_the_grid_of_the_one_that_was_read():
    """Where the reference can only paint squares."""
    paints = gf.create(
        "vit-base-patch16-224",
        **{**IMAGE, "image_size": [8, 24], "architectures": ["ViTForMaskedImageModeling"]},
    )
    image = random(1, 3, 8, 24)
    painted = paints(pixel_values=image).logits
    assert painted.shape == image.shape
    hidden = paints(pixel_values=image).last_hidden_state[0, 1:]
    # the patch in row 1, column 3 is the 9th of 2 x 6
    square = paints.heads["paint"].out(hidden[6 + 3]).view(3, 4, 4)
    assert torch.allclose(painted[0, :, 4:8, 12:16], square, atol=1e-6)


@torch.no_grad()
def test_a_mask_speaks_of_patches(tmp_path):
    theirs, model = both(IMAGE, "ViTForImageClassification", tmp_path)
    image, mask = random(2, 3, 20, 20), random(2, 26) > 0
    mask[:, 0] = True
    expected = theirs(pixel_values=image, attention_mask=mask.long()).logits
    assert largest(model(pixel_values=image, attention_mask=mask).logits, expected) <= TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize("frames", [48, 30, 2])
def test_a_shorter_sound_is_read_as_by_a_model_made_for_it(frames, tmp_path):
    """The published class insists on its full length; one with fewer positions does not."""
    _, model = both(SOUND, "WhisperForConditionalGeneration", tmp_path)
    short, _ = reference.load(tmp_path, "WhisperForConditionalGeneration")
    encoder = short.model.encoder
    encoder.config.max_source_positions = frames // 2
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(
        encoder.embed_positions.weight[: frames // 2]
    )
    sound, tokens = random(2, 8, frames), torch.arange(10).view(2, 5) + 5
    expected = short(input_features=sound, decoder_input_ids=tokens, use_cache=False).logits
    assert (
        largest(model(decoder_input_ids=tokens, input_features=sound).logits, expected) <= TOLERANCE
    )
    memory = model.encode(sound)
    assert memory.shape == (2, frames // 2, 32)
    assert torch.equal(
        model(decoder_input_ids=tokens, encoder_hidden_states=memory).logits,
        model(decoder_input_ids=tokens, input_features=sound).logits,
    )


def test_a_new_model_has_the_published_sinusoids():
    ours = gf.create("whisper-tiny", **SOUND).encoder.embed.position.weight
    theirs = reference.make(SOUND, "WhisperModel", seed=0).encoder.embed_positions.weight
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shape", [(2, 7, 48), (2, 8, 50), (2, 8, 0), (8, 48), (2, 5)])
def test_what_is_no_spectrogram_is_named(shape):
    model = gf.create("whisper-tiny", **SOUND)
    with pytest.raises(gf.GlassformerError, match=r"spectrograms of \[batch, 8 bands, up to 48"):
        model(
            decoder_input_ids=torch.ones(2, 3, dtype=torch.long), input_features=torch.zeros(shape)
        )


@pytest.mark.parametrize("shape", [(2, 1, 20, 20), (2, 3, 3, 20), (3, 20), (2, 5)])
def test_what_is_no_image_is_named(shape):
    model = gf.create("vit-base-patch16-224", **IMAGE)
    with pytest.raises(gf.GlassformerError, match=r"images of \[batch, 3 channels, height, width"):
        model(pixel_values=torch.zeros(shape))


def test_only_text_has_segments():
    model = gf.create("vit-base-patch16-224", **IMAGE)
    with pytest.raises(gf.GlassformerError, match="Only text inputs have token_type_ids"):
        model(
            pixel_values=torch.zeros(1, 3, 20, 20),
            token_type_ids=torch.zeros(1, 26, dtype=torch.long),
        )
