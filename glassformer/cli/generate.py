"""glassformer generate: text generation from a prompt, from a file, or interactively."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.chat_loop import run_chat
from glassformer.cli.model_options import ModelOptions
from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.parse_values import knobs_of, text_of
from glassformer.cli.printing import progress_bar
from glassformer.cli.shared_options import COMPUTED, zoo_names
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, InputError

if TYPE_CHECKING:
    from glassformer.core import Transformer
    from glassformer.generate import GenerationOutput, Generator
    from glassformer.generate.batch import BatchJob

LENGTH, CHOICE, BEAMS, FILES = "How long", "Sampling", "Beams and penalties", "Batches"
LANGUAGES = "Translation"


@verb("generate", group="Write")
@grouped
def generate(
    context: typer.Context,
    chosen: ModelOptions,
    prompt: Annotated[
        str | None,
        typer.Argument(
            help="The text to continue, or a text file; - reads standard input. By default: a "
            "dialog in a terminal, else standard input."
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A text file with the prompt.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of files and standard input; else UTF-8.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Start from the start token, without a prompt.")
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(help="The name of a control code, which says what kind of text to write."),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            help="A text file with examples before the prompt, one per line or between blank "
            "lines; the text follows their pattern and ends where theirs do."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    assistant: Annotated[
        str | None,
        typer.Option(
            help="A smaller model for speculative decoding; the text is the same.",
            rich_help_panel=COMPUTED,
            autocompletion=zoo_names,
        ),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            help="Quantize the weights: int8 or int4; score shows the cost.",
            rich_help_panel=COMPUTED,
        ),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of new tokens (128).", rich_help_panel=LENGTH)
    ] = None,
    min_new_tokens: Annotated[
        int | None, typer.Option(help="Minimum number of new tokens.", rich_help_panel=LENGTH)
    ] = None,
    stop_strings: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", help="Stop before this text; may be repeated.", rich_help_panel=LENGTH
        ),
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(help="Maximum time in seconds.", rich_help_panel=LENGTH)
    ] = None,
    truncate: Annotated[
        str | None,
        typer.Option(
            help="Truncate a prompt that is too long: left or right.", rich_help_panel=LENGTH
        ),
    ] = None,
    do_sample: Annotated[
        bool | None,
        typer.Option(
            "--do-sample/--no-sample",
            help="Sample tokens by their probability; implied by the sampling options below.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Below 1 favors probable tokens, above 1 improbable ones; 0: greedy.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(help="Sample only from the k most probable tokens.", rich_help_panel=CHOICE),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sample from the most probable tokens with this total probability.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(
            help="Sample from tokens with this fraction of the largest probability.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed; the same seed gives the same text (0).", rich_help_panel=CHOICE
        ),
    ] = None,
    num_return_sequences: Annotated[
        int | None, typer.Option(help="Number of texts.", rich_help_panel=CHOICE)
    ] = None,
    num_beams: Annotated[
        int | None,
        typer.Option(help="Number of beams; above 1 is beam search.", rich_help_panel=BEAMS),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 0 favors long texts (1).", rich_help_panel=BEAMS)
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            help="Above 1 makes tokens less probable that are in the text.", rich_help_panel=BEAMS
        ),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(help="No n-gram of this size occurs twice.", rich_help_panel=BEAMS)
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(
            help="A regular expression that the new text must match.", rich_help_panel=BEAMS
        ),
    ] = None,
    tree: Annotated[
        bool | None,
        typer.Option(
            "--tree",
            help="Also print the beams that were kept and pruned; with --json.",
            rich_help_panel=BEAMS,
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(help="Source language, as the tokenizer names it.", rich_help_panel=LANGUAGES),
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(help="Target language.", rich_help_panel=LANGUAGES)
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any other option, as name=value (JSON).", rich_help_panel=BEAMS
        ),
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(help="JSON lines: texts, or {prompt, id, options}.", rich_help_panel=FILES),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the results; an interrupted batch is resumed.",
            rich_help_panel=FILES,
        ),
        OutputPath(continued=True),
    ] = None,
) -> None:
    """Continue a prompt, or every line of a file.

    $ glassformer generate zoo:stories "Once upon a time" --temperature 0.8
    """
    from glassformer.generate.batch import BatchJob
    from glassformer.generate.config import KINDS
    from glassformer.generate.few_shot import split_examples
    from glassformer.loading import load

    turned = {k: v for k, v in context.params.items() if k in KINDS and v not in (None, [], ())}
    if examples is not None:
        turned["examples"] = split_examples(text_of(None, examples, encoding), examples)
    given = {**turned, **knobs_of(sets or [])}
    ways = [prompt is not None, file is not None, from_start, batch is not None]
    if sum(ways) > 1:
        raise ConfigError("Give one of PROMPT, --file, --from-start and --batch.")
    if (batch is None) != (out is None):
        raise ConfigError("--batch names the input and --out the output: give both.")
    if tree and not as_json:
        raise ConfigError("--tree needs --json.")
    dialog = not any(ways) and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    text = None if from_start or batch or dialog else text_of(prompt, file, encoding)
    if text == "":
        raise InputError("The prompt is empty; --from-start generates without one.")
    jobs = None
    if batch is not None and out is not None:
        about = " ".join(filter(None, (chosen.model, chosen.adapter, str(chosen.dtype), quantize)))
        jobs = BatchJob(batch, out, given, about=about)
    generator = chosen.load(quantize=quantize).generator
    draft = None if assistant is None else load(assistant, chosen.device, chosen.dtype)
    if jobs is not None:
        run_batch(jobs, generator, draft)
        return
    if dialog:
        run_chat(generator, given, lambda line, turned: answer(generator, line, turned, draft))
        return
    try:
        if as_json:
            ((_, whole),) = generator.each([text], given, draft)
            print(json.dumps(whole.record(), ensure_ascii=False))
        else:
            answer(generator, text, given, draft)
    except KeyboardInterrupt:
        print("\ninterrupted before the text was complete.", file=sys.stderr)
        raise typer.Exit(130) from None


def answer(
    generator: Generator, prompt: str | None, given: dict[str, Any], draft: Transformer | None
) -> str:
    """Prints the text token by token, or at the end if it is chosen as a whole, and returns it."""
    from glassformer.generate.writer import streams

    if streams(generator.resolve_config(given)):
        streamed = ""
        for piece in generator.stream(prompt, given, draft):
            streamed += piece.text
            print(piece.text if generator.tokenizer else f"{piece.token} ", end="", flush=True)
        print()
        return streamed
    ((_, whole),) = generator.each([prompt], given, draft)
    for number, one in enumerate((whole, *whole.alternatives), 1):
        text = one.text if generator.tokenizer else " ".join(map(str, one.tokens))
        print(f"[{number}] {text}" if whole.alternatives else text)
    return whole.text


def run_batch(jobs: BatchJob, generator: Generator, draft: Transformer | None) -> None:
    console = Console(stderr=True)
    progress = progress_bar(
        TextColumn("{task.fields[name]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=console,
    )
    plan, tokens = jobs.plan(generator), 0
    try:
        with progress:
            task = progress.add_task(
                "", total=len(jobs), completed=len(jobs.done), name=jobs.source.name, speed=""
            )
            for generation in jobs.run(generator, plan, draft):
                tokens += count(generation)
                seconds = progress.tasks[0].elapsed or 0
                speed = f"{tokens / seconds:,.0f} tokens/s" if seconds else ""
                progress.update(task, completed=len(jobs.done), speed=speed)
    except KeyboardInterrupt:
        console.print(
            f"interrupted; {len(jobs.done)} of {len(jobs)} results are in {jobs.target}, and the "
            "same command resumes.",
            soft_wrap=True,
        )
        raise typer.Exit(130) from None


def count(generation: GenerationOutput) -> int:
    return sum(len(one.tokens) for one in (generation, *generation.alternatives))
