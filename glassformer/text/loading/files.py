"""Reads and writes the small files of a tokenizer folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import LoadError
from glassformer.storage.files import json_line
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.storage.parsing import read_json


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LoadError(f"The file {path} does not exist.") from None
    except OSError as error:
        raise LoadError(f"The file {path} cannot be read: {error.strerror}.") from None


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a UTF-8 file.

    Only line feeds end a line, because U+2028 may be a token of its own.
    """
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(
            f"The file {path} is not UTF-8 text: byte {error.start} cannot be read."
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_json_if_there(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


READER_FILE = "preprocessor_config.json"
PROCESSOR_FILE = "processor_config.json"  # newer folders keep all settings here, by kind


def holds_reader(folder: Path) -> bool:
    """Whether the folder has settings for reading audio or images."""
    return any((folder / name).is_file() for name in (READER_FILE, PROCESSOR_FILE))


def copy_reader(folder: Path, other: Path) -> None:
    """Copies the settings for audio or images unchanged, since they may have keys not read here."""
    names = [name for name in (READER_FILE, PROCESSOR_FILE) if (folder / name).is_file()]
    write_files(other, {name: read_bytes(folder / name) for name in names})


SIDE_FILES = ("chat_template.jinja", "chat_template.json", "normalizer.json")
SIDE_FOLDER = "additional_chat_templates"


def read_side_files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a tokenizer folder that do not concern its tokens.

    They are chat templates and the spelling normalization that is applied when Whisper's words are
    compared.
    """
    paths = [folder / name for name in SIDE_FILES] + sorted((folder / SIDE_FOLDER).glob("*.jinja"))
    found = (path for path in paths if path.is_file())
    return {path.relative_to(folder).as_posix(): read_bytes(path) for path in found}


def read_reader(folder: Path, part: str) -> tuple[Path, dict[str, Any]]:
    """Returns the path of the settings file for audio or images, and the settings in it.

    `part` is the key of the settings in `processor_config.json`.
    """
    complete_pending_save(folder)
    path = folder / PROCESSOR_FILE
    if (folder / READER_FILE).is_file() or not path.is_file():
        return folder / READER_FILE, read_json(folder / READER_FILE)
    values = read_json(path).get(part)
    if not isinstance(values, dict):
        raise LoadError(f"The file {path} has no {part}; copy {READER_FILE} beside it.")
    return path, values


def read_vocabulary(path: Path) -> dict[str, int]:
    """Reads a `vocab.json`, which maps each token to its id."""
    vocabulary: dict[str, int] = read_json(path)
    check_ids(vocabulary, path)
    return vocabulary


def check_ids(vocabulary: Mapping[str, Any], path: Path) -> None:
    """Raises an error for an id that is none, or is far beyond the number of tokens.

    The library keeps a place for every id up to the largest.
    """
    most = 16 * len(vocabulary) + 2**16
    for token, index in vocabulary.items():
        if type(index) is not int or not 0 <= index <= most:
            raise LoadError(f"The file {path} gives the token {token!r} the id {index!r}.")


def read_merges(path: Path, *, counted: bool = False) -> list[tuple[str, str]]:
    """Reads a `merges.txt`: one pair per line, in the order of learning.

    With `counted`, a count may follow each pair.
    """
    merges = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if counted and len(pair) == 3 and pair[2].isdigit():
            pair.pop()
        if len(pair) != 2 or not all(pair):
            raise LoadError(
                f"Line {number} of {path} is not a merge (two tokens, a space between): {line!r}."
            )
        merges.append((pair[0], pair[1]))
    return merges


def json_bytes(value: Mapping[str, Any]) -> bytes:
    return json_line(value, indent=2)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes all of the files or, on an error, none."""
    with atomic_folder(folder) as draft:
        for name, content in files.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_bytes(content)
