"""Incremental decoding: turns token ids into text while they are generated."""

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
    """Removes the spaces that WordPiece leaves before English punctuation."""
    for spaced, plain in CLEANINGS:
        text = text.replace(spaced, plain)
    return text


class DetokenizeStream:
    """Returns text as soon as later tokens can no longer change it.

    The concatenated results of all `push` calls and `finish` equal the text of decoding all ids at
    once after the tokens `after`. Each push decodes only the previous piece of text again, to get
    the spacing between it and the next one.

    Args:
        token: Returns the token of an id, or None if the id gives no text.
        write: Decodes tokens to text.
        piecewise: Whether a token's text depends only on its neighbors; if not, all text is
            returned by `finish`.
        clean: Whether to remove spaces before punctuation.
        after: The tokens that precede the stream.
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
        """Adds an id and returns the text that it completes, often "" or a word."""
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
        """Returns the remaining text, such as the first bytes of an incomplete character."""
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
    """Returns the text that `tokens` add after `before`, including the space that joins them.

    Tokens that change the text before them, such as those that complete a character, are decoded on
    their own.
    """
    start, whole = write(before), write(before + tokens)
    return whole[len(start) :] if whole.startswith(start) else write(tokens)


def last_tokens(tokens: list[str]) -> list[str]:
    """Returns the last few tokens, which determine how the next one is joined.

    A run of byte tokens is kept whole.
    """
    start = max(0, len(tokens) - TAIL)
    while start > 0 and is_byte(tokens[start]):
        start -= 1
    return tokens[start:]


def is_byte(token: str) -> bool:
    """Whether a token is a byte of a character, as `<0xE4>`; only a whole run of them is text."""
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")


def settled(text: str) -> int:
    """Returns the length of the part of a text that cleaning later text cannot change.

    It ends at the last space: every cleaning starts at a space, and only " ' " also ends at one.
    """
    end = text.rfind(" ")
    while end > 0 and text[max(end - 2, 0) : end] == " '":
        end = text.rfind(" ", 0, end)
    return max(end, 0)
