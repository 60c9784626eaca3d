"""Detects the kind of tokenizer that a folder or model file contains, and loads it."""

from pathlib import Path

from tokenizers import Tokenizer as Backend

from glassformer.errors import LoadError
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.gguf_header import GgufHeader, is_gguf
from glassformer.storage.parsing import parsing, read_json, silent
from glassformer.text.backend import LibraryBackend, TokenizerBackend
from glassformer.text.backends.whisper import (
    START,
    holds_table,
    load_table,
    start_id,
    without_words,
)
from glassformer.text.languages import LanguageBackend
from glassformer.text.loading.catalog import BY_FILES, FAMILIES, TokenizerFamily
from glassformer.text.loading.files import check_ids, read_bytes, read_json_if_there
from glassformer.text.loading.gguf import backend_of, has_tokenizer
from glassformer.text.loading.llama2c import is_llama2c, metadata_beside
from glassformer.text.loading.tokenizer_classes import is_foreign, model_type_by_class
from glassformer.text.loading.tokenizer_config import ROLES, TokenizerConfig, add_tokens, content


def load_backend(
    folder: Path, size: int | None = None
) -> tuple[TokenizerBackend, TokenizerConfig, bool]:
    """Loads the tokenizer backend of a model folder or file.

    `tokenizer.json` takes precedence, except for families that it cannot describe.

    Args:
        folder: The model folder, or a model that is a single file.
        size: The vocabulary size of a model that is a single file, for which the files beside it
            may not state the size.

    Returns:
        The backend, the settings, and whether the model uses segments.
    """
    if is_gguf(folder):
        return *backend_of(GgufHeader(folder).metadata), False
    if is_llama2c(folder):
        return *backend_of(metadata_beside(folder)), False
    if folder.is_file():
        return load_openai(folder, size)
    if not folder.is_dir():
        raise LoadError(f"The tokenizer folder {folder} does not exist.")
    model_type = type_of(folder)
    family = FAMILIES.get(model_type) if model_type else family_by_files(folder)
    foreign = is_foreign(class_of(folder))
    complete = family is not None and family.complete(folder) and not foreign
    library_file = folder / "tokenizer.json"
    if family and complete and not (family.library_file and library_file.is_file()):
        settings = TokenizerConfig.read(folder, family.defaults)
        with parsing(folder, "a folder of tokenizer files that fit each other"):
            backend = family.load(folder, settings)
    elif library_file.is_file():
        library = read_library_file(library_file)
        settings = TokenizerConfig.read(
            folder, known_defaults(family if model_type else None, library)
        )
        add_tokens(library, settings)
        backend = LibraryBackend(library, was_parsed=True)
    else:
        raise LoadError(nothing_found(folder, model_type, family))
    if isinstance(backend, LibraryBackend) and "language_code" in settings.values:
        backend = LanguageBackend.of(backend, settings)
    return backend, settings, wants_segments(backend, settings, family)


def load_openai(path: Path, size: int | None) -> tuple[TokenizerBackend, TokenizerConfig, bool]:
    """Loads the tokenizer of OpenAI's .pt file from the files beside it.

    These are a .tiktoken table or the files of a published folder.
    """
    folder, family = path.parent, FAMILIES["whisper"]
    library_file, settings = folder / "tokenizer.json", TokenizerConfig(family.defaults)
    if holds_table(folder):
        return load_table(folder, settings, size), settings, False
    if library_file.is_file():
        library = read_library_file(library_file)
        settings = TokenizerConfig.read(folder, known_defaults(family, library))
        add_tokens(library, settings)
        backend: TokenizerBackend = LibraryBackend(library, was_parsed=True)
    elif family.complete(folder):
        backend = family.load(folder, settings)
    else:
        raise LoadError(without_words(path, size))
    start = None if size is None else start_id(size)
    if start is not None and backend.vocabulary.token_to_id(START) != start:
        raise LoadError(
            f"The tokenizer beside {path} is another model's: {START} is not its token {start}; "
            f"{without_words(path, size)}"
        )
    return backend, settings, False


def type_of(folder: Path) -> str | None:
    """Returns the model type whose tokenizer the folder uses.

    It differs from the model's own type if the tokenizer class belongs to another type.
    """
    model_type = read_json_if_there(folder / "config.json").get("model_type")
    if model_type is not None and not isinstance(model_type, str):
        raise LoadError(f"{folder / 'config.json'} has model_type = {model_type!r}; it is a text.")
    return model_type_by_class(class_of(folder), model_type)


