"""Readers that yield the records of a file in each format.

A record that cannot be read is yielded as a `RecordError`, and reading continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.data_config import DataSettings, Format
from glassformer.data.files import PIECE, TextFileReader, undecodable
from glassformer.data.record import Record, RecordError
from glassformer.data.speech import TRANSCRIPTS, read_librispeech
from glassformer.data.tables import read_csv, read_parquet, read_tsv
from glassformer.errors import ConfigError, DataError
from glassformer.storage.parsing import parse_json

Found = Iterator[Record | RecordError]


def read_text(file_reader: TextFileReader, path: Path, settings: DataSettings) -> Found:
    """Yields documents of plain text: whole files, blocks between blank lines, or lines.

    Long documents are yielded in pieces, with `begins` and `ends`.
    """
    if settings.document_boundary == "file":
        size = piece_size(file_reader.total, settings.held_out)
        yield from _whole_file(file_reader, path, settings.encoding, size)
    elif settings.document_boundary == "blank-line":
        yield from _between_blanks(file_reader, path, settings.encoding)
    else:
        for number, line in file_reader.lines(path, settings.encoding):
            if isinstance(line, RecordError):
                yield line
            elif line.strip():
                yield {"text": line, "where": f"{path}:{number}"}


def piece_size(total: int, held_out: float) -> int:
    """Returns the size of the pieces of a text, of which some are held out.

    There are enough of them in so many bytes that each tenth, for example, can be held out.
    """
    return max(1, min(PIECE, int(total * held_out / 2))) if held_out else PIECE


def _whole_file(file_reader: TextFileReader, path: Path, encoding: str, size: int) -> Found:
    begins = True
    for piece in file_reader.pieces(path, encoding, size):
        if isinstance(piece, RecordError):
            yield piece
            continue
        number, text, ends = piece
        if text.strip() or not (begins and ends):  # a blank file is no document
            yield {"text": text, "begins": begins, "ends": ends, "where": f"{path}:{number}"}
            begins = False


def _between_blanks(
    file_reader: TextFileReader, path: Path, encoding: str, size: int = PIECE
) -> Found:
    """Yields documents with their lines as `sentences` and all of them as `text`."""
    held: list[str] = []
    first, length, begins = 0, 0, True

    def document(ends: bool) -> Record:
        sentences = list(held)
        held.clear()
        return {
            "text": "\n".join(sentences),
            "sentences": sentences,
            "begins": begins,
            "ends": ends,
            "where": f"{path}:{first}",
        }

    for number, line in file_reader.lines(path, encoding):
        if isinstance(line, RecordError):
            yield line
        elif not line.strip():
            if held:
                yield document(ends=True)
            begins = True
        else:
            if held and length > size:
                yield document(ends=False)
                begins = False
            first, length = (first, length) if held else (number, 0)
            held.append(line)
            length += len(line)
    if held:
        yield document(ends=True)


def read_json_lines(file_reader: TextFileReader, path: Path, settings: DataSettings) -> Found:
    """Yields the objects of a file with one JSON object per line, or with one array of objects."""
    lines = file_reader.lines(path, settings.encoding)
    for number, line in lines:
        if isinstance(line, RecordError):
            yield line
        elif number == 1 and (line.strip() == "[" or line.lstrip().startswith("[{")):
            yield from _json_array(chain([(number, line)], lines), path)
        elif line.strip():
            where = f"{path}:{number}"
            try:
                value = parse_json(line)
            except ValueError as error:
                yield RecordError(where, f"this is not JSON ({error})")
                continue
            if isinstance(value, dict):
                yield {**_by_language(value), "where": where}
            else:
                yield RecordError(where, f"a JSON object was expected, not {line.strip()[:40]}")


def _json_array(lines: Iterable[tuple[int, str | RecordError]], path: Path) -> Found:
    """Yields the objects of an array, which is read as a whole."""
    found = list(lines)
    broken = next((line for _, line in found if isinstance(line, RecordError)), None)
    if broken is not None:
        raise broken.refused("convert the file to UTF-8")
    try:
        values = parse_json("\n".join(str(line) for _, line in found))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); get it again.", path=path) from None
    for number, value in enumerate(values):
        where = f"{path}: [{number}]"
        if isinstance(value, dict):
            yield {**_by_language(value), "where": where}
        else:
            yield RecordError(where, f"a JSON object was expected, not {str(value)[:40]}")


def _by_language(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of translations with a column per language.

    Sets of `datasets` have {"translation": {"en": ..., "fr": ...}}.
    """
    texts = row.get("translation")
    if not isinstance(texts, dict):
        return row
    return {**texts, **{name: value for name, value in row.items() if name != "translation"}}


