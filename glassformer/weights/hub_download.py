"""Download of models from the Hugging Face hub into its cache, only when the user asks.

`huggingface_hub` (the extra `hub`) makes the requests, with the user's token and endpoint. A file
is verified before it enters the cache: its size, and the SHA-256 or git hash by which the hub names
it. What an interrupted download has received stays, and the next one continues it. A snapshot
appears when all of its files are there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import write_text
from glassformer.storage.names import is_plain, named_in
from glassformer.weights.folder_kind import ADAPTER_FILES
from glassformer.weights.hub_cache import (
    cache_folder,
    cached_snapshot,
    is_hub_name,
    repository_folder,
)
from glassformer.weights.weight_files import is_index, weights_among

VARIABLE = "GLASSFORMER_DOWNLOAD"
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # of git, and SHA-256 of large files
SIDE = re.compile(r".+\.(json|model|spm|jinja|tiktoken)|.*(vocab|merges).*\.txt|bpe\.codes")
TRAINING = re.compile(r".+\.index\.json|trainer_state\.json|.*_results\.json")
MODULE = re.compile(r"\d+_\w+/config\.json|additional_chat_templates/[\w-]+\.jinja")
BLOCK = 2**20  # bytes that are hashed at a time


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository: its name, its size, and the hash that identifies its content."""

    name: str
    size: int
    hash: str


def may_download(asked: bool = False) -> bool:
    """Whether the user asked for downloads, by an argument or by GLASSFORMER_DOWNLOAD=1."""
    return asked or os.environ.get(VARIABLE, "").lower() in ("1", "true", "yes", "on")


def fetch_from_hub(name: str) -> Path:
    """Downloads the files of a model that a load needs, unless they are in the cache.

    Args:
        name: "name", "org/name" or "org/name@revision".

    Returns:
        The snapshot's folder in the cache.

    Raises:
        LoadError: With the reason, if the model cannot be downloaded and is not in the cache.
    """
    if not is_hub_name(name):
        raise LoadError(f"{name!r} is not the name of a model on the hub (org/name).")
    hub = _library()
    if hub.constants.is_offline_mode():
        cached = cached_snapshot(name)
        if cached is None:
            raise LoadError(
                f"{name} is not in the hub's cache ({cache_folder()}), and HF_HUB_OFFLINE forbids "
                "to download it; unset HF_HUB_OFFLINE."
            )
        return cached
    repository, _, revision = name.partition("@")
    errors: Any = hub.errors
    try:
        return _Repository(hub, repository, revision or "main").fetch()
    except GlassformerError:
        raise
    except errors.HfHubHTTPError as error:
        raise LoadError(_refusal(hub, error, repository, revision)) from None
    except (errors.HTTPError, ConnectionError) as error:
        cached = cached_snapshot(name)
        if cached is not None:
            return cached
        raise LoadError(
            f"{repository} was not downloaded from {hub.constants.ENDPOINT}: {_first_line(error)}; "
            "the same command continues the download."
        ) from None
    except (errors.HFValidationError, OSError) as error:
        raise LoadError(f"{repository} cannot be downloaded: {_first_line(error)}.") from None


