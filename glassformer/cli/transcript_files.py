"""Recordings that a command reads, and the files of their transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from glassformer.errors import ConfigError, DataError

SOUNDS = (
    ".wav .flac .mp3 .ogg .oga .opus .m4a .m4b .mp4 .aac .aiff .aif .amr .mka .mkv .mov .webm .wma"
)
"""Endings of the files of a folder that are recordings."""


@dataclass(frozen=True)
class TranscriptFiles:
    """A recording, "-" for standard input, and the files of its transcript by format."""

    source: str
    targets: dict[str, Path]

    @property
    def finished(self) -> bool:
        """Whether all files of the transcript exist."""
        return bool(self.targets) and all(path.exists() for path in self.targets.values())


def find_recordings(words: Sequence[str]) -> list[str]:
    """Returns the recordings that words name: files, folders, patterns and "-"."""
    found: list[str] = []
    for word in words:
        path = Path(word)
        if word != "-" and path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix.lower() in SOUNDS.split())
            if not inside:
                raise DataError(f"The folder {word} has no recordings; name files.", path=word)
            found += map(str, inside)
        elif word != "-" and not path.exists() and glob(word):
            found += sorted(glob(word))
        else:
            found.append(word)
    return list(dict.fromkeys(found))


def planned(
    sources: Sequence[str], out: Path | None, folder: Path | None, formats: Sequence[str]
) -> list[TranscriptFiles]:
    """Returns the recordings with the files of their transcripts."""
    if out is not None and folder is not None:
        raise ConfigError("Give one of --out and --output-dir.")
    if out is not None:
        if len(sources) > 1:
            raise ConfigError("--out is one file; for several recordings, give --output-dir.")
        return [TranscriptFiles(source, {formats[0]: out}) for source in sources]
    if folder is None:
        return [TranscriptFiles(source, {}) for source in sources]
    owners: dict[str, str] = {}
    found = []
    for source in sources:
        stem = "stdin" if source == "-" else Path(source).stem
        if stem in owners:
            raise ConfigError(
                f"{owners[stem]} and {source} would both be {folder / stem}.{formats[0]}; "
                "transcribe them into different folders."
            )
        owners[stem] = source
        targets = {form: folder / f"{stem}.{form}" for form in formats}
        found.append(TranscriptFiles(source, targets))
    return found
