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

NAME = re.compile(r"(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(?P<revision>[\w.-]+(?:/[\w.-]+)*))?")
COMMIT = re.compile(r"[0-9a-f]{7,40}")
VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")  # the second is the older name


def cache_folder() -> Path:
    """Returns the folder of the cache, as `huggingface_hub` finds it."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    named = next(filter(None, map(os.environ.get, VARIABLES)), f"{home}/hub")
    return Path(os.path.expandvars(named)).expanduser()


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


def name_of(snapshot: Path) -> str | None:
    """Returns the name "org/name@COMMIT" of a snapshot's folder, or None for other folders."""
    repository = snapshot.parent.parent
    if snapshot.parent.name != "snapshots" or not is_repository(repository):
        return None
    return f"{repository.name.removeprefix('models--').replace('--', '/')}@{snapshot.name}"


def download_hint(folder: Path) -> str:
    """Returns the end of a message on a file that a folder lacks: how to get it, from the hub."""
    name = name_of(folder)
    return "" if name is None else f" --download (download=True) gets what {name} lacks here."


def snapshot_of(repository: Path, revision: str | None = None) -> Path:
    """Returns the snapshot of a revision: a branch, a tag or a commit. None is "main"."""
    wanted = revision or "main"
    reference = repository / "refs" / wanted
    commit = reference.read_text("utf-8", "replace").strip() if reference.is_file() else wanted
    snapshots = [path for path in sorted((repository / "snapshots").glob("*")) if path.is_dir()]
    exact = [path for path in snapshots if path.name == commit]
    begun = [
        path for path in snapshots if COMMIT.fullmatch(commit) and path.name.startswith(commit)
    ]
    only = snapshots if revision is None and not reference.is_file() else []
    for candidates in (exact, begun, only):
        if len(candidates) == 1:
            return candidates[0]
    refs = repository / "refs"
    names = [path.name for path in snapshots]
    commits = [name.encode() for name in names]
    known = [
        path.relative_to(refs).as_posix()
        for path in sorted(refs.glob("**/*"))
        if path.is_file() and path.read_bytes().strip() in commits
    ] + names
    raise LoadError(
        f"{repository} has no revision {wanted!r}; it has {', '.join(known) or 'none'}. To fetch "
        "another, download it (download=True, or --download)."
    )
