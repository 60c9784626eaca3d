"""Formats of transcripts: txt, srt, vtt, tsv and json, with the layout of OpenAI's program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from glassformer.errors import ConfigError
from glassformer.tasks.speech.subtitles import Cue, cues_of
from glassformer.tasks.speech.transcript import Segment, Transcript

FORMATS = ("txt", "srt", "vtt", "tsv", "json")
HEADERS = {"vtt": "WEBVTT\n\n", "tsv": "start\tend\ttext\n"}


class TranscriptFormat:
    """Writes transcripts in one format.

    Args:
        name: One of `FORMATS`.
        max_line_width: Largest number of characters of a subtitle's line; needs words.
        max_line_count: Largest number of lines of a subtitle; needs words.
        highlight_words: Whether each word is underlined in its turn; needs words.
    """

    def __init__(
        self,
        name: str,
        *,
        max_line_width: int | None = None,
        max_line_count: int | None = None,
        highlight_words: bool = False,
    ) -> None:
        if name not in FORMATS:
            raise ConfigError(f"The format is one of {', '.join(FORMATS)}, not {name!r}.")
        self.name = name
        self.layout = (max_line_width, max_line_count, highlight_words)

    def whole(self, transcript: Transcript) -> str:
        """Returns a transcript as the content of a file."""
        if self.name == "json":
            return json.dumps(transcript.record(), ensure_ascii=False, indent=2) + "\n"
        return HEADERS.get(self.name, "") + "".join(self.parts(transcript.segments))

    def parts(self, segments: Sequence[Segment], first: int = 1) -> Iterator[str]:
        """Yields the parts of a file that are about these segments; `first` numbers subtitles."""
        if self.name in ("srt", "vtt"):
            cues = cues_of(segments, *self.layout)
            for number, cue in enumerate(cues, first):
                yield self._subtitle(number, cue)
            return
        for segment in segments:
            text = _named(segment, segment.text.strip())
            if not text:
                continue
            if self.name == "tsv":
                start, end = round(1000 * segment.start), round(1000 * segment.end)
                yield f"{start}\t{end}\t{text.replace(chr(9), ' ')}\n"
            elif self.name == "json":
                yield json.dumps(segment.record(), ensure_ascii=False) + "\n"
            else:
                yield text + "\n"

    def _subtitle(self, number: int, cue: Cue) -> str:
        if self.name == "vtt":
            times = f"{clock(cue.start)} --> {clock(cue.end)}"
            return f"{times}\n{cue.text.replace('-->', '->')}\n\n"
        times = f"{clock(cue.start, True, ',')} --> {clock(cue.end, True, ',')}"
        return f"{number}\n{times}\n{cue.text.replace('-->', '->')}\n\n"


def line_of(segment: Segment) -> str:
    """Returns a segment with its times in one line, as for a terminal."""
    times = f"[{clock(segment.start)} --> {clock(segment.end)}]"
    return f"{times} {_named(segment, segment.text.strip())}"


def _named(segment: Segment, text: str) -> str:
    return text if segment.channel is None or not text else f"[{segment.channel + 1}] {text}"


def clock(seconds: float, hours: bool = False, mark: str = ".") -> str:
    """Returns a time as 00:01.500, or 00:00:01,500 with hours, which are shown if there are any."""
    whole = round(1000 * max(0.0, seconds))
    hour, minute, second = whole // 3_600_000, whole // 60_000 % 60, whole // 1000 % 60
    before = f"{hour:02d}:" if hours or hour else ""
    return f"{before}{minute:02d}:{second:02d}{mark}{whole % 1000:03d}"
