"""Words of Chinese text, which has no spaces between them."""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError

SEGMENTERS = ("jieba",)


class Segmenter:
    """Splits text into words by jieba's dictionary.

    jieba's own start-up is not used, because it writes a cache into the folder for temporary files.
    """

    def __init__(self, jieba: Any) -> None:
        self.jieba = jieba.Tokenizer()
        self.jieba.FREQ, self.jieba.total = self.jieba.gen_pfdict(self.jieba.get_dict_file())
        self.jieba.initialized = True

    def words(self, text: str) -> list[str]:
        """Returns the words of a text, without white space.

        Args:
            text: The text.
        """
        return [word for word in self.jieba.lcut(text) if not word.isspace()]

    def starts(self, text: str) -> set[int]:
        """Returns the indices of the characters that begin a word.

        Args:
            text: A text without white space.
        """
        return set(accumulate(map(len, self.jieba.lcut(text)), initial=0))


@cache
def make_segmenter(name: str) -> Segmenter:
    """Loads a segmenter.

    Args:
        name: "jieba".
    """
    if name not in SEGMENTERS:
        raise ConfigError(f"There is no segmenter {name!r}; choose {', '.join(SEGMENTERS)}.")
    try:
        import jieba
    except ImportError:
        raise UnsupportedError(
            "Chinese words are found by jieba: pip install 'glassformer[zh]'.", field="segmenter"
        ) from None
    return Segmenter(jieba)


def is_han(character: str) -> bool:
    """Returns whether a character is a Chinese one."""
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"