def read_conll(file_reader: TextFileReader, path: Path, settings: DataSettings) -> Found:
    """Yields sentences of `words` and `tags`, separated by blank lines and -DOCSTART- lines.

    Columns are separated by tabs, or else by spaces; tags are not changed.
    """
    words: list[str] = []
    tags: list[str] = []
    first, bad = 0, False

    def sentence() -> Found:
        if words and not bad:
            yield {"words": list(words), "tags": list(tags), "where": f"{path}:{first}"}
        words.clear()
        tags.clear()

    for number, line in file_reader.lines(path, settings.encoding):
        if isinstance(line, RecordError):
            bad = True
            yield line
        elif not line.strip() or line.startswith("-DOCSTART-"):
            yield from sentence()
            bad = False
        else:
            columns = line.split("\t") if "\t" in line else line.split()
            try:
                word, tag = columns[settings.word_column], columns[settings.tag_column]
            except IndexError:
                word = tag = ""
            if len(columns) < 2 or not word or not tag:
                bad = True
                yield RecordError(
                    f"{path}:{number}",
                    f"{line!r} has no word in column {settings.word_column} and tag in column "
                    f"{settings.tag_column} (data.word_column, data.tag_column)",
                )
                continue
            first = first if words else number
            words.append(word)
            tags.append(tag)
    yield from sentence()


def read_squad(file_reader: TextFileReader, path: Path, settings: DataSettings) -> Found:
    """Yields the questions of SQuAD 1 and 2.

    Such a file is one JSON value, so it is read as a whole.
    """
    with file_reader.open(path) as stream:
        try:
            content = stream.read().decode(settings.encoding)
        except UnicodeDecodeError as error:
            number = error.object.count(b"\n", 0, error.start) + 1
            raise undecodable(f"{path}:{number}", error).refused("convert the file") from None
        try:
            articles = parse_json(content.removeprefix("\ufeff"))
            paragraphs = [
                (f"{path}: data[{i}].paragraphs[{j}]", paragraph)
                for i, article in enumerate(articles["data"])
                for j, paragraph in enumerate(article["paragraphs"])
            ]
        except (ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{path} is not a SQuAD file, which has questions as data[].paragraphs[].qas[]: "
                f"{type(error).__name__} {error}.",
                path=path,
            ) from None
    for location, paragraph in paragraphs:
        try:
            questions = list(enumerate(paragraph["qas"]))
        except (LookupError, TypeError) as error:
            yield RecordError(location, f"the questions are not qas[] ({error})")
            continue
        for k, question in questions:
            where = f"{location}.qas[{k}]"
            try:
                yield _squad_record(paragraph, question, where)
            except LookupError as error:
                yield RecordError(where, f"there is no {error}")
            except (TypeError, ValueError, AttributeError, OverflowError) as error:
                yield RecordError(where, f"this is not a question ({error})")


def _squad_record(paragraph: Any, question: Any, where: str) -> Record:
    answers = question.get("answers", ())
    return {
        "id": str(question["id"]),
        "question": question["question"],
        "context": paragraph["context"],
        "answers": [
            {"text": answer["text"], "answer_start": int(answer["answer_start"])}
            for answer in answers
        ],
        "impossible": bool(question.get("is_impossible", False)),
        "where": where,
    }


