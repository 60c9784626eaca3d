"""Audio, images and MIDI to tensors and back."""

from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.image_processor import ImageProcessor

__all__ = ["AudioProcessor", "ImageProcessor"]
