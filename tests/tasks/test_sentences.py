"""Sentence segmentation: each case is a text with | at the expected boundaries."""

from __future__ import annotations

import random

import pytest

from glassformer.tasks.sentences import blocks, sentences

CASES = [
    "Dr. Li paid 3.50 yuan.| Why?| Nobody knows.",
    'He said, "Go home."| Then he left.| "Is it late?" she asked.| (See fig. 3.)| It was 1990.| So',
    "J. R. R. Tolkien wrote it.| So did I.| The U.S. is big.| He lives in the U.S.| The end.",
    "At 5 p.m. Mr. Smith left for Apple Inc. in Ohio.| They met at 6 p.m.| It was late.",
    "No. 5 is alive.| The answer is no.| That is all.| See www.example.com now.",
    "Wait...| What?!| No… maybe not.| Version 1.2.3 is out.| It costs $5.00.| Good.",
    "1. First we eat.| Then we go.",
    "Der 2. Weltkrieg endete am 8. Mai 1945.| Es war z. B. kalt, d.h. 3 Grad.| Er ging.",
    "Sie kaufte Äpfel, Birnen usw.| Dann ging sie.| Das kostet ca. 20 Euro bzw. Dollar.",
    "„Komm!“ rief er.| „Gut.“| Es geht.",
    "M. Dupont est là.| Qu'est-ce que c'est ?| C'est « bien ».| Oui.",
    "« Qui est-ce ? »| « C'est Tom. »| « Bon ! », dit-il.| « Non ! » cria Max.| Il rit.",
    "»Komm!«| »Ja.«| Er ging.| »Nein.«",
    "¿Qué tal?| ¡Bien!| El Sr. García vive aquí.",
    "谁知道？！|他说：“走吧。”|大家都走了……然后又回来了。|真的！",
    "你好!|你是谁?|我今年3.5岁.|再见",
    "「行け。」と言った。|彼は走った。|『本当？』と聞いた。",
    "円周率は３．１４です．|そうです．",
    "هل أنت بخير؟| نعم.| أنا بخير.",
    "यह एक वाक्य है।| यह दूसरा है।",
    "Он пришёл.| Она ушла, т.е. не ждала.| Это всё.",
    "Good 👍🏽 news!| Ärger 😀.| Über e\u0301tude.",
]


@pytest.mark.parametrize("case", CASES)
def test_sentences_end_where_a_reader_says(case):
    text = case.replace("|", "")
    assert [text[a:b] for a, b in sentences(text)] == [part.strip() for part in case.split("|")]


def test_lines_are_sentences_unless_they_were_wrapped():
    text = (
        "A heading\n\n"
        "This paragraph was wrapped by an editor to a column of\n"
        "some sixty letters, as in letters and books. Sentences\n"
        "go on from one line to the next.\n\n"
        "  - an item\n  - another item\r\n\r\nThe last line"
    )
    assert [text[a:b] for a, b in sentences(text)] == [
        "A heading",
        "This paragraph was wrapped by an editor to a column of\n"
        "some sixty letters, as in letters and books.",
        "Sentences\ngo on from one line to the next.",
        "- an item",
        "- another item",
        "The last line",
    ]


def test_verse_is_not_taken_for_wrapped():
    verse = (
        "Shall I compare thee to a summer's day?\n"
        "Thou art more lovely and more temperate:\n"
        "Rough winds do shake the darling buds of May,\n"
        "And summer's lease hath all too short a date"
    )
    assert len(blocks(verse)) == 4


def test_nothing_but_space_is_lost_in_any_text():
    draw = random.Random(1)
    letters = "aB1 .!?…。！？」”\"')\n\r\t中，3z. Mr. 👍é\u0301"
    for _ in range(2000):
        text = "".join(draw.choices(letters, k=draw.randrange(40)))
        found = sentences(text)
        at = 0
        for start, end in found:
            assert not text[at:start].strip() and start < end
            assert text[start:end] == text[start:end].strip()
            at = end
        assert not text[at:].strip()


def test_an_empty_text_has_none():
    assert sentences("") == sentences(" \n\n ") == []
