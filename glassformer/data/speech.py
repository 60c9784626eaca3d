"""Recordings with their texts: LibriSpeech folders, and where the audio file of a record is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from glassformer.data.data_config import DataSettings
from glassformer.data.files import TextFileReader
from glassformer.data.record import Record, RecordError, invalid, path_and_line

TRANSCRIPTS = ".trans.txt"
AUDIO = (".flac", ".wav", ".mp3", ".ogg", ".opus", ".m4a")
CLIPS = "clips"  # the folder of the audio of Common Voice, beside its tables


def read_librispeech(
    file_reader: TextFileReader, path: Path, settings: DataSettings
) -> Iterator[Record | RecordError]:
    """Yields the utterances of a file of LibriSpeech, whose audio lies beside it.

    A line has the name of the audio file without its ending, and the text. The name begins with the
    speaker, followed by a hyphen.
    """
    for number, line in file_reader.lines(path, settings.encoding):
        where = f"{path}:{number}"
        if isinstance(line, RecordError):
            yield line
            continue
        if not line.strip():
            continue
        name, _, text = line.strip().partition(" ")
        found = (path.parent / f"{name}{ending}" for ending in AUDIO)
        audio = next((file for file in found if is_there(file)), None)
        if name != Path(name).name:
            yield RecordError(where, f"{name:.40} is not the name of a file beside it")
        elif audio is None:
            yield RecordError(where, f"there is no {name:.80}.flac (or .wav) in {path.parent}")
        elif not text.strip():
            yield RecordError(where, f"{name} has no text")
        else:
            yield {
                "audio": audio.name,
                "text": text.strip(),
                "speaker": name.partition("-")[0],
                "where": where,
            }


def audio_path(record: Record) -> Path:
    """Returns the path of the audio file of a record; raises an error if there is none.

    A relative path is relative to the file that the record was read from, to the folder `clips`
    beside it (Common Voice), or else to the working directory.
    """
    if "audio" not in record:
        there = ", ".join(name for name in record if name != "where") or "none"
        raise invalid(
            record, f"there is no column 'audio', only {there}", "map it in [data.columns]"
        )
    name = record["audio"]
    if not isinstance(name, str) or not name.strip():
        raise invalid(record, f"the audio is {name!r:.40}, and not the path of a file")
    source, _ = path_and_line(str(record.get("where", "")))
    folder = Path(source or ".").parent
    places = (folder / name, folder / CLIPS / name, Path(name))
    found = next((place for place in places if is_there(place)), None)
    if found is None:
        raise invalid(record, f"the audio file {places[0]} does not exist")
    return found


def is_there(path: Path) -> bool:
    """Whether a path is that of a file; one that no file system allows is not."""
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False
