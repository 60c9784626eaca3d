"""Compiles C++ sources to shared libraries at first use, and caches them."""

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

NUMBERS = Path(__file__).with_name("simd.h")  # included by sources of other packages
FLAGS = (
    *("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC"),
    # allows sums in any order; unlike -ffast-math this changes nothing outside the library
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
)


@cache
def library(source: Path, *headers: Path) -> ctypes.CDLL | None:
    """Returns the compiled library, or None without a compiler or if compilation fails.

    Args:
        source: The C++ source file.
        *headers: Headers that it includes; a change recompiles the source.
    """
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
    """Returns the cache folder of compiled libraries."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "glassformer"


def fingerprint(command: list[str], files: tuple[Path, ...]) -> str:
    """Hashes everything that the library depends on; machines may share the cache folder."""
    compiler, *flags = command
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    texts = (path.read_bytes() for path in files)
    about = (*texts, version, processor().encode(), *map(str.encode, flags))
    return hashlib.sha256(b"\0".join(about)).hexdigest()[:16]


def processor() -> str:
    """Describes the CPU's instruction sets, as far as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    known = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(known)}))


def compile_to(path: Path, command: list[str], source: Path) -> None:
    """Compiles to a temporary name and renames it, as several processes may compile at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as draft:
        made = Path(draft) / path.name
        whole = [*command, "-o", str(made), str(source)]
        subprocess.run(whole, capture_output=True, check=True, timeout=120)
        made.replace(path)
