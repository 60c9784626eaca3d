"""Turns ids into text while they are being made. Ids come in one by one."""

from collections.abc import Callable

TAIL = 8
CLEANINGS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def clean_spaces(text: str) -> str:
    """Undo the spaces that word pieces leave before English punctuation."""
    for spaced, plain in CLEANINGS:
        text = text.replace(spaced, plain)
    return text


class DetokenizeStream:
    """Gives out text as soon as later tokens can no longer change it.

    What all pushes and `finish` return is, joined, what decoding all ids at once returns, behind
    the tokens `after`. Each push decodes only the last piece of text again, for the spacing between
    it and the next.
    """

    def __init__(
        self,
        token: Callable[[int], str | None],
        write: Callable[[list[str]], str],
        *,
        piecewise: bool,
        clean: bool,
        after: list[str],
    ) -> None:
        self._token = token
        self._write = write
        self._piecewise = piecewise
        self._clean = clean
        self._given = after
        self._waiting: list[str] = []
        self._held = ""

    def push(self, id: int) -> str:
        """The text that this token completes, often "" or a word."""
        token = self._token(id)
        if token is None:
            return ""
        self._waiting.append(token)
        if not self._piecewise or is_byte(token):
            return ""
        text = self._new_text()
        if not text or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        return self._give(text, final=False)

    def finish(self) -> str:
        """The rest: what waited for more, such as the first bytes of a character."""
        text = self._give(self._new_text(), final=True)
        self._given = []
        return text

    def _new_text(self) -> str:
        return added(self._write, self._given, self._waiting)

    def _give(self, text: str, *, final: bool) -> str:
        self._given, self._waiting = self._waiting, []
        if not self._clean:
            return text
        text = self._held + text
        end = len(text) if final else settled(text)
        self._held = text[end:]
        return clean_spaces(text[:end])


def added(write: Callable[[list[str]], str], before: list[str], tokens: list[str]) -> str:
    """The text that tokens add behind others, with the space that joins them. Tokens that change
    the text before them, as those that complete a character do, are written by themselves."""
    start, whole = write(before), write(before + tokens)
    return whole[len(start) :] if whole.startswith(start) else write(tokens)


def tail(tokens: list[str]) -> list[str]:
    """The last few tokens, which alone decide how the next one is joined; a run of bytes is kept
    together."""
    start = max(0, len(tokens) - TAIL)
    while start > 0 and is_byte(tokens[start]):
        start -= 1
    return tokens[start:]


def is_byte(token: str) -> bool:
    """Whether a token is a byte of a character, as `<0xE4>`: only a whole run of them is text."""
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")


def settled(text: str) -> int:
    """How much of a text the cleaning of what follows cannot reach: up to its last space.

    Every cleaning starts at a space; only " ' " also ends at one.
    """
    end = text.rfind(" ")
    while end > 0 and text[max(end - 2, 0) : end] == " '":
        end = text.rfind(" ", 0, end)
    return max(end, 0)
