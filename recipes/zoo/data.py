"""Makes the files that the zoo's recipes read, in data/zoo:

    python recipes/zoo/data.py translator          # or several, or all
    python recipes/zoo/data.py all --from FOLDER   # which has files that sources.py names

Published files are fetched at a pinned commit, or taken from folders that have them already; either
way their checksums are those in sources.py. The same files give the same splits."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import encoder
import letters
import reader
import six_words
import translator
from sources import SourceFiles

MAKERS: dict[str, Callable[[SourceFiles, Path], None]] = {
    "translator": translator.make,
    "reader": reader.make,
    "encoder": encoder.make,  # which reads none of what the other two are tested with
    "letters": letters.make,
    "six": six_words.make,
}
HOME = Path("data", "zoo")


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("names", nargs="+", choices=[*MAKERS, "all"])
    asked.add_argument("--from", dest="folders", action="append", default=[], type=Path)
    asked.add_argument("--to", default=HOME, type=Path)
    given = asked.parse_args()
    wanted = {*(MAKERS if "all" in given.names else given.names)}
    if "encoder" in wanted:
        wanted |= {"translator", "reader"}
    sources = SourceFiles([*given.folders, given.to / "published"])
    for name, make in MAKERS.items():
        if name in wanted:
            make(sources, given.to / name)
            print(f"{given.to / name}: {measured(given.to / name)}")


def measured(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
