"""The kinds of tokenizer that can be trained."""

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
    def num_learned(self) -> int:
        """The number of tokens besides the special ones."""
        return self.size - len(self.special)


Made = tuple[Backend, trainers.Trainer]
CONTINUES = "##"
"""WordPiece's prefix of a piece that does not begin a word."""
UNUSED_STEP = 0.0001
"""The library's step between the scores of characters that were never needed on their own."""


def byte_bpe(plan: TrainerOptions) -> Made:
    """BPE over bytes, as in GPT-2: it can encode any text, so nothing is unknown."""
    backend = Backend(models.BPE())
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return backend, trainers.BpeTrainer(
        **plan.options(), min_frequency=plan.min_frequency, initial_alphabet=alphabet
    )


def bpe(plan: TrainerOptions) -> Made:
    """BPE over characters, as in Llama."""
    backend = Backend(models.BPE(unk_token=plan.unknown, fuse_unk=True))
    spaces_inside(backend, plan)
    return backend, trainers.BpeTrainer(**plan.options(), min_frequency=plan.min_frequency)


def fit(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Keeps only the most frequent characters if the text has more of them than `size` allows."""
    if learned.get_vocab_size() <= plan.size:
        return learned
    special = [token.content for token in plan.special]
    characters = [token for token in learned.get_vocab() if token not in special]
    kept = [*special, *sorted(most_frequent(characters, seen)[: plan.num_learned])]
    vocabulary = {token: index for index, token in enumerate(kept)}
    learned.model = models.BPE(vocabulary, [], unk_token=plan.unknown, fuse_unk=True)
    return learned


def most_frequent(characters: list[str], seen: Counter[str]) -> list[str]:
    return sorted(characters, key=lambda character: (-seen[character], character))


def unigram(plan: TrainerOptions) -> Made:
    """A unigram model, as in T5: the most probable segmentation of a text into pieces."""
    backend = Backend(models.Unigram())
    spaces_inside(backend, plan)
    return backend, trainers.UnigramTrainer(**plan.options(), unk_token=plan.unknown)


def wordpiece(plan: TrainerOptions) -> Made:
    """WordPiece, as in BERT: splits a word greedily into the longest known pieces from its start.

    The pieces are learned with BPE, with a mark before each word (see `as_wordpiece`).
    """
    backend = Backend(models.BPE(unk_token=plan.unknown))
    spaces_between(backend, plan)
    mark = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([backend.pre_tokenizer, mark])
    # Reserve space for the marked characters, which do not become separate pieces.
    options = {**plan.options(), "vocab_size": 2 * plan.size}
    return backend, trainers.BpeTrainer(**options, min_frequency=plan.min_frequency)


def as_wordpiece(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Converts the marked BPE tokens to WordPiece: all characters, then pieces in learned order.

    (The library's own WordPiece trainer gives a different vocabulary on each run.)
    """
    vocabulary = learned.get_vocab(with_added_tokens=False)
    special = [token.content for token in plan.special]
    pieces = [t for t in sorted(vocabulary, key=vocabulary.__getitem__) if t not in special]
    backend = Backend(models.WordPiece())
    spaces_between(backend, plan)
    letters: list[str] = []
    often = [p for p in pieces if len(p) == 1 and p != SPACE and seen[p] >= plan.min_frequency]
    for letter in most_frequent(often, seen):
        # A character may begin or continue a word, and needs an entry for each case.
        forms = [letter] if stands_alone(backend, letter) else [letter, CONTINUES + letter]
        if len(letters) + len(forms) > plan.num_learned:
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
    """Whether a character is always a word by itself, as in Chinese or for punctuation."""
    text = backend.normalizer.normalize_str(f"a{character}a")
    return len(backend.pre_tokenizer.pre_tokenize_str(text)) > 1


def in_order(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Puts a unigram vocabulary in an order that does not depend on how the library iterated.

    The iteration order affects the last digits of the scores, and the order of the lowest scores
    among the characters that were never needed on their own.
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
    """Whole words, separated by spaces and punctuation."""
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    spaces_between(backend, plan)
    return backend, words_trainer(plan)


def space(plan: TrainerOptions) -> Made:
    """Words separated by spaces only, for text that is already tokenized.

    WikiText and the Penn Treebank are published in this form.
    """
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend, words_trainer(plan)


def words_trainer(plan: TrainerOptions) -> trainers.Trainer:
    """Returns a trainer with room for special tokens that are also words of the text.

    Such tokens are learned twice.
    """
    options = {**plan.options(), "vocab_size": plan.size + len(plan.special)}
    return trainers.WordLevelTrainer(**options, min_frequency=plan.min_frequency)


def without_gaps(learned: Backend, plan: TrainerOptions, seen: Counter[str]) -> Backend:
    """Renumbers words consecutively, special tokens first.

    A special token that was learned twice has left its first id unused.
    """
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
    """Every character is a token, including spaces and line ends."""
    backend = Backend(models.WordLevel(unk_token=plan.unknown))
    backend.normalizer = normalizers.Lowercase() if plan.lowercase else None
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return backend, trainers.WordLevelTrainer(**plan.options(), min_frequency=plan.min_frequency)


def spaces_inside(backend: Backend, plan: TrainerOptions) -> None:
    """Makes a space part of the piece after it; a run of white space counts as one space."""
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
    """Splits words at spaces and punctuation; each Chinese character is a word."""
    backend.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=plan.lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    script, marks = r"[\p{Han}\p{Hiragana}\p{Katakana}]", r"[，。、；：？！「」《》（）]"
    no_space = Regex(f"(?<={script}) (?={script})| (?={marks})|(?<={marks}) ")
    backend.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix=CONTINUES), decoders.Fuse(), decoders.Replace(no_space, "")]
    )


@dataclass(frozen=True, kw_only=True)
class TrainerKind:
    """One kind of tokenizer and its defaults."""

    make: Callable[[TrainerOptions], Made]
    special: Mapping[str, str]
    """The default special tokens, by role."""
    alphabet: int = 1
    """The minimum number of tokens besides the special ones."""
    finish: Callable[[Backend, TrainerOptions, Counter[str]], Backend] = (
        lambda backend, plan, seen: backend
    )
    """Postprocesses the trained backend, given how often each character occurred."""


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
