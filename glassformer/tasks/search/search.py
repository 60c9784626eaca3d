"""Semantic search: indexes a folder of texts and finds the passages nearest to a question."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.errors import ConfigError, DataError, GlassformerError, LoadError
from glassformer.storage.parsing import parsing
from glassformer.tasks.batching import batched, raise_errors, require_iterable
from glassformer.tasks.embed import Embedder
from glassformer.tasks.index_header import HEADER, check_settings
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.tasks.pooling import Pooling
from glassformer.tasks.search.index import Added, IndexRows, Kept
from glassformer.tasks.search.passages import Passage, passages
from glassformer.tasks.search.text_files import decoded, digest_of, found_files, texts_folder
from glassformer.weights.save import dtype_of

PATTERNS = ("*.txt", "*.text", "*.md", "*.markdown", "*.rst")
LENGTH = 200  # tokens of a passage, if the model reads as many
COMMIT = 512  # the most passages that are lost if indexing is interrupted
TOGETHER = 64  # questions that are compared with the passages at a time
DOCUMENTS = ("document", "passage", "corpus")  # the prompt names that models use for documents


@dataclass(frozen=True)
class Hit:
    """A passage, its position in its file, and the cosine between its vector and the question's."""

    score: float
    file: str
    start: int
    end: int
    text: str

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class IndexChanges:
    """The changes of an update; `skipped` maps unreadable files to the reason."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    unchanged: int = 0
    passages: int = 0


@dataclass(frozen=True)
class _File:
    name: str
    path: Path
    digest: str
    size: int
    done: int  # passages that are in the index already


class Index:
    """Passages of the texts of a folder, with their vectors.

    `create` makes an index and `open` opens one; `update` adds changed files and `search` finds
    passages.
    """

    def __init__(self, rows: IndexRows, model: TaskModel) -> None:
        check_settings(rows.folder, rows.header)
        current = fingerprint(model)
        if current != rows.header["fingerprint"]:
            raise LoadError(
                f"The index {rows.folder} was made with another model ({rows.header['model']}), "
                "whose vectors cannot be compared with this one's; use that, or make a new index."
            )
        self.rows, self.model = rows, model
        with parsing(rows.folder / HEADER, "the header of an index"):
            self._pooling = Pooling.of(rows.header["pooling"])
        if Embedder.of(model, self._pooling).width != rows.width:
            raise LoadError(
                f"{rows.folder / HEADER} gives vectors of another width; make it again."
            )

    @classmethod
    def create(
        cls,
        folder: str | Path,
        model: TaskModel,
        texts: str | Path,
        *,
        name: str = "",
        pooling: str | Sequence[str] | None = None,
        max_length: int | None = None,
        vector_dtype: Kept = "float16",
        patterns: Sequence[str] = PATTERNS,
    ) -> Index:
        """Creates an empty index.

        Args:
            folder: The folder of the index.
            model: The model that embeds the passages.
            texts: The folder of the texts.
            name: The path from which the model can be loaded again.
            pooling: The pooling modes; the default is the model's own.
            max_length: The maximum number of tokens of a passage.
            vector_dtype: The dtype of the stored vectors.
            patterns: The file name patterns to index.
        """
        if vector_dtype not in ("float16", "float32"):
            raise ConfigError(f"Vectors are stored as float16 or float32, not {vector_dtype!r}.")
        embedder = Embedder.of(model, pooling, normalize=True)
        frame = len(require_tokenizer(model).encode(""))
        capacity = None if embedder.length is None else embedder.length - frame
        if max_length is not None and (
            max_length < 1 or (capacity is not None and max_length > capacity)
        ):
            raise ConfigError(
                f"A passage has 1 to {capacity} tokens with this model, not {max_length}."
            )
        header = {
            "model": name,
            "fingerprint": fingerprint(model),
            "dtype": dtype_of(model),
            "texts": str(texts_folder(texts).resolve()),
            "patterns": list(patterns),
            "length": max_length or min(LENGTH, capacity or LENGTH),
            "width": embedder.width,
            "kept": vector_dtype,
            "pooling": embedder.pooling.record(),
        }
        return cls(IndexRows.create(Path(folder), header), model)

    @classmethod
    def open(cls, folder: str | Path, model: TaskModel) -> Index:
        return cls(IndexRows.open(Path(folder)), model)

    def __len__(self) -> int:
        """The number of passages."""
        return self.rows.live

    @property
    def files(self) -> list[str]:
        return sorted(self.rows.entries)

    def update(
        self,
        texts: str | Path | None = None,
        *,
        on_error: Literal["stop", "skip"] = "stop",
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> IndexChanges:
        """Indexes files that are new or have changed, and removes those that no longer exist.

        After an interruption, the next update continues where it stopped.

        Args:
            texts: The folder of the texts, if it has moved.
            on_error: Whether an unreadable file raises ("stop") or is left out ("skip").
            progress: Called with the number of bytes done and in total.
        """
        with self.rows.writing():
            folder = texts_folder(texts or self.rows.header["texts"])
            if str(folder.resolve()) != self.rows.header["texts"]:
                self.rows.header["texts"] = str(folder.resolve())
                self.rows.write_header()
            changes = IndexChanges()
            waiting = self._compared(folder, changes, on_error)
            self.rows.forget(changes.removed)
            total, done = sum(file.size for file in waiting), 0
            progress(done, total)
            for added in self._embedded(waiting, changes, on_error):
                self.rows.add(added)
                changes.passages += sum(len(one.passages) for one in added)
                whole = {one.file for one in added if one.whole}
                done += sum(file.size for file in waiting if file.name in whole)
                progress(done, total)
            self.rows.compact()
        return changes

    def _compared(self, folder: Path, changes: IndexChanges, on_error: str) -> list[_File]:
        """Returns the files that need indexing."""
        entries, waiting, there = self.rows.entries, [], set()
        for name, path in found_files(folder, self.rows.header["patterns"]):
            there.add(name)
            try:
                content = path.read_bytes()
                decoded(content, path)
            except (OSError, GlassformerError) as error:
                _failed(error, name, path, changes, on_error)
                continue
            digest, entry = digest_of(content), entries.get(name)
            same = entry is not None and entry.digest == digest
            if entry is not None and same and entry.whole:
                changes.unchanged += 1
                continue
            (changes.added if entry is None or same else changes.changed).append(name)
            done = entry.count if entry is not None and same else 0
            waiting.append(_File(name, path, digest, len(content), done))
        changes.removed += sorted(set(entries) - there)
        return waiting

    def _embedded(
        self, files: Sequence[_File], changes: IndexChanges, on_error: str
    ) -> Iterator[list[Added]]:
        """Yields what is added at a time: about `COMMIT` passages of one or more files."""
        names = [name for name in DOCUMENTS if name in self._pooling.prompts][:1]
        embedder = Embedder.of(self.model, self._pooling, prompt=names[0] if names else None)
        pending: list[
            tuple[_File, Passage | None]
        ] = []  # in the order of the vectors; None: its end

        def texts() -> Iterator[str]:
            for file in files:
                try:
                    content = file.path.read_bytes()
                    if digest_of(content) != file.digest:
                        raise DataError(
                            f"{file.path} has changed while it was read.", path=file.path
                        )
                except (OSError, GlassformerError) as error:
                    _failed(error, file.name, file.path, changes, on_error)
                    continue
                text, tokenizer = decoded(content, file.path), require_tokenizer(self.model)
                cut = passages(text, tokenizer, self.rows.header["length"])
                for passage in islice(cut, file.done, None):
                    pending.append((file, passage))
                    yield passage.text
                pending.append((file, None))

        vectors = raise_errors(embedder(texts()))
        while True:
            group = list(islice(vectors, COMMIT))
            if not group and not pending:
                return
            yield _grouped(pending, group)

    @overload  # a str is also a sequence of str
    def search(self, question: str, top: int = 5) -> list[Hit]: ...  # type: ignore[overload-overlap]

    @overload
    def search(self, question: Sequence[str], top: int = 5) -> list[list[Hit]]: ...

    def search(self, question: str | Sequence[str], top: int = 5) -> list[Hit] | list[list[Hit]]:
        """Returns the passages nearest to a question, the nearest first.

        All passages are compared. A list of questions gives a list of such lists.
        """
        several = [question] if isinstance(question, str) else require_iterable(question)
        found = list(raise_errors(self.stream(several, top)))
        return found[0] if isinstance(question, str) else found

    def stream(
        self, questions: Iterable[str], top: int = 5
    ) -> Iterator[list[Hit] | GlassformerError]:
        """Yields results in order; a question that cannot be read yields an error in its place."""
        if top < 1:
            raise ConfigError(f"top must be at least 1, not {top}.")
        if not len(self):
            raise LoadError(f"The index {self.rows.folder} is empty; update it first.")
        prompt = "query" if "query" in self._pooling.prompts else None
        embedder = Embedder.of(self.model, self._pooling, prompt=prompt)
        for some in batched(questions, TOGETHER):
            vectors = list(embedder(some))
            known = [vector for vector in vectors if not isinstance(vector, GlassformerError)]
            near = iter(self._near(np.stack(known), top) if known else ())
            for vector in vectors:
                yield vector if isinstance(vector, GlassformerError) else next(near)

    def _near(self, vectors: NDArray[np.float32], top: int) -> list[list[Hit]]:
        """Returns the hits for vectors, [question, width]."""
        near = self.rows.nearest(vectors, top)
        files = iter(self.rows.files_of([row for rows in near for _, row in rows]))
        return [
            [Hit(score, next(files), *self.rows.passage(row)) for score, row in rows]
            for rows in near
        ]


def _grouped(
    pending: list[tuple[_File, Passage | None]], vectors: Sequence[np.ndarray[Any, Any]]
) -> list[Added]:
    """Removes from `told` the passages of these vectors and the file ends that follow."""
    added: list[Added] = []
    rest = list(vectors)
    while pending and (rest or pending[0][1] is None):
        file = pending[0][0]
        own: list[Passage] = []
        whole = False
        while pending and pending[0][0] is file and not whole:
            passage = pending[0][1]
            if passage is not None and len(own) == len(rest):
                break
            pending.pop(0)
            whole = passage is None
            if passage is not None:
                own.append(passage)
        width = rest[0].shape if rest else (0,)
        made = np.stack(rest[: len(own)]) if own else np.zeros((0, *width), np.float32)
        added.append(Added(file.name, file.digest, own, made, whole))
        rest = rest[len(own) :]
    return added


def _failed(error: Exception, name: str, path: Path, changes: IndexChanges, on_error: str) -> None:
    why = f"{path} cannot be read ({error.strerror})." if isinstance(error, OSError) else str(error)
    if on_error == "stop":
        why = why.rstrip(".")
        raise DataError(f"{why}, or leave such files out (--on-error skip).", path=path) from None
    changes.skipped[name] = why


def fingerprint(model: TaskModel) -> str:
    """Returns a hash that differs for every model that computes different vectors.

    It covers the tokenizer and all weights except heads, which do not affect the vectors.
    """
    digest = hashlib.sha256(require_tokenizer(model).fingerprint.encode())
    for name, tensor in sorted(model.state_dict().items()):
        if name.startswith("heads."):
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
