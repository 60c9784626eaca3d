"""Audio of every format that FFmpeg reads, through PyAV (the extra `audio`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import torch
from torch import Tensor

from glassformer.errors import DataError, UnsupportedError


def open_compressed(
    file: IO[bytes], name: str, seekable: bool
) -> tuple[int, int, float | None, Iterator[Tensor]]:
    """Opens a file or stream of any format.

    Args:
        file: The open file.
        name: What error messages call it.
        seekable: Whether it can be read twice.

    Returns:
        Samples per second, the number of channels, the duration if it is known, and blocks of
        [channel, sample].
    """
    try:
        import av
    except ModuleNotFoundError:
        raise UnsupportedError(
            f"{name} is not a PCM .wav file; to read flac, mp3, ogg, m4a and mp4, run "
            "pip install 'glassformer[audio]', or convert it with ffmpeg."
        ) from None
    try:
        container: Any = av.open(file, metadata_errors="ignore")
        stream = next(iter(container.streams.audio), None)
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise _unreadable(name, error) from None
    if stream is None:
        raise DataError(f"{name} has no sound; name a file that has.")
    if stream.codec_context is None:
        raise DataError(f"{name} has sound in a format that FFmpeg does not know; convert it.")
    if not stream.rate or not stream.codec_context.channels:
        raise DataError(f"{name} says neither its rate nor its channels; convert it with ffmpeg.")
    length = container.duration if seekable else None
    seconds = None if length is None or length <= 0 else length / av.time_base
    blocks = _blocks(file, container, stream, name)
    return int(stream.rate), int(stream.codec_context.channels), seconds, blocks


def _blocks(file: IO[bytes], container: Any, stream: Any, name: str) -> Iterator[Tensor]:
    import av

    floats = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)
    with file, container:
        try:
            for frame in container.decode(stream):
                frame.pts = None  # a gap between times is no reason to stop
                for part in floats.resample(frame):
                    yield torch.from_numpy(part.to_ndarray())
            for part in floats.resample(None):
                yield torch.from_numpy(part.to_ndarray())
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> DataError:
    why = getattr(error, "strerror", None) or str(error)
    return DataError(f"{name} cannot be read as sound ({why}); get it again or convert it.")
