"""The image processor, compared with the reference's."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.signals.image_processor import ImageProcessor


def picture(*shape: int) -> np.ndarray:
    """A pattern with edges and slopes."""
    height, width = shape[:2]
    rows, columns = np.mgrid[:height, :width]
    waves = 127 + 60 * np.sin(rows / 7) + 60 * np.cos(columns / 5) + 8 * ((rows + columns) % 2)
    color = waves[..., None] * np.linspace(1.0, 0.5, shape[2]) if len(shape) == 3 else waves
    return color.astype(np.uint8)


SIZES = [(300, 500, 3), (100, 60, 3), (224, 224, 3), (37, 600, 3)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("resample", [0, 1, 2, 3])
def test_pixels_equal_the_references(shape, resample):
    """The reference has a second way, with torchvision, which rounds a few pixels differently."""
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    image = picture(*shape)
    processor = ViTImageProcessorPil(resample=resample)
    theirs = processor(Image.fromarray(image), return_tensors="pt").pixel_values
    assert float((ImageProcessor(resample=resample)(image) - theirs).abs().max()) <= 1e-5


def test_the_formula_without_resizing():
    image = picture(8, 6, 3)
    reader = ImageProcessor(size=None, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    expected = (image / 255 - [0.1, 0.2, 0.3]) / [0.4, 0.5, 0.6]
    found = reader(image, image)
    assert found.shape == (2, 3, 8, 6)
    assert np.abs(found[1].numpy() - expected.transpose(2, 0, 1)).max() < 1e-6
    plain = ImageProcessor(size=None, scale=None, mean=None, std=None)(image)[0]
    assert torch.equal(plain, torch.from_numpy(image).permute(2, 0, 1).float())


def test_settings_are_read_and_written_as_the_reference_does(tmp_path):
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    other = {"size": {"height": 20, "width": 30}, "resample": 3, "image_mean": [0.4, 0.5, 0.6],
             "do_rescale": False}  # fmt: skip
    ViTImageProcessorPil(**other).save_pretrained(tmp_path / "theirs")
    reader = ImageProcessor.load(tmp_path / "theirs")
    expected = ImageProcessor(size=(20, 30), resample=3, mean=(0.4, 0.5, 0.6), scale=None)
    assert reader == expected
    reader.save(tmp_path / "ours")
    assert ImageProcessor.load(tmp_path / "ours") == reader
    theirs = ViTImageProcessorPil.from_pretrained(tmp_path / "ours")
    assert theirs.size.height == 20 and theirs.do_rescale is False


def test_an_older_file_gives_the_side_of_a_square(tmp_path):
    old = {"do_normalize": True, "do_resize": True, "feature_extractor_type": "ViTFeatureExtractor",
           "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2, "size": 384}  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(old))
    assert ImageProcessor.load(tmp_path) == ImageProcessor(size=(384, 384))


def test_files_of_every_mode(tmp_path):
    gray = picture(30, 40)
    for mode, name in (("L", "a.png"), ("RGBA", "b.png"), ("P", "c.png"), ("RGB", "d.png")):
        Image.fromarray(gray).convert("RGB").convert(mode).save(tmp_path / name)
    reader = ImageProcessor(size=(16, 16))
    first, *others = (reader(tmp_path / f"{letter}.png") for letter in "abd")
    assert first.shape == (1, 3, 16, 16) and reader(tmp_path / "c.png").shape == first.shape
    assert all(torch.equal(first, other) for other in others)
    assert torch.equal(first, reader(gray))


def test_bad_images_get_one_sentence(tmp_path, monkeypatch):
    reader = ImageProcessor()
    with pytest.raises(gf.GlassformerError, match=r"whole numbers from 0 to 255"):
        reader(np.zeros((8, 8, 3), np.float32))
    with pytest.raises(gf.GlassformerError, match="4 channels and the model reads 3"):
        reader(np.zeros((8, 8, 4), np.uint8))
    with pytest.raises(gf.GlassformerError, match="different sizes"):
        ImageProcessor(size=None)(picture(8, 8, 3), picture(9, 8, 3))
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(gf.GlassformerError, match=r"pip install 'glassformer\[images\]'"):
        reader(tmp_path / "cat.png")
    with pytest.raises(gf.GlassformerError, match="Changing an image's size needs Pillow"):
        reader(picture(8, 8, 3))


def test_bad_files_get_one_sentence(tmp_path):
    with pytest.raises(gf.GlassformerError, match="does not exist"):
        ImageProcessor()(tmp_path / "cat.png")
    (tmp_path / "cat.png").write_bytes(b"no picture")
    with pytest.raises(gf.GlassformerError, match="is not an image that can be read"):
        ImageProcessor()(tmp_path / "cat.png")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"image_processor_type": "CLIPImageProcessor"}, "for a CLIPImageProcessor"),
        ({"do_center_crop": True}, "sets do_center_crop"),
        ({"resample": 7}, "has resample = 7"),
        ({"size": {"shortest_edge": 224}}, "size as height and width"),
    ],
)
def test_settings_that_are_not_ours_are_named(tmp_path, settings, said):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(gf.GlassformerError, match=said):
        ImageProcessor.load(tmp_path)


def test_a_model_brings_its_reader(tmp_path):
    small = {"hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 8,
             "num_attention_heads": 2, "image_size": [32, 48], "num_channels": 1}  # fmt: skip
    model = gf.create("vit-base-patch16-224", **small)
    assert model.processor == ImageProcessor(size=(32, 48), mean=(0.5,), std=(0.5,))
    model.save(tmp_path)
    again = gf.load(tmp_path)
    assert again.processor == model.processor
    with torch.no_grad():
        assert again(pixel_values=again.processor(picture(32, 48))).logits.shape == (1, 1000)