class _Repository:
    """A repository of the hub at a revision, and its folder in the cache."""

    def __init__(self, hub: ModuleType, name: str, revision: str) -> None:
        self.hub, self.name, self.revision = hub, name, revision
        info: Any = hub.HfApi().model_info(name, revision=revision, files_metadata=True)
        self.commit = str(info.sha)
        if not re.fullmatch(r"[0-9a-f]{40}", self.commit):
            raise LoadError(f"The hub gives {name} no commit; is HF_ENDPOINT a hub?")
        self.files = {
            file.rfilename: RemoteFile(
                file.rfilename,
                file.size if file.lfs is None else file.lfs.size,
                file.blob_id if file.lfs is None else file.lfs.sha256,
            )
            for file in info.siblings
        }
        self.folder = repository_folder(name)

    def fetch(self) -> Path:
        """Downloads what is missing, then links the files into the snapshot."""
        weights = weights_needed(self.files, self.name)
        names = [*side_files(self.files), *weights]
        blobs = {name: self._blob(name) for name in names}
        for index in weights:
            if is_index(index):
                blobs |= {name: self._blob(name) for name in self._shards(blobs[index], index)}
        snapshot = self.folder / "snapshots" / self.commit
        for name, blob in blobs.items():
            _link(blob, snapshot / name)
        if self.revision != self.commit:
            reference = self.folder / "refs" / self.revision
            reference.parent.mkdir(parents=True, exist_ok=True)
            write_text(reference, self.commit)
        return snapshot

    def _shards(self, blob: Path, index: str) -> list[str]:
        """Returns the files that an index names."""
        try:
            names = sorted(set(json.loads(blob.read_text("utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LoadError(f"{index} of {self.name} is not an index of shards.") from None
        for name in names:
            named_in(self.folder, name, Path(index))
            if name not in self.files:
                raise LoadError(f"{index} of {self.name} names {name}, which is not there.")
        return names

    def _blob(self, name: str) -> Path:
        """Returns the file in the cache with the content of a file, after downloading it."""
        file = self.files[name]
        if not (HASH.fullmatch(str(file.hash)) and all(map(is_plain, name.split("/")))):
            raise LoadError(f"The hub describes the file {name!r} of {self.name} wrongly.")
        blob = self.folder / "blobs" / file.hash
        if blob.is_file():
            return blob
        blob.parent.mkdir(parents=True, exist_ok=True)
        locks = cache_folder() / ".locks" / self.folder.name  # the library's own locks
        locks.mkdir(parents=True, exist_ok=True)
        with self.hub.utils.WeakFileLock(locks / f"{file.hash}.lock"):
            if not blob.is_file():  # otherwise another process has downloaded it meanwhile
                self._receive(file, blob)
        return blob

    def _receive(self, file: RemoteFile, blob: Path) -> None:
        """Downloads a file, or the rest of it, and verifies it."""
        begun = blob.with_name(f"{file.hash}.incomplete")
        with begun.open("ab") as target:
            done = target.tell()
            if done > file.size:
                target.truncate(0)
                done = 0
            self.hub.file_download.http_get(
                self.hub.hf_hub_url(self.name, file.name, revision=self.commit),
                target,
                resume_size=done,
                headers={**self.hub.utils.build_hf_headers(), "Accept-Encoding": "identity"},
                expected_size=file.size,
                displayed_filename=file.name,
            )
        if hash_of(begun, file.hash) != file.hash:
            begun.unlink()
            raise LoadError(
                f"{file.name} of {self.name} arrived with another content than the hub says (its "
                "hash differs) and was deleted; try again."
            )
        begun.rename(blob)


def side_files(names: Collection[str]) -> list[str]:
    """Returns the small files that a load may read: configs, tokenizer files, chat templates."""
    return sorted(
        name
        for name in names
        if MODULE.fullmatch(name)
        or ("/" not in name and SIDE.fullmatch(name) and not TRAINING.fullmatch(name))
    )


def weights_needed(names: Collection[str], repository: str) -> tuple[str, ...]:
    """Returns the weights that a load reads: those of a model, or else of an adapter."""
    top = {name for name in names if "/" not in name}
    try:
        return weights_among(top, repository)
    except LoadError:
        for name in ADAPTER_FILES:
            if name in top:
                return (name,)
        single = sorted(name for name in top if name.endswith(".gguf"))
        if not single:
            raise
        raise LoadError(
            f"{repository} has GGUF files alone ({', '.join(single[:3])}, ...); download the one "
            f"that you want: hf download {repository} {single[0]}."
        ) from None


def hash_of(path: Path, like: str) -> str:
    """Returns the hash of a file: its SHA-256, or git's hash if `like` is one."""
    git = len(like) == 40
    digest = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _link(blob: Path, pointer: Path) -> None:
    """Links a file of a snapshot to its content, as the library does."""
    if pointer.exists():
        return
    pointer.parent.mkdir(parents=True, exist_ok=True)
    draft = pointer.with_name(f".{pointer.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(os.path.relpath(blob, pointer.parent))
    draft.replace(pointer)


def _library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.file_download
    except ImportError:
        raise LoadError(
            "Downloads from the hub need huggingface_hub; pip install 'glassformer[hub]'."
        ) from None
    return huggingface_hub


def _refusal(hub: ModuleType, error: Any, name: str, revision: str) -> str:
    """Returns the sentence for an answer of the hub that is an error."""
    login = "log in (hf auth login, or HF_TOKEN)"
    endpoint: str = hub.constants.ENDPOINT
    sentences: Mapping[type[Exception], str] = {
        hub.errors.GatedRepoError: f"{name} is gated: ask for access at {endpoint}/{name}, and "
        f"{login}.",
        hub.errors.RepositoryNotFoundError: f"There is no folder {name}, and the hub shows no "
        f"model of that name; check it, and for a private one {login}.",
        hub.errors.RevisionNotFoundError: f"{name} has no revision {revision!r} on the hub.",
    }
    known = (said for kind, said in sentences.items() if isinstance(error, kind))
    status = error.response.status_code
    refused = f"The hub refused {name} ({status}); {login}."
    failed = f"The hub did not answer for {name} ({status}); try again later."
    return next(known, refused if status in (401, 403) else failed)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
