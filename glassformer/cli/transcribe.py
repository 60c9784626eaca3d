"""glassformer transcribe: text with times from recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.help_layout import print_error
from glassformer.cli.model_options import ModelOptions
from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import print_note, progress_bar
from glassformer.cli.shared_options import COMPUTED
from glassformer.cli.transcribe_options import SpeechOptions, SubtitleOptions
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, DataError, InputError, UnsupportedError

if TYPE_CHECKING:
    from glassformer.cli.transcript_files import TranscriptFiles
    from glassformer.tasks.speech.formats import TranscriptFormat
    from glassformer.tasks.speech.transcript import Segment, Transcript
    from glassformer.tasks.speech.transcription import Transcription
    from glassformer.tasks.transcribe import Transcriber

Format = Literal["txt", "srt", "vtt", "tsv", "json", "all"]


@verb("transcribe", group="Read")
@grouped
def transcribe(
    chosen: ModelOptions,
    files: Annotated[
        list[str],
        typer.Argument(help="Recordings or folders of them; - reads standard input."),
    ],
    speech: SpeechOptions,
    subtitles: SubtitleOptions,
    out: Annotated[
        Path | None,
        typer.Option(help="A .txt, .srt, .vtt, .tsv or .json file for the transcript."),
        OutputPath(),
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            help="A folder for the transcripts; recordings that are finished there are skipped.",
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "--output-format",
            help="The format of the transcripts; by default that of --out, or lines with times.",
        ),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(help="Quantize the weights: int8 or int4.", rich_help_panel=COMPUTED),
    ] = None,
) -> None:
    """Transcribe speech with the times of what is said.

    Recordings may be of any length. Without the extra audio, only PCM .wav files are read.

    $ glassformer transcribe tiny.en.pt talk.wav --out talk.srt
    """
    from glassformer.cli.transcript_files import find_recordings, planned
    from glassformer.tasks.speech.formats import TranscriptFormat
    from glassformer.tasks.transcribe import Transcriber

    formats = formats_of(format, out, output_dir)
    if subtitles.used and not speech.word_timestamps:
        raise ConfigError("The options of subtitles need the times of words: --word-timestamps.")
    writers = {name: TranscriptFormat(name, **subtitles.layout) for name in formats}
    recordings = planned(find_recordings(files), out, output_dir, formats)
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
    waiting = recordings if output_dir is None else [r for r in recordings if not r.finished]
    if len(waiting) < len(recordings):
        print_note(f"{len(recordings) - len(waiting):,} recordings are finished and skipped.")
    if not waiting:
        return
    transcriber = Transcriber(chosen.load(quantize=quantize).pack(), **speech.given())
    failed = 0
    for recording in waiting:
        try:
            transcribe_one(transcriber, recording, writers, len(waiting) > 1)
        except (DataError, InputError, UnsupportedError) as error:
            if len(waiting) == 1:
                raise
            print_error(str(error))
            failed += 1
    if failed:
        print_note(f"{failed:,} of {len(waiting):,} recordings were not transcribed.")
        raise typer.Exit(1)


def formats_of(format: str | None, out: Path | None, folder: Path | None) -> list[str]:
    """Returns the formats to write; none for lines with times."""
    from glassformer.tasks.speech.formats import FORMATS

    if format == "all":
        if folder is None:
            raise ConfigError("--format all needs a folder: --output-dir.")
        return list(FORMATS)
    if format is not None:
        return [format]
    if out is None:
        return [] if folder is None else ["txt"]
    ending = out.suffix.removeprefix(".")
    if ending not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise ConfigError(f"{out} must end in {endings}, or give --format.")
    return [ending]


def transcribe_one(
    transcriber: Transcriber,
    recording: TranscriptFiles,
    writers: dict[str, TranscriptFormat],
    several: bool,
) -> None:
    """Transcribes a recording, prints it as it comes, and writes its files when it is whole."""
    from glassformer.storage.files import atomic_file, encoded
    from glassformer.tasks.speech.transcript import joined_channels

    if several and not recording.targets:
        print_note(recording.source)
    transcripts: list[Transcript] = []
    printed = Printed(None if recording.targets else next(iter(writers.values()), None))
    with bar() as shown:
        for transcription in transcriber.start(recording.source):
            try:
                for segment in shown(transcription):
                    printed.add(segment)
            except KeyboardInterrupt:
                place = transcription.position + transcriber.engine.options.offset
                print_note(f"Interrupted at {place:.0f} s; --offset {place:.0f} continues there.")
                raise
            transcripts.append(transcription.transcript())
    whole = transcripts[0] if len(transcripts) == 1 else joined_channels(transcripts)
    printed.end(whole)
    for name, path in recording.targets.items():
        if not path.exists() or len(recording.targets) == 1:
            with atomic_file(path) as file:
                file.write(encoded(writers[name].whole(whole)))
    if not whole.segments:
        print_note(f"{recording.source}: no speech in {whole.duration:,.1f} s.")


class Printed:
    """Prints segments as they come, in a format, or as lines with times."""

    def __init__(self, writer: TranscriptFormat | None) -> None:
        from glassformer.tasks.speech.formats import HEADERS

        self.writer, self.count = writer, 1
        if writer is not None and writer.name in HEADERS:
            print(HEADERS[writer.name], end="", flush=True)

    def add(self, segment: Segment) -> None:
        """Prints a segment."""
        from glassformer.tasks.speech.formats import line_of

        if self.writer is None:
            print(line_of(segment), flush=True)
        elif self.writer.name != "json":
            for part in self.writer.parts([segment], self.count):
                print(part, end="", flush=True)
                self.count += 1

    def end(self, transcript: Transcript) -> None:
        """Prints what needs the whole transcript."""
        if self.writer is not None and self.writer.name == "json":
            print(self.writer.whole(transcript), end="", flush=True)


@contextmanager
def bar() -> Iterator[Callable[[Transcription], Iterator[Segment]]]:
    """Yields a function that passes segments on and shows the seconds that are transcribed.

    The bar is on standard error if that is a terminal.
    """
    console = Console(stderr=True)
    progress = progress_bar(
        TextColumn("transcribing"),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )

    def passed(transcription: Transcription) -> Iterator[Segment]:
        total = transcription.total
        task = progress.add_task("", total=total, status="")
        for segment in transcription:
            seconds = transcription.position
            of = "" if total is None else f" of {total:,.0f}"
            progress.update(task, completed=seconds, status=f"{seconds:,.0f}{of} s")
            yield segment

    with progress:
        yield passed
