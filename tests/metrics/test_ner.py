"""Entities and their report, compared with seqeval and scikit-learn."""

from __future__ import annotations

import random
import warnings

import pytest
import seqeval.metrics as seqeval
import sklearn.metrics as sklearn
from seqeval import scheme

from glassformer.errors import GlassformerError
from glassformer.metrics.ner import entities, entity_scores, names_entities, report, type_of
from glassformer.metrics.report_table import ClassScores

SCHEMES = {"IOB2": scheme.IOB2, "IOBES": scheme.IOBES}
MARKS = {"IOB2": "BI", "IOBES": "BIES", None: "BIES"}
IOB1 = "I-ORG O I-PER O O I-LOC O O I-PER I-PER O O I-PER B-PER"  # as CoNLL-2003 has it


def drawn(marks: str, seed: int, size: int = 40) -> tuple[list[list[str]], list[list[str]]]:
    """Right tags that keep to no scheme at all, and found ones that often agree."""
    rng = random.Random(seed)
    kinds = ("PER", "LOC", "ORG", "WORK-OF-ART")
    tags = ["O"] * 4 + [f"{mark}-{kind}" for mark in marks for kind in kinds]
    gold = [rng.choices(tags, k=rng.randint(0, 12)) for _ in range(size)]
    found = [[t if rng.random() < 0.7 else rng.choice(tags) for t in text] for text in gold]
    return found, gold


def theirs(row: dict[str, float]) -> ClassScores:
    return ClassScores(row["precision"], row["recall"], row["f1-score"], int(row["support"]))


def same(ours: ClassScores, other: dict[str, float]) -> None:
    their = theirs(other)
    assert ours.support == their.support
    for name in ("precision", "recall", "f1"):
        assert getattr(ours, name) == pytest.approx(getattr(their, name), abs=1e-12)


@pytest.mark.parametrize("strict", [None, "IOB2", "IOBES"])
@pytest.mark.parametrize("seed", range(8))
def test_the_report_of_entities_is_seqevals(strict, seed):
    found, gold = drawn(MARKS[strict], seed)
    options = {"mode": "strict", "scheme": SCHEMES[strict]} if strict else {}
    expected = seqeval.classification_report(
        gold, found, output_dict=True, zero_division=0, **options
    )
    own = report(found, gold, strict).entities
    for name in ("micro", "macro", "weighted"):
        same(getattr(own, name), expected.pop(f"{name} avg"))
    assert list(own.classes) == list(expected)
    for kind, row in own.classes.items():
        same(row, expected[kind])


@pytest.mark.parametrize("seed", range(8))
def test_the_report_of_tokens_is_scikit_learns(seed):
    found, gold = drawn("BI", seed)
    own = report(found, gold)
    said, true = ([type_of(t) or "O" for tags in side for t in tags] for side in (found, gold))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = sklearn.classification_report(
            true, said, labels=[*own.tokens.classes], output_dict=True, zero_division=0
        )
    for name in ("micro", "macro", "weighted"):
        same(getattr(own.tokens, name), expected.pop(f"{name} avg"))
    assert list(own.tokens.classes) == list(expected)
    for kind, row in own.tokens.classes.items():
        same(row, expected[kind])
    flat = [[t for tags in side for t in tags] for side in (gold, found)]
    assert own.accuracy == pytest.approx(sklearn.accuracy_score(*flat))


@pytest.mark.parametrize("seed", range(4))
def test_the_report_of_tags_is_scikit_learns_with_every_tag(seed):
    found, gold = drawn("BI", seed)
    own = report(found, gold).tags
    flat = [[t for tags in side for t in tags] for side in (gold, found)]
    expected = sklearn.classification_report(*flat, output_dict=True, zero_division=0)
    accuracy = expected.pop("accuracy")
    assert own.micro.f1 == own.micro.precision == own.micro.recall == pytest.approx(accuracy)
    for name in ("macro", "weighted"):
        same(getattr(own, name), expected.pop(f"{name} avg"))
    assert {"O", "B-PER", "I-PER"} <= set(own.classes) and list(own.classes) == list(expected)
    for tag, row in own.classes.items():
        same(row, expected[tag])


def test_parts_of_speech_have_no_entities():
    gold = [["DET", "NOUN", "VERB"], ["NOUN"]]
    found = [["DET", "VERB", "VERB"], ["NOUN"]]
    own = report(found, gold)
    assert own.entities is None
    expected = sklearn.classification_report(
        ["DET", "NOUN", "VERB", "NOUN"], ["DET", "VERB", "VERB", "NOUN"], output_dict=True
    )
    for kind, row in own.tokens.classes.items():
        same(row, expected[kind])
    same(own.tokens.macro, expected["macro avg"])
    same(own.tokens.weighted, expected["weighted avg"])
    assert own.accuracy == own.tokens.micro.f1 == expected["accuracy"] == 0.75


def test_iob1_where_neighbors_are_parted_by_a_mark():
    tags = IOB1.split()
    expected = {(k, a, b) for k, a, b in seqeval.sequence_labeling.get_entities(tags)}
    assert entities(tags) == expected
    assert ("PER", 8, 9) in expected and {("PER", 12, 12), ("PER", 13, 13)} <= expected


def test_entities_as_seqeval_reads_them():
    tags = ["B-PER", "I-PER", "O", "I-LOC", "I-PER", "S-LOC", "E-LOC", "B-PER", "B-PER", "E-PER"]
    assert entities(tags) == {
        ("PER", 0, 1), ("LOC", 3, 3), ("PER", 4, 4), ("LOC", 5, 5), ("LOC", 6, 6), ("PER", 7, 7),
        ("PER", 8, 9),
    }  # fmt: skip
    assert entities(["O", "O"]) == entities([]) == set()


def test_other_letters_for_the_same_marks():
    right = {("NAME", 0, 2), ("CITY", 3, 3)}
    assert entities(["B-NAME", "M-NAME", "E-NAME", "S-CITY"]) == right
    assert entities(["B-NAME", "I-NAME", "L-NAME", "U-CITY"], "IOBES") == right
    assert entities(["NAME", "NAME", "NAME", "CITY", "O"]) == right


def test_what_a_scheme_does_not_have():
    assert entities(["I-PER", "B-PER", "I-LOC"], "IOB2") == {("PER", 1, 1)}
    assert entities(["B-PER", "I-PER", "O", "S-LOC", "B-LOC", "E-LOC"], "IOBES") == {
        ("LOC", 3, 3), ("LOC", 4, 5),
    }  # fmt: skip
    with pytest.raises(GlassformerError, match="'E-PER' is none of IOB2"):
        entities(["B-PER", "E-PER"], "IOB2")
    with pytest.raises(GlassformerError, match="'PER' is none of IOBES"):
        report([["PER", "O"]], [["PER", "O"]], "IOBES")


def test_entity_scores():
    right = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    expected = {"precision": 0.5, "recall": 0.5, "f1": 0.5}  # seqeval's own example
    assert entity_scores(found, right) == expected
    assert entity_scores([["O"]], [["O"]])["f1"] == 0.0


def test_bad_input():
    with pytest.raises(GlassformerError, match="Text 1 has 1 predicted tags and 2 gold tags"):
        report([["O"], ["O"]], [["O"], ["O", "O"]])
    nothing = report([["O"]], [["O"]])
    assert nothing.entities.macro == nothing.tokens.weighted == ClassScores(0.0, 0.0, 0.0, 0)
    assert nothing.accuracy == 1.0
    assert not names_entities(["NOUN", "ADJ", "INTJ"]) and names_entities(["S-LOC"])
