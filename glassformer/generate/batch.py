"""Batch generation from a file of JSON lines to another.

Each output line names the input line that it answers and contains a fingerprint of it. An
interrupted run therefore resumes where it stopped, and results of another input are not mistaken
for results of this one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from glassformer.core import Transformer
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.generate.config import GenerationConfig
from glassformer.generate.prompt import Prompt
from glassformer.generate.result import GenerationOutput
from glassformer.generate.strategy import GenerationRequest, NoTokenLeftError
from glassformer.generate.writer import Generator
from glassformer.storage.files import atomic_file
from glassformer.storage.parsing import parse_json

BEGIN = '{"line": '  # beginning of every output line


@dataclass(frozen=True)
class BatchLine:
    """Request of the input file; `number` counts its lines from 1."""

    number: int
    prompt: Prompt | None
    config: Mapping[str, Any]
    extra: Mapping[str, Any]  # copied into the result unchanged
    fingerprint: str


class BatchJob:
    """The requests of an input file, and which of them the output file already answers.

    Args:
        source: Input file of JSON lines.
        target: Output file; an incomplete one is resumed.
        given: Generation settings for all lines; a line may override them.
        about: Everything else that a result depends on, such as the model; part of the fingerprint.
    """

    def __init__(self, source: Path, target: Path, given: Mapping[str, Any], about: str) -> None:
        if os.path.realpath(source) == os.path.realpath(target):
            raise ConfigError(f"{source} cannot be both the input and the output.")
        if not target.parent.is_dir():
            raise ConfigError(f"There is no folder {target.parent} for the output.")
        if target.exists() and not target.is_file():
            raise ConfigError(f"{target} is no regular file; name another output.")
        self.source, self.target = source, target
        self.lines = read_lines(source, given, about)
        self.kept, self.done = read_done(target, self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def plan(self, writer: Generator) -> dict[GenerationConfig, list[GenerationRequest]]:
        """Groups the requests still to be done by equal settings, which run together.

        All lines are validated here, before the first one is computed.
        """
        groups: dict[GenerationConfig, list[GenerationRequest]] = {}
        for line in self.lines.values():
            try:
                config = writer.resolve_config(line.config)
                request = writer.request(line.number, line.prompt, config)
            except GlassformerError as error:
                raise at(self.source, line.number, str(error)) from None
            if line.number not in self.done:
                groups.setdefault(config, []).append(request)
        return groups

    def run(
        self,
        writer: Generator,
        plan: Mapping[GenerationConfig, list[GenerationRequest]],
        draft: Transformer | None = None,
    ) -> Iterator[GenerationOutput]:
        """Writes the results to the output as they are finished, and yields them."""
        try:
            with self.target.open("r+b" if self.target.exists() else "xb") as file:
                self._lock(file)
                file.truncate(self.kept)  # remove an incomplete last line
                file.seek(self.kept)
                for config, requests in plan.items():
                    for number, generation in writer.results(requests, config, draft):
                        file.write(self.result(number, generation))
                        file.flush()
                        self.done.add(number)
                        yield generation
            self.sort()
        except NoTokenLeftError as error:
            raise at(self.source, error.request, str(error)) from None
        except GlassformerError:
            raise
        except OSError as error:
            raise DataError(
                f"{self.target} cannot be written: {error.strerror}.", path=self.target
            ) from None

    def _lock(self, file: IO[bytes]) -> None:
        """Keeps other processes from writing the same output."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"Another process writes {self.target}; wait for it, or name another output.",
                path=self.target,
            ) from None
        if read_done(self.target, self.lines) != (self.kept, self.done):
            raise DataError(
                f"Another process has written {self.target} since this command began; give the "
                "command again.",
                path=self.target,
            )

    def result(self, number: int, generation: GenerationOutput) -> bytes:
        line = self.lines[number]
        said = {"line": number, "of": line.fingerprint, **line.extra, **generation.record()}
        text = json.dumps(said, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace") + b"\n"  # escapes lone surrogates

    def sort(self) -> None:
        """Sorts a complete output, written in order of completion, by input line."""
        results = self.target.read_bytes().splitlines(keepends=True)
        ordered = sorted(results, key=lambda result: json.loads(result)["line"])
        if ordered != results:
            with atomic_file(self.target) as file:
                file.write(b"".join(ordered))


def read_lines(path: Path, given: Mapping[str, Any], about: str) -> dict[int, BatchLine]:
    """Reads the requests of an input file, by line number.

    Args:
        path: File of JSON lines: texts, or objects with a "prompt", an "id" and settings.
        given: Settings for all lines.
        about: Further content of the fingerprints.
    """
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DataError(f"{path} cannot be read: {why}.", path=path) from None
    found: dict[int, BatchLine] = {}
    for number, row in enumerate(content.split("\n"), 1):
        if row.strip():
            found[number] = read_line(path, number, row, given, about)
    if not found:
        raise DataError(f"{path} has no lines; write a prompt on each, as JSON.", path=path)
    return found


def read_line(path: Path, number: int, row: str, given: Mapping[str, Any], about: str) -> BatchLine:
    try:
        value = parse_json(row)
    except ValueError as error:
        raise at(path, number, f"this is no JSON ({error}).") from None
    if isinstance(value, str):
        value = {"prompt": value}
    if not isinstance(value, dict) or "prompt" not in value:
        raise at(path, number, 'a line is a text, or an object with a "prompt".')
    prompt = value.pop("prompt")
    if not isinstance(prompt, str | list | None):
        raise at(path, number, f"a prompt is a text, token ids or null, not {prompt!r}.")
    extra = {"id": value.pop("id")} if "id" in value else {}
    config = {**given, **value}
    whole = json.dumps([about, prompt, config, extra], sort_keys=True, default=repr)
    return BatchLine(number, prompt, config, extra, hashlib.sha256(whole.encode()).hexdigest()[:16])


def read_done(path: Path, lines: Mapping[int, BatchLine]) -> tuple[int, set[int]]:
    """Returns the size in bytes of the complete lines of an output, and which lines they answer."""
    if not path.exists():
        return 0, set()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    kept = content.rfind(b"\n") + 1
    done: set[int] = set()
    for number, row in enumerate(content[:kept].splitlines(), 1):
        try:
            said = parse_json(row)
            ours = lines[said["line"]].fingerprint == said["of"]
        except (ValueError, TypeError, KeyError):
            ours = False
        if not ours:
            raise at(path, number, "this is not a result of this input; choose another output.")
        done.add(said["line"])
    half, begin = content[kept:], BEGIN.encode()
    if not (half.startswith(begin) or begin.startswith(half)):
        raise at(path, len(done) + 1, "this is not a result of this input; choose another output.")
    return kept, done


def at(path: Path, line: int, message: str) -> DataError:
    return DataError(f"{path}, line {line}: {message}", path=path, line=line)