def class_of(folder: Path) -> str | None:
    """Returns the published class of the tokenizer, or None if no file names it."""
    for name in ("tokenizer_config.json", "config.json"):
        found = read_json_if_there(folder / name).get("tokenizer_class")
        if found is not None:
            return str(found)
    return None


def holds_tokenizer(folder: Path) -> bool:
    """Whether any tokenizer file is present; loading may still find that another is missing."""
    if is_gguf(folder):
        return has_tokenizer(GgufHeader(folder).metadata)
    if is_llama2c(folder):
        return has_tokenizer(metadata_beside(folder))
    if folder.is_file():
        whisper = FAMILIES["whisper"].complete(folder.parent)
        return whisper or (folder.parent / "tokenizer.json").is_file()
    complete_pending_save(folder)
    families = FAMILIES.values()
    sets = [names for family in families for names in (family.files, *family.or_files)]
    names = {"tokenizer.json", *(name for names in sets for name in names)}
    return any((folder / name).is_file() for name in names)


def read_library_file(path: Path) -> Backend:
    described = read_json(path)
    model, added = described.get("model"), described.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        check_ids(vocabulary, path)
    tokens = [one for one in added if isinstance(one, dict)] if isinstance(added, list) else []
    size = len(vocabulary) if isinstance(vocabulary, dict | list) else 0
    for one in tokens:
        if not isinstance(one.get("id"), int) or not 0 <= one["id"] <= 16 * size + 2**16:
            raise LoadError(f"The file {path} gives an added token the id {one.get('id')!r}.")
    with silent(), parsing(path, "a tokenizer that the tokenizers library knows"):
        library = Backend.from_str(read_bytes(path).decode("utf-8"))
        library.no_truncation()
        library.no_padding()
        # A template may name special tokens that it does not define, and ids that are no tokens.
        written = {*library.encode("").ids, *library.encode("", "").ids}
    number = model.get("unk_id") if isinstance(model, dict) else None
    name = None if number is None else library.id_to_token(number)
    if name is not None and library.token_to_id(name) != number:
        raise LoadError(f"The file {path} lists the unknown token {name!r} twice.")
    unknown = [i for i in sorted(written) if library.id_to_token(i) is None]
    if unknown:
        raise LoadError(f"The template of {path} adds the id {unknown[0]}, which is no token.")
    return library


def family_by_files(folder: Path) -> TokenizerFamily | None:
    """Returns the family that the files belong to, for folders without a model type."""
    return next((FAMILIES[n] for n in BY_FILES if FAMILIES[n].complete(folder)), None)


def known_defaults(family: TokenizerFamily | None, library: Backend) -> dict[str, object]:
    """Returns a family's default settings without the tokens that this vocabulary does not have."""
    defaults = family.defaults if family else {}
    role_names = [f"{role}_token" for role in ROLES]
    tokens = {name: content(defaults[name]) for name in role_names if name in defaults}
    absent = [name for name, token in tokens.items() if library.token_to_id(token) is None]
    return {name: value for name, value in defaults.items() if name not in absent}


def wants_segments(
    backend: TokenizerBackend, settings: TokenizerConfig, family: TokenizerFamily | None
) -> bool:
    """Whether the model uses segment ids."""
    names = settings.values.get("model_input_names")
    if names is not None:
        return "token_type_ids" in names
    if family is not None:
        return family.segments
    return "cls" in settings.roles and 1 in backend.read([("a", "b")], True)[0].segments


def nothing_found(folder: Path, model_type: str | None, family: TokenizerFamily | None) -> str:
    named = class_of(folder)
    if is_foreign(named):
        return (
            f"The folder {folder} asks for the tokenizer class {named!r}, which is not known here, "
            "and has no tokenizer.json; save the tokenizer as tokenizer.json, or give token ids in "
            "place of texts."
        )
    if model_type is None:
        legacy = "; ".join(" + ".join(FAMILIES[name].files) for name in BY_FILES)
        return (
            f"The folder {folder} has no tokenizer: looked for tokenizer.json and for {legacy}. "
            "Copy the tokenizer files next to the model."
        )
    if family is None:
        return (
            f"The folder {folder} has no tokenizer.json, and its model type {model_type!r} is not "
            f"among those whose older files can be read ({', '.join(FAMILIES)}); "
            "save the tokenizer as tokenizer.json."
        )
    missing = [name for name in family.files if not (folder / name).is_file()]
    sets = [*([("tokenizer.json",)] if family.library_file else []), family.files, *family.or_files]
    return (
        f"The folder {folder} has no tokenizer: a {model_type} model needs "
        f"{' or '.join(' + '.join(names) for names in sets)}, "
        f"and there is no {', no '.join(missing)}."
    )
