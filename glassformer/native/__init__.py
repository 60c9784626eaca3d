"""C++ beside Python: a source file becomes a library at first use, and stays one."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from glassformer.native.instructions import architecture

NUMBERS = Path(__file__).with_name("simd.h")  # for sources of other rooms
FLAGS = (
    *("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC"),
    # sums may be taken in any order; unlike -ffast-math this changes nothing outside the library
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
)


@cache
def library(source: Path, *headers: Path) -> ctypes.CDLL | None:
    """None where there is no compiler, or where it fails."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None
    try:
        command = [compiler, f"-march={architecture()}", *FLAGS]
        path = folder() / f"{source.stem}-{fingerprint(command, (source, *headers))}.so"
        if not path.exists():
            compile_to(path, command, source)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        return None


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "glassformer"


def fingerprint(command: list[str], files: tuple[Path, ...]) -> str:
    """Of all that the library depends on; a folder may be shared by several machines."""
    compiler, *flags = command
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    texts = (path.read_bytes() for path in files)
    about = (*texts, version, processor().encode(), *map(str.encode, flags))
    return hashlib.sha256(b"\0".join(about)).hexdigest()[:16]


def processor() -> str:
    """The instructions there are, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    known = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(known)}))


def compile_to(path: Path, command: list[str], source: Path) -> None:
    """Under another name first: several processes may be at it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as draft:
        made = Path(draft) / path.name
        whole = [*command, "-o", str(made), str(source)]
        subprocess.run(whole, capture_output=True, check=True, timeout=120)
        made.replace(path)
