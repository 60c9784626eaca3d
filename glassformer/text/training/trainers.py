"""The kinds of tokenizer that can be trained. A plan comes in."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from glassformer.text.loading.sentencepiece_model import SPACE


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    size: int
    special: list[AddedToken]
    unknown: str | None
    lowercase: bool
    min_frequency: int
    progress: bool

    def options(self) -> dict[str, Any]:
        return {
            "vocab_size": self.size,
            "special_tokens": self.special,
            "show_progress": self.progress,
        }

    @property
    def room(self) -> int:
        return self.size - len(self.special)


Made = tuple[Backend, trainers.Trainer]
CONTINUES = "##"
"""What WordPiece writes before a piece that does not begin a word."""
UNUSED_STEP = 0.0001
"""The library's distance between the scores of characters that were never needed alone."""


def byte_bpe(plan: TrainerOptions) -> Made:
    """GPT-2's kind: byte pairs over bytes. Any text can be written, nothing is unknown."""
    backend = Backend(models.BPE())
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return backend, trainers.BpeTrainer(
        **plan.options(), min_frequency=plan.min_frequency, initial_alphabet=alphabet
    )


def bpe(plan: TrainerOptions) -> Made:
    """Llama's kind: byte pairs over characters."""
    backend = Backend(models.BPE(unk_token=plan.unknown, fuse_unk=True))
    spaces_inside(backend, plan)
    return backend, trainers.BpeTrainer(**plan.options(), min_frequency=plan.min_frequency)


