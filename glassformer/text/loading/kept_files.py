"""Checks that files which a save leaves in a folder do not change what the saved tokenizer does."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import LoadError
from glassformer.text.loading.files import SIDE_FILES, SIDE_FOLDER, read_json_if_there
from glassformer.text.loading.tokenizer_config import TokenizerConfig


def check_kept_files(folder: Path, draft: Path) -> None:
    """Raises an error if a file of another tokenizer would be read with the new one.

    Args:
        folder: The folder that a tokenizer is saved to.
        draft: The new files, which replace those of the same names.
    """
    templates = [folder / name for name in SIDE_FILES] + sorted(
        (folder / SIDE_FOLDER).glob("*.jinja")
    )
    for path in templates:
        if path.is_file() and not (draft / path.relative_to(folder)).is_file():
            raise other_settings(path)
    config = read_json_if_there(draft / "tokenizer_config.json")
    if "added_tokens_decoder" in config:  # the two files below are not read
        return
    path = folder / "special_tokens_map.json"
    if _special(config | read_json_if_there(path)) != _special(config):
        raise other_settings(path)
    path = folder / "added_tokens.json"
    if read_json_if_there(path):
        raise other_settings(path)


def other_settings(path: Path) -> LoadError:
    return LoadError(
        f"{path} is not a file of what is saved here, and would be read with it; move it away, or "
        "save into another folder."
    )


def _special(config: dict[str, object]) -> list[str]:
    return [token.content for token in TokenizerConfig(config).special_tokens()]
