"""Trains tokenizers on files or texts in memory.

Files are read line by line, so they may be larger than memory.
"""

import codecs
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer as Backend

from glassformer.errors import ConfigError, DataError, InputError
from glassformer.text.backend import LibraryBackend, set_template
from glassformer.text.languages import address
from glassformer.text.loading.tokenizer_config import ROLES, TokenizerConfig, special_token
from glassformer.text.loading.wordpiece_bpe import add_bos_eos
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.tokenizer_languages import control_token
from glassformer.text.training.trainers import KINDS, TrainerOptions

LONGEST_READ = 2**20
"""Longer lines, in bytes, are read in parts."""


def train(
    type: str,
    files: str | Path | Sequence[str | Path] = (),
    vocab_size: int = 8000,
    *,
    texts: Iterable[str] = (),
    special_tokens: Mapping[str, str] | None = None,
    languages: Sequence[str] = (),
    control_codes: Sequence[str] = (),
    add_bos: bool = False,
    add_eos: bool = False,
    lowercase: bool = False,
    min_frequency: int = 1,
    sample: int | None = 2**28,
    progress: bool = False,
) -> Tokenizer:
    """Trains a tokenizer on files and on texts in memory.

    Training needs memory for each distinct word, and in Chinese nearly every clause is one.
    Therefore files with more than `sample` bytes are sampled.

    Args:
        type: The type of tokenizer, a key of `trainers.KINDS`.
        files: Text files in UTF-8.
        vocab_size: The largest number of tokens.
        texts: Further texts.
        special_tokens: Maps roles (bos, eos, unk, sep, pad, cls, mask) to tokens. With cls and sep,
            texts are framed as BERT frames them.
        languages: Target languages for translation; each gets a token, `>>fra<<` for "fra".
        control_codes: Kinds of texts; each gets a token, `<|story|>` for "story".
        add_bos: Whether to put the bos token before each text.
        add_eos: Whether to put the eos token after each text.
        lowercase: Whether to lowercase texts.
        min_frequency: How often a token must occur to be learned.
        sample: About how many bytes of the files to read; lines are drawn uniformly. None reads
            everything.
        progress: Whether to show a progress bar.

    Returns:
        The tokenizer.
    """
    if type not in KINDS:
        raise ConfigError(f"There is no tokenizer type {type!r}; choose from {', '.join(KINDS)}.")
    roles = dict(KINDS[type].special if special_tokens is None else special_tokens)
    codes = [*map(address, languages), *map(control_token, control_codes)]
    plan = TrainerOptions(
        size=vocab_size,
        special=[special_token(token) for token in dict.fromkeys([*roles.values(), *codes])],
        unknown=roles.get("unk"),
        lowercase=lowercase,
        min_frequency=min_frequency,
        progress=progress,
    )
    check(type, plan, roles)
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(path) for path in files]
    source = TrainingTexts(paths, texts, sample)
    backend, trainer = KINDS[type].make(plan)
    try:
        backend.train_from_iterator(iter(source), trainer)
    except Exception as error:
        if error.__class__ is not Exception:  # raised by `texts` or a file, not by the library
            raise
        raise ConfigError(
            f"A {type} tokenizer of {vocab_size} tokens could not be trained ({error}); try a "
            "larger vocabulary or more text."
        ) from None
    if not source.seen or backend.get_vocab_size() <= len(plan.special):
        where = f" in {', '.join(map(str, paths))}" if paths else ""
        raise DataError(f"There is no text to train on{where}.")
    backend = KINDS[type].finish(backend, plan, as_read(source.seen, backend))
    settings = TokenizerConfig(
        {
            **{f"{role}_token": token for role, token in roles.items()},
            **({"extra_special_tokens": codes} if codes else {}),
            **({"control_codes": [*control_codes]} if control_codes else {}),
            "add_bos_token": add_bos,
            "add_eos_token": add_eos,
        }
    )
    framed = "cls" in roles and "sep" in roles
    if framed:
        cls, sep = roles["cls"], roles["sep"]
        set_template(backend, [cls, "$A", sep], [cls, "$A", sep, "$B:1", f"{sep}:1"])
    else:
        add_bos_eos(backend, settings, bos=False)
    return Tokenizer(LibraryBackend(backend), settings, segments=framed)


def as_read(seen: Counter[str], backend: Backend) -> Counter[str]:
    """Returns the character counts after normalization.

    With lowercasing, for example, a capital letter counts as its small letter.
    """
    if backend.normalizer is None:
        return seen
    found: Counter[str] = Counter()
    for character, count in seen.items():
        for read in backend.normalizer.normalize_str(character):
            found[read] += count
    return found


def check(kind: str, plan: TrainerOptions, roles: Mapping[str, str]) -> None:
    unheard = [role for role in roles if role not in ROLES]
    if unheard:
        raise ConfigError(
            f"There is no special role {unheard[0]!r}; choose from {', '.join(ROLES)}."
        )
    if plan.unknown is None and "unk" in KINDS[kind].special:
        raise ConfigError(
            f"A {kind} tokenizer needs an unknown token: add one to special_tokens, as unk."
        )
    least = len(plan.special) + KINDS[kind].alphabet
    if plan.size < least:
        raise ConfigError(
            f"vocab_size={plan.size} is too small: a {kind} tokenizer with {len(plan.special)} "
            f"special tokens has at least {least} tokens."
        )


class TrainingTexts:
    """Iterates over the training texts and counts their characters."""

    def __init__(self, paths: list[Path], texts: Iterable[str], sample: int | None) -> None:
        if isinstance(texts, str):
            raise InputError("texts must be a list or another iterable of str, not one str.")
        for path in paths:
            if not path.is_file():
                raise DataError(f"The file {path} does not exist.", path=path)
        self._paths = paths
        self._texts = texts
        self._share = line_fraction(paths, sample)
        self.seen: Counter[str] = Counter()
        """How often each character occurred."""

    def __iter__(self) -> Iterator[str]:
        draw = random.Random(0)
        for path in self._paths:
            for line in read_file(path):
                if self._share == 1 or draw.random() < self._share:
                    self.seen.update(line)
                    yield line
        for text in self._texts:
            if not isinstance(text, str):
                raise InputError(f"A text must be a str, not {type(text).__name__}.")
            self.seen.update(text)
            yield text


def line_fraction(paths: list[Path], sample: int | None) -> float:
    """Returns the fraction of lines to read."""
    total = sum(path.stat().st_size for path in paths)
    return 1.0 if sample is None or total <= sample else sample / total


def read_file(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file with their line ends; very long lines come in parts."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    number = 1
    with path.open("rb") as stream:
        while part := stream.readline(LONGEST_READ):
            ended = part.endswith(b"\n")
            try:
                text = decoder.decode(part, final=ended)
            except UnicodeDecodeError:
                raise DataError(undecodable(path, number), path=path, line=number) from None
            number += ended
            yield text
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise DataError(undecodable(path, number), path=path, line=number) from None


def undecodable(path: Path, number: int) -> str:
    return f"Line {number} of {path} is not UTF-8 text; convert the file to UTF-8."