def fit(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Where the text has more characters than there is room, only the most frequent stay."""
    if learned.get_vocab_size() <= plan.size:
        return learned
    special = [token.content for token in plan.special]
    characters = [token for token in learned.get_vocab() if token not in special]
    kept = [*special, *sorted(most_frequent(characters, seen)[: plan.room])]
    vocabulary = {token: index for index, token in enumerate(kept)}
    learned.model = models.BPE(vocabulary, [], unk_token=plan.unknown, fuse_unk=True)
    return learned


def most_frequent(characters: list[str], seen: Counter[str]) -> list[str]:
    return sorted(characters, key=lambda character: (-seen[character], character))


def unigram(plan: TrainerOptions) -> Made:
    """T5's kind: the split of a text that is most probable, piece by piece."""
    backend = Backend(models.Unigram())
    spaces_inside(backend, plan)
    return backend, trainers.UnigramTrainer(**plan.options(), unk_token=plan.unknown)


def wordpiece(plan: TrainerOptions) -> Made:
    """BERT's kind: a word falls into the longest pieces that are known, from its start on.

    The pieces are learned as byte pairs, with a mark before each word (see `as_wordpiece`).
    """
    backend = Backend(models.BPE(unk_token=plan.unknown))
    spaces_between(backend, plan)
    mark = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([backend.pre_tokenizer, mark])
    # Room for the marked characters, which are not pieces of their own in the end.
    options = {**plan.options(), "vocab_size": 2 * plan.size}
    return backend, trainers.BpeTrainer(**options, min_frequency=plan.min_frequency)


def as_wordpiece(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """The marked byte pairs as word pieces: all characters, then pieces in the order of learning.

    (The library's own WordPiece trainer gives another vocabulary at each run.)
    """
    vocabulary = learned.get_vocab(with_added_tokens=False)
    special = [token.content for token in plan.special]
    pieces = [t for t in sorted(vocabulary, key=vocabulary.__getitem__) if t not in special]
    backend = Backend(models.WordPiece())
    spaces_between(backend, plan)
    letters: list[str] = []
    often = [p for p in pieces if len(p) == 1 and p != SPACE and seen[p] >= plan.min_frequency]
    for letter in most_frequent(often, seen):
        # A character may begin a word or continue one, and takes a place for each.
        forms = [letter] if stands_alone(backend, letter) else [letter, CONTINUES + letter]
        if len(letters) + len(forms) > plan.room:
            break
        letters += forms
    tokens = [*special, *sorted(letters)]
    known = {SPACE, *letters}
    longer = [piece for piece in pieces if len(piece) > 1 and known.issuperset(piece)]
    tokens += [p[1:] if p.startswith(SPACE) else CONTINUES + p for p in longer]
    kept = list(dict.fromkeys(tokens))[: plan.size]
    backend.model = models.WordPiece(
        {token: index for index, token in enumerate(kept)}, unk_token=plan.unknown
    )
    backend.add_special_tokens(plan.special)
    return backend


def stands_alone(backend: Backend, character: str) -> bool:
    """Whether a character is always a word by itself, as Chinese ones and punctuation are."""
    text = backend.normalizer.normalize_str(f"a{character}a")
    return len(backend.pre_tokenizer.pre_tokenize_str(text)) > 1


def in_order(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """A unigram vocabulary in one order, whichever way the library went through the words.

    That way shows in the last digits of the scores, and in which of the characters that were
    never needed alone got the lowest score, which the next, and so on.
    """
    content = json.loads(learned.to_str())
    pieces = [(piece, round(score, 6)) for piece, score in content["model"]["vocab"]]
    special, rest = pieces[: len(plan.special)], dict(pieces[len(plan.special) :])
    tail = min(rest.values()) + UNUSED_STEP * len(rest)
    unused = [piece for piece, score in rest.items() if len(piece) == 1 and score < tail]
    scores = sorted((rest[piece] for piece in unused), reverse=True)
    rest.update(zip(sorted(unused), scores, strict=True))
    ordered = sorted(rest.items(), key=lambda entry: (-entry[1], entry[0]))
    content["model"]["vocab"] = special + ordered
    return Backend.from_str(json.dumps(content))


def word(plan: TrainerOptions) -> Made:
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    spaces_between(backend, plan)
    return backend, words_trainer(plan)


def space(plan: TrainerOptions) -> Made:
    """Words stand between spaces alone: for text that somebody has taken apart already, as
    WikiText and the Penn Treebank are published."""
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend, words_trainer(plan)


def words_trainer(plan: TrainerOptions) -> trainers.Trainer:
    """Special tokens that the text has as words are learned twice, so there is room for them."""
    options = {**plan.options(), "vocab_size": plan.size + len(plan.special)}
    return trainers.WordLevelTrainer(**options, min_frequency=plan.min_frequency)


def without_gaps(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Words numbered in a line, the special ones first; one that was learned twice has left its
    first number to nobody."""
    numbers = learned.get_vocab()
    special = [token.content for token in plan.special]
    kept = dict.fromkeys([*special, *sorted(numbers, key=numbers.__getitem__)])
    vocabulary = {token: index for index, token in enumerate(list(kept)[: plan.size])}
    backend = Backend(models.WordLevel(vocabulary, unk_token=plan.unknown))
    backend.normalizer, backend.pre_tokenizer = learned.normalizer, learned.pre_tokenizer
    backend.decoder = learned.decoder
    backend.add_special_tokens(plan.special)
    return backend


def char(plan: TrainerOptions) -> Made:
    """Every character is a token, spaces and line ends too."""
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return backend, trainers.WordLevelTrainer(**plan.options(), min_frequency=plan.min_frequency)


def spaces_inside(backend: Backend, plan: TrainerOptions) -> None:
    """A space is part of the piece after it; a run of white space counts as one space."""
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    lowercase = [normalizers.Lowercase()] if plan.lowercase else []
    backend.normalizer = normalizers.Sequence(steps + lowercase)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(SPACE, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(rf"(?!{SPACE})[\p{{P}}\p{{S}}]"), "isolated"),
        ]
    )
    backend.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")


def spaces_between(backend: Backend, plan: TrainerOptions) -> None:
    """Words stand between spaces and punctuation; each Chinese character is a word."""
    backend.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=plan.lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    script, marks = r"[\p{Han}\p{Hiragana}\p{Katakana}]", r"[，。、；：？！「」《》（）]"
    no_space = Regex(f"(?<={script}) (?={script})| (?={marks})|(?<={marks}) ")
    backend.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix=CONTINUES), decoders.Fuse(), decoders.Replace(no_space, "")]
    )


@dataclass(frozen=True, kw_only=True)
class TrainerKind:
    make: Callable[[TrainerOptions], Made]
    special: Mapping[str, str]
    """The special tokens it has unless others are asked for, by role."""
    alphabet: int = 1
    """The least number of tokens besides the special ones."""
    finish: Callable[[Backend, TrainerOptions, Counter[str]], Backend] = (
        lambda backend, plan, seen: backend
    )
    """What remains to be done after learning, knowing how often each character was seen."""


GPT2_TOKENS = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
SENTENCE_TOKENS = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

KINDS = {
    "byte-bpe": TrainerKind(make=byte_bpe, special=GPT2_TOKENS, alphabet=256),
    "bpe": TrainerKind(make=bpe, special=SENTENCE_TOKENS, finish=fit),
    "wordpiece": TrainerKind(make=wordpiece, special=BERT_TOKENS, alphabet=2, finish=as_wordpiece),
    "unigram": TrainerKind(make=unigram, special=SENTENCE_TOKENS, finish=in_order),
    "word": TrainerKind(make=word, special=SENTENCE_TOKENS, finish=without_gaps),
    "space": TrainerKind(make=space, special=SENTENCE_TOKENS, finish=without_gaps),
    "char": TrainerKind(make=char, special=SENTENCE_TOKENS),
}
