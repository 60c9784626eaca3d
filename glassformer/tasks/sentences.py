"""Rule-based sentence segmentation that returns positions, so that no text is lost.

The rules are for scripts that end a sentence with a mark: Latin, Greek and Cyrillic, Chinese and
Japanese, Arabic, Devanagari and related ones. Thai and Lao, which have none, are split at line
breaks.
"""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import NamedTuple

ASIA = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
CLOSING = "\"'“”‘’«»‹›)\\]}」』）》】〉＂＇"
OPENING = "\"'“„‘‚«‹([{「『（《【〈¿¡*_-–—"
APART = r"[ \u00a0\u202f][»›](?=[\s,.;:!?…)]|$)"  # « Oui ! » has spaces inside; »Ja!« »Nein.« opens
MARK = re.compile(
    r"(?:(?P<sure>[。！？｡।॥؟۔։።]+|(?<!\d)．|．(?!\d))|(?P<mark>[.!?…]+))"
    rf"(?P<closed>(?:[{CLOSING}]|{APART})*)"
)
ASIAN = re.compile(f"[{ASIA}。！？、，；：「」『』（）《》【】]")
NEAR = 200  # characters around a mark that are considered
NARROWEST = 40  # the smallest column that a text is assumed to be wrapped to
QUOTED_ON = "とっ、，,"  # the sentence continues after the quote: 「行け。」と言った。
LINE = re.compile(r"[^\r\n]+|(?<=\n)(?=\r?\n)|(?<=\r)(?=\r)")  # including empty lines
LAST_WORD = re.compile(r"[^\s(\[{\"'“„‘«]*$")
FIRST_WORD = re.compile(r"[^\W\d_]*")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LEADS_ON = words(  # abbreviations that never end a sentence: Mr. Smith, bzw. Frau Li
    """mr mrs ms mx dr prof st sr sra srta messrs mme mlle mm mgr rev hon gen col maj capt lt sgt
    cmdr gov sen rep pres supt vs cf approx e.g i.e viz resp incl excl tel bzw bspw z.b d.h u.a z.t
    i.d.r o.ä v.a u.u s.o s.u vgl ca evtl ggf ggfs inkl exkl hr fr frl dipl geb gest sog c.-à-d
    p.ex sig sig.ra dott avv p.ej adm dña ud uds dhr mevr bijv o.a i.p.v t.o.v гг ул см т.е т.к тов
    им"""
)
NUMBERED = words(  # the same if a number follows: No. 5
    """no nos nr fig figs eq eqs sec ch vol vols p pp art abs abb tab bd pag pág págs núm blz str
    стр рис"""
)
MAY_END = words(  # abbreviations that end one if a typical first word follows
    """etc usw u.s.w u.s u.k u.n u.s.a e.u a.m p.m al jr inc ltd co corp llc plc bros dept univ assn
    ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec b.c a.d b.c.e c.e ph.d m.d b.a m.a
    b.sc m.sc n.chr v.chr chr ecc enz т.д т.п др"""
)
BEGINS = words(
    """the a an this that these those it its he his she her they their we our you your i my in on
    at by for from with to as of but and or so yet if when while where what who why how there here
    then after before since because although though however not no all some many most one another
    also der die das dem den ein eine es er sie wir ihr sein seine im am auf für mit aber und oder
    wenn dass dann nach vor da doch auch nicht kein keine wie was wer le la les un une il elle ils
    elles nous vous ce cette ces dans mais et ou si quand el los las una en pero y ella ellos он
    она они оно это мы вы в на но и"""
)
MONTHS = words(
    """januar jänner februar märz april mai juni juli august september oktober november dezember
    ledna února března dubna května června července srpna září října listopadu prosince"""
)
BEFORE_ORDINAL = words(  # 3. Oktober, der 2. Weltkrieg
    """am der die das den dem des vom zum zur im beim ab bis seit und oder den det
    til fra kl"""
)


class TextSpan(NamedTuple):
    """The start and end of a slice of a text."""

    start: int
    end: int


def sentences(text: str) -> list[TextSpan]:
    """Returns the spans of the sentences, without the white space around them.

    >>> [text[a:b] for a, b in sentences("Dr. Li paid 3.50 yuan. Why? 谁知道。再见！")]
    ['Dr. Li paid 3.50 yuan.', 'Why?', '谁知道。', '再见！']
    """
    found: list[TextSpan] = []
    for block in blocks(text):
        start = block.start
        for match in MARK.finditer(text, block.start, block.end):
            if match.end() < block.end and _ends(text, match, start, block):
                found.append(_stripped(text, start, match.end()))
                start = match.end()
        found.append(_stripped(text, start, block.end))
    return [span for span in found if span.start < span.end]


