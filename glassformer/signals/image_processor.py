"""Image preprocessing: pixel values of a fixed size, as ViT's image processor computes them."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError, InputError, UnsupportedError
from glassformer.spec import PatchEmbeddingSpec
from glassformer.storage.parsing import parsing
from glassformer.text.loading.files import READER_FILE, json_bytes, read_reader, write_files

PIXELS, PIXELS_A_BYTE = 4_000_000, 8  # that a file may unpack to: these, and for its size
MOST_PIXELS = 2**14  # of a side that a model reads
KINDS = ("ViTImageProcessor", "ViTImageProcessorPil", "ViTImageProcessorFast",
         "ViTFeatureExtractor")  # fmt: skip

# Without a handler, Python prints what Pillow logs beside the exception that it raises.
logging.getLogger("PIL").addHandler(logging.NullHandler())


@dataclass(frozen=True, kw_only=True)
class ImageProcessor:
    """Resizes and normalizes images.

    Images are resized to `size`, (height, width); then pixels from 0 to 255 are multiplied by
    `scale`, reduced by `mean` and divided by `std`, per channel. Steps whose setting is None are
    skipped.

    >>> processor = ImageProcessor()
    >>> model(pixel_values=processor("cat.png")).logits
    """

    size: tuple[int, int] | None = (224, 224)
    resample: int = 2  # the filter, by Pillow's number: bilinear
    scale: float | None = 1 / 255
    mean: tuple[float, ...] | None = (0.5, 0.5, 0.5)
    std: tuple[float, ...] | None = (0.5, 0.5, 0.5)

    @classmethod
    def of(cls, patches: PatchEmbeddingSpec) -> Self:
        """Returns the usual processor for a model with these patches."""
        half = (0.5,) * patches.channels
        return cls(size=patches.image_size, mean=half, std=half)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        path, values = read_reader(Path(folder), "image_processor")
        kind = values.get("image_processor_type", values.get("feature_extractor_type", KINDS[0]))
        if kind not in KINDS:
            raise UnsupportedError(
                f"{path} is for a {kind}; only {KINDS[0]} is supported.",
                field="image_processor_type",
            )
        for key in ("do_center_crop", "do_pad"):
            if values.get(key):
                raise UnsupportedError(
                    f"{path} sets {key}, which is not supported; crop the images before.", field=key
                )
        resample = values.get("resample", cls.resample)
        if not isinstance(resample, int) or resample not in range(6):
            raise ConfigError(f"{path} has resample = {resample!r}; it is a number, 0 to 5.")
        normal = values.get("do_normalize", True)
        try:
            made = cls(
                size=_size(values.get("size", 224)) if values.get("do_resize", True) else None,
                resample=resample,
                scale=float(values.get("rescale_factor", 1 / 255))
                if values.get("do_rescale", True)
                else None,
                mean=tuple(map(float, values.get("image_mean") or (0.5,) * 3)) if normal else None,
                std=tuple(map(float, values.get("image_std") or (0.5,) * 3)) if normal else None,
            )
        except (TypeError, KeyError, ValueError, OverflowError):
            raise ConfigError(
                f"{path} must give size as height and width, and image_mean and image_std as "
                "numbers; get it again."
            ) from None
        made.check(path)
        return made

    def check(self, path: Path) -> None:
        """Raises an error for settings out of range; `path` is their file."""
        mean, std = self.mean or (), self.std or ()
        if self.size is not None and not all(0 < side <= MOST_PIXELS for side in self.size):
            raise ConfigError(f"{path} has size = {self.size}; sides are 1 to {MOST_PIXELS:,}.")
        divisors = (*std, 1.0 if self.scale is None else self.scale)
        fine = all(abs(n) <= 1e9 for n in mean) and all(1e-9 <= abs(n) <= 1e9 for n in divisors)
        if len(mean) != len(std) or not fine:
            raise ConfigError(
                f"{path} must give image_mean and image_std as one finite number a channel; "
                "image_std and rescale_factor are not 0."
            )

    def save(self, folder: str | Path) -> None:
        write_files(Path(folder), {READER_FILE: json_bytes(self.settings)})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as written to preprocessor_config.json."""
        values: dict[str, Any] = {
            "image_processor_type": KINDS[0],
            "do_resize": self.size is not None,
            "do_rescale": self.scale is not None,
            "do_normalize": self.mean is not None,
            "resample": self.resample,
        }
        if self.size is not None:
            values["size"] = {"height": self.size[0], "width": self.size[1]}
        if self.scale is not None:
            values["rescale_factor"] = self.scale
        if self.mean is not None and self.std is not None:
            values |= {"image_mean": list(self.mean), "image_std": list(self.std)}
        return values

    def __call__(self, *images: Any) -> Tensor:
        """Converts images to pixel values.

        Pillow reads files and resizes images; an array of the right size does not need it.

        Args:
            images: Each a file, a Pillow image, or integers from 0 to 255, [height, width] or
                [height, width, channel].

        Returns:
            Pixel values, [image, channel, height, width].
        """
        read = [self.resized(self.pixels_of(image)) for image in images]
        if len({tuple(image.shape) for image in read}) != 1:
            raise InputError(
                "Images of different sizes cannot form a batch; process them one by one."
            )
        values = torch.empty(len(read), *read[0].shape)
        for image, target in zip(read, values, strict=True):
            target.copy_(image)
        del read
        if self.scale is not None:
            values.mul_(self.scale)
        if self.mean is None or self.std is None:
            return values
        mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (self.mean, self.std))
        return values.sub_(mean).div_(std)

    def pixels_of(self, image: Any) -> Tensor:
        """Returns bytes, [channel, height, width]; gray is repeated for every channel of `mean`."""
        channels = None if self.mean is None else len(self.mean)
        if isinstance(image, str | Path):
            image = open_image(Path(image))
        if hasattr(image, "convert") and image.mode not in ("L", "RGB"):
            image = image.convert("RGB")  # palette, transparency or CMYK images
        pixels = torch.from_numpy(np.array(image))
        if pixels.dtype != torch.uint8 or pixels.ndim not in (2, 3):
            raise InputError(
                f"An image is whole numbers from 0 to 255 (uint8) of [height, width, channel], and "
                f"this one is {pixels.dtype} of {list(pixels.shape)}."
            )
        pixels = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        if channels is not None and len(pixels) == 1:
            pixels = pixels.expand(channels, -1, -1)
        if channels is not None and len(pixels) != channels:
            raise InputError(
                f"The image has {len(pixels)} channels and the model reads {channels}; channels "
                "come last, [height, width, channel]."
            )
        return pixels.contiguous()

    def resized(self, pixels: Tensor) -> Tensor:
        if self.size is None or tuple(pixels.shape[1:]) == self.size:
            return pixels
        pillow = import_pillow("Changing an image's size")
        resized = np.empty((len(pixels), *self.size), np.uint8)
        for channel, target in zip(pixels, resized, strict=True):
            image = pillow.fromarray(channel.numpy())
            target[:] = image.resize(self.size[::-1], self.resample)
        return torch.from_numpy(resized)


def _size(value: Any) -> tuple[int, int]:
    """Parses {"height": .., "width": ..}, or the side of a square in older files."""
    if isinstance(value, int):
        return value, value
    return int(value["height"]), int(value["width"])


def import_pillow(what: str) -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise UnsupportedError(
            f"{what} needs Pillow: pip install 'glassformer[images]', or give an array of the "
            "right size."
        ) from None


def open_image(path: Path) -> Any:
    pillow = import_pillow(f"Reading {path.name}")
    if not path.is_file():
        raise DataError(f"The file {path} does not exist.", path=path)
    with warnings.catch_warnings(), parsing(path, "an image that can be read", DataError):
        warnings.simplefilter("ignore")  # of large images, which are refused here
        image = pillow.open(path)
        pixels, most = image.width * image.height, PIXELS + PIXELS_A_BYTE * path.stat().st_size
        if pixels > most:
            raise DataError(
                f"{path} unpacks to {image.width:,} by {image.height:,} pixels, and a file of its "
                f"size to {most:,} at most; save it as a smaller image.",
                path=path,
            )
        image.load()
    return image