def read_parallel(
    file_reader: TextFileReader, files: list[list[Path]], settings: DataSettings
) -> Found:
    """Yields translation pairs.

    They are in two lists of files with parallel lines, or in files with tab-separated pairs.
    """
    if len(files) == 1:
        for path in files[0]:
            yield from _both_in_one(file_reader, path, settings.encoding)
        return
    if len(files) != 2 or len(files[0]) != len(files[1]):
        raise ConfigError(
            'Parallel texts are one file per language (train = ["train.de", "train.en"]), or one '
            "file with tabs between the languages, and not "
            f"{' and '.join(str(len(paths)) for paths in files)} files."
        )
    for one, other in zip(*files, strict=True):
        yield from _side_by_side(file_reader, one, other, settings.encoding)


def _both_in_one(file_reader: TextFileReader, path: Path, encoding: str) -> Found:
    for number, line in file_reader.lines(path, encoding):
        if isinstance(line, RecordError):
            yield line
        elif line.strip():
            where = f"{path}:{number}"
            columns = line.split("\t")
            if len(columns) < 2:
                yield RecordError(where, "there is no tab between source and target")
            else:
                yield {"source": columns[0], "target": columns[1], "where": where}


def _side_by_side(file_reader: TextFileReader, one: Path, other: Path, encoding: str) -> Found:
    sources, targets = file_reader.lines(one, encoding), file_reader.lines(other, encoding)
    read = 0
    for number, source in sources:
        _, target = next(targets, (0, None))
        if target is None:
            rest = sum(1 for _ in sources)
            raise _uneven(one, number + rest, other, read)
        read = number
        broken = [line for line in (source, target) if isinstance(line, RecordError)]
        if broken:
            yield broken[0]
        elif source or target:
            yield {"source": source, "target": target, "where": f"{one}:{number}"}
    rest = sum(1 for _ in targets)
    if rest:
        raise _uneven(one, read, other, read + rest)


def _uneven(one: Path, lines: int, other: Path, others: int) -> DataError:
    return DataError(
        f"{one} has {lines:,} lines and {other} {others:,}; parallel files need equally many.",
        path=one,
    )


def read_tokens(file_reader: TextFileReader, path: Path, settings: DataSettings) -> Found:
    """Yields one document of token ids in pieces, from an array saved by numpy."""
    with file_reader.open(path) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            shape, _, kind = np.lib.format.read_array_header_1_0(stream)
        except Exception:  # numpy evaluates the header as Python's tokens
            version, shape, kind = (0, 0), (), np.dtype(object)
        if version != (1, 0) or len(shape) != 1 or kind.kind not in "iu":
            raise DataError(
                f"{path} is not a list of token ids; save a flat array of whole numbers by "
                "np.save.",
                path=path,
            )
        for first in range(0, shape[0], PIECE):
            count = min(PIECE, shape[0] - first)
            data = stream.read(count * kind.itemsize)
            if len(data) < count * kind.itemsize:
                raise DataError(f"{path} ends before token {shape[0]:,}.", path=path)
            yield {
                "tokens": np.frombuffer(data, kind),
                "begins": first == 0,
                "ends": first + count == shape[0],
                "where": f"{path}, token {first:,}",
            }


READERS: dict[str, Callable[[TextFileReader, Path, DataSettings], Found]] = {
    "text": read_text,
    "jsonl": read_json_lines,
    "csv": read_csv,
    "tsv": read_tsv,
    "conll": read_conll,
    "squad": read_squad,
    "parquet": read_parquet,
    "tokens": read_tokens,
    "librispeech": read_librispeech,
}
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".bmes": "conll",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".npy": "tokens",
}


def form_of(path: Path) -> Format:
    """Returns the format by the file extension; "text" if it is unknown."""
    name = path.with_suffix("") if path.suffix == ".gz" else path
    if name.name.endswith(TRANSCRIPTS):
        return "librispeech"
    return ENDINGS.get(name.suffix.lower(), "text")
