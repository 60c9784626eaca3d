"""Models in the Hugging Face hub's cache on this machine.

The cache has a folder `models--ORG--NAME` per repository, in which `refs/REVISION` holds a commit
and `snapshots/COMMIT` the files. It is read here, because `huggingface_hub` is an extra that only
downloads need.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from glassformer.errors import LoadError

NAME = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")
COMMIT = re.compile(r"[0-9a-f]{7,40}")


def cache_folder() -> Path:
    """Returns the folder of the cache, as `huggingface_hub` finds it."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"]).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    return Path(home).expanduser() / "hub"


def find_in_cache(name: str) -> Path | None:
    """Returns the snapshot of a repository: "bert-base-uncased", "org/name" or "org/name@revision".

    Returns:
        The snapshot's folder; None if the name is not that of a repository in the cache.

    Raises:
        LoadError: If the repository is in the cache without the revision.
    """
    if not is_hub_name(name):
        return None
    repository, _, revision = name.partition("@")
    folder = repository_folder(repository)
    return snapshot_of(folder, revision or None) if folder.is_dir() else None


def cached_snapshot(name: str) -> Path | None:
    """Returns the snapshot of a repository, or None if the cache lacks it or the revision."""
    try:
        return find_in_cache(name)
    except LoadError:
        return None


def is_hub_name(name: str) -> bool:
    """Whether this can be the name of a repository, with or without a revision."""
    return NAME.fullmatch(name) is not None and ".." not in name


def repository_folder(repository: str) -> Path:
    """Returns the folder of a repository in the cache."""
    return cache_folder() / f"models--{repository.replace('/', '--')}"


def is_repository(folder: Path) -> bool:
    """Whether the folder is a repository of the cache, not one of its snapshots."""
    return folder.name.startswith("models--") and (folder / "snapshots").is_dir()


def snapshot_of(repository: Path, revision: str | None = None) -> Path:
    """Returns the snapshot of a revision: a branch, a tag or a commit. None is "main"."""
    wanted = revision or "main"
    reference = repository / "refs" / wanted
    commit = reference.read_text("utf-8").strip() if reference.is_file() else wanted
    snapshots = [path for path in sorted((repository / "snapshots").glob("*")) if path.is_dir()]
    exact = [path for path in snapshots if path.name == commit]
    begun = [
        path for path in snapshots if COMMIT.fullmatch(commit) and path.name.startswith(commit)
    ]
    only = snapshots if revision is None and len(snapshots) == 1 else []
    for candidates in (exact, begun, only):
        if len(candidates) == 1:
            return candidates[0]
    known = [path.name for path in sorted((repository / "refs").glob("**/*")) if path.is_file()]
    known += [path.name for path in snapshots]
    raise LoadError(
        f"{repository} has no revision {wanted!r}; it has {', '.join(known) or 'none'}. To fetch "
        "another, download it (download=True, or --download)."
    )