def blocks(text: str) -> list[TextSpan]:
    """Returns the spans of paragraphs, headings and list items.

    The lines of a paragraph that was wrapped at a column form one block.
    """
    found: list[TextSpan] = []
    for lines in _paragraphs(text):
        wrapped = _wrapped([text[a:b].rstrip() for a, b in lines])
        for line, goes_on in zip(lines, [False, *wrapped], strict=True):
            if goes_on:
                found[-1] = TextSpan(found[-1].start, line.end)
            else:
                found.append(line)
    return found


def _paragraphs(text: str) -> list[list[TextSpan]]:
    """Groups lines that are separated by empty lines."""
    found: list[list[TextSpan]] = [[]]
    for line in LINE.finditer(text):
        if line.group().strip():
            found[-1].append(TextSpan(line.start(), line.end()))
        elif found[-1]:
            found.append([])
    return [lines for lines in found if lines]


def _wrapped(lines: list[str]) -> list[bool]:
    """Returns for every line break whether it only wraps a line.

    It does if the next word did not fit on the line. That may be a coincidence, and in verse it is;
    therefore several such lines must not all begin with a capital, as verse does, and a single one
    must begin with a small letter.
    """
    width = max(map(len, lines))
    found: list[bool] = []
    for is_full, run in groupby(pairwise(lines), lambda pair: _full(pair[0], pair[1], width)):
        letters = [after[0] for _, after in run]
        several = len(letters) > 1 and not all(letter.isupper() for letter in letters)
        wraps = is_full and (several or any(letter.islower() for letter in letters))
        found += [wraps] * len(letters)
    return found


def _full(line: str, after: str, width: int) -> bool:
    capacity = width - len(line) - len(" ")
    return width >= NARROWEST and not after[0].isspace() and len(after.split()[0]) > capacity


def _ends(text: str, match: re.Match[str], start: int, block: TextSpan) -> bool:
    """Whether a sentence that began at `start` ends with this mark."""
    after = text[match.end()]
    if match["sure"]:
        return not (match["closed"] and after in QUOTED_ON)
    before = text[match.start() - 1] if match.start() > start else ""
    if not after.isspace():  # ASCII marks in Chinese or Japanese: 你好!你是谁?
        return bool(ASIAN.match(after)) and bool(ASIAN.match(before)) and "…" not in match["mark"]
    ahead = text[match.end() : min(block.end, match.end() + NEAR)].lstrip()
    first = ahead.lstrip(OPENING).lstrip()[:1]
    if not first or first.islower() or first in ",;:":
        return False
    if match["mark"] != "." or match["closed"]:
        return True
    near = max(start, match.start() - NEAR)
    opens = near == block.start
    return _period_ends(text[near : match.start()], ahead.lstrip(OPENING), opens)


def _period_ends(before: str, ahead: str, opens: bool) -> bool:
    """Whether the period between these texts ends a sentence.

    It may instead end an abbreviation, an initial, an item number or an ordinal.
    """
    found = LAST_WORD.search(before)
    word = found.group() if found else ""
    rest = before[: len(before) - len(word)].split()
    first = FIRST_WORD.match(ahead)
    following = first.group().lower() if first else ""
    plain = word.lower().replace("\N{NO-BREAK SPACE}", "")
    if word.isdigit():
        if len(word) > 3:
            return True
        item = opens and not rest
        dated = following in MONTHS or (bool(rest) and rest[-1].lower() in BEFORE_ORDINAL)
        return not (item or (len(word) <= 2 and dated))
    if plain in LEADS_ON or (plain in NUMBERED and ahead[:1].isdigit()):
        return False
    letters = word.split(".")  # B, of Plan B; z, of z. B.; or J.R.R
    initials = all(len(one) == 1 and one.isalpha() and not ASIAN.match(one) for one in letters)
    if initials and opens and not rest:
        return False
    return following in BEGINS if initials or plain in MAY_END else True


def _stripped(text: str, start: int, end: int) -> TextSpan:
    part = text[start:end]
    return TextSpan(end - len(part.lstrip()), start + len(part.rstrip()))
