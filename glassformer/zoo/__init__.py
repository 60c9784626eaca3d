"""Small models trained by the project and shipped with it, so that everything works offline.

All information on a model is in its own folder: config.json, and the model card (README.md). Some
models are part of this package, the others of the second distribution, glassformer-zoo.
`published.py` lists models published by others.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from glassformer.errors import LoadError

PREFIX = "zoo:"
HOME = Path(__file__).parent
DISTRIBUTION = "glassformer-zoo"
IN_DISTRIBUTION = ("reader", "shakespeare")
"""The models of the second distribution; listed here to be named where it is not installed."""


@dataclass(frozen=True)
class ZooModel:
    """Description of a model.

    `about` is the first sentence of the card, `kind` the published class.
    """

    name: str
    kind: str
    parameters: int
    about: str
    size: int  # bytes on disk
    license: str
    path: str | None
    version: str = ""
    sha256: str = ""  # of model.safetensors


def model_roots() -> list[Path]:
    """Returns the folders with built-in models: this package's, and that of glassformer-zoo."""
    found = importlib.util.find_spec("glassformer_zoo")
    return [HOME, *map(Path, (found and found.submodule_search_locations) or ())]


def folders() -> dict[str, Path]:
    """Returns the folders of the built-in models on this machine, by name."""
    found = (path.parent for home in model_roots() for path in home.glob("*/config.json"))
    return {folder.name: folder for folder in sorted(found, key=lambda folder: folder.name)}


def is_model(folder: Path) -> bool:
    """Returns whether a folder is that of a built-in model."""
    return folder.parent in model_roots()


def names() -> list[str]:
    """Returns the names of the built-in models on this machine."""
    return list(folders())


def for_a_visitor() -> list[str]:
    """Returns all names, first those whose cards say `shown: 1`, `shown: 2` and so on."""
    places = {name: card_of(name)[0].get("shown", "") for name in names()}
    return sorted(places, key=lambda name: (not places[name], places[name], name))


def samples_of(name: str) -> list[dict[str, str]]:
    """Returns the sample inputs of a model card.

    They are a `widget:` list with one JSON object per line, `- {"text": ...}`, which may have a
    `pair` or a `target`.
    """
    listed = re.search(r"^widget:\n((?:- .*(?:\n|$))+)", halves_of(name)[0], re.M)
    lines = listed[1].splitlines() if listed else []
    try:
        return [json.loads(line.removeprefix("- ")) for line in lines]
    except ValueError as error:
        raise LoadError(
            f"The samples in the card of zoo:{name} are not one JSON object a line ({error})."
        ) from None


def folder_of(name: str) -> Path:
    """Returns the folder of a model by its name, with or without "zoo:".

    Args:
        name: The name, or "name@version" for the version that ships, and no other.
    """
    name, _, version = name.removeprefix(PREFIX).partition("@")
    found = folders()
    if name in found:
        if version:
            check_version(name, version)
        return found[name]
    if name in IN_DISTRIBUTION:
        raise LoadError(
            f"{PREFIX}{name} is in a package that is not installed; pip install {DISTRIBUTION}."
        )
    known = [*found, *IN_DISTRIBUTION]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(found)}."
    raise LoadError(f"There is no model {name!r} in the zoo; {hint}")


def check_version(name: str, version: str) -> None:
    """Raises an error that names the current version, if the given one does not ship."""
    current = read(name)
    if version == current.version:
        return
    replaced = card_of(name)[0].get("replaces", "").split()
    what = f"has been replaced by version {current.version}" if version in replaced else (
        f"is not a version that ships; the version here is {current.version}"
    )  # fmt: skip
    raise LoadError(
        f"{PREFIX}{name}@{version} {what} ({current.about.rstrip('.')}); "
        f"load {PREFIX}{name}, or {PREFIX}{name}@{current.version}."
    )


def checksum(name: str) -> str:
    """Returns the SHA-256 of a model's weights on this machine."""
    with (folder_of(name) / "model.safetensors").open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read(name: str) -> ZooModel:
    """Returns the description of a shipped model."""
    folder = folder_of(name)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    front, text = card_of(name)
    paragraph = next((p for p in text.split("\n\n") if not p.lstrip().startswith("#")), "")
    return ZooModel(
        name=folder.name,
        kind=next(iter(config.get("architectures", ())), config["model_type"]),
        parameters=int(front["parameters"]),
        about=re.split(r"(?<=[.!?])\s", " ".join(paragraph.split()))[0],
        size=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        license=front.get("license", "unknown"),
        path=str(folder),
        version=front.get("version", ""),
        sha256=front.get("sha256", ""),
    )


def card_of(name: str) -> tuple[dict[str, str], str]:
    """Returns the `key: value` entries of a card's front matter, and the text after it."""
    front, text = halves_of(name)
    return dict(re.findall(r"^(\w+): *(.+?) *$", front, re.M)), text


def halves_of(name: str) -> tuple[str, str]:
    """Returns a card's front matter, and the text after it."""
    card = (folder_of(name) / "README.md").read_text("utf-8")
    found = re.match(r"---\n(.*?)\n---\n", card, re.S)
    return ("", card) if found is None else (found[1], card[found.end() :].lstrip("\n"))
