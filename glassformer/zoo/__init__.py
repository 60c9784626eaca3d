"""Small models trained by the project and shipped with it, so that everything works offline.

All information on a model is in its own folder: config.json, and the model card (README.md).
`published.py` lists models published by others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from glassformer.errors import LoadError

PREFIX = "zoo:"
HOME = Path(__file__).parent


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


def names() -> list[str]:
    """Returns the names of the shipped models."""
    return sorted(path.parent.name for path in HOME.glob("*/config.json"))


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
    """Returns the folder of a model by its name, with or without "zoo:"."""
    name = name.removeprefix(PREFIX)
    if name in names():
        return HOME / name
    near = get_close_matches(name, names(), 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names())}."
    raise LoadError(f"There is no model {name!r} in the zoo; {hint}")


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
