"""glassformer lens: training of a tuned lens for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import Column, ResultRows, print_note, progress_bar
from glassformer.cli.shared_options import HeadOption
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.model import Model

HELD = 10  # one in so many texts is held out for evaluation


@verb("lens", group="Look inside")
@grouped
def lens(
    options: TextTaskOptions,
    target: Annotated[
        str | None,
        typer.Option(help="The column with the target, for an encoder-decoder."),
    ] = None,
    head: HeadOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for the lens; by default tuned_lens in the model's folder, which the "
            "page reads."
        ),
        OutputPath(continued=True),
    ] = None,
    max_steps: Annotated[int, typer.Option(min=1, help="Number of training steps.")] = 250,
    tokens_per_batch: Annotated[int, typer.Option(min=1, help="Number of tokens per step.")] = 2048,
    max_length: Annotated[
        int, typer.Option(min=2, help="Maximum number of tokens read at once.")
    ] = 256,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate; by default 1 divided by the model's width.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the order of the texts.")] = 0,
) -> None:
    """Train a tuned lens, which reads predictions from every layer.

    For each layer, it trains a map that brings the prediction of the layer close to that of the
    last layer. The model does not change. One text in ten is held out to measure the divergence
    from the final prediction, in nats. After Ctrl-C, the same command resumes the training.

    $ glassformer lens zoo:stories --file texts.txt --out runs/lens
    """
    from glassformer.inside import lens_divergence, tune_lens
    from glassformer.inside.lens.tuned_lens import BEGUN

    texts, targets = read(options, target)
    model = options.load()
    folder = out or folder_of(model, options.model)
    held = slice(HELD - 1, None, HELD) if len(texts) >= HELD else slice(None)
    learned = [i for i in range(len(texts)) if len(texts) < HELD or i % HELD != HELD - 1]
    written = None if targets is None else [targets[i] for i in learned]
    try:
        with watched(max_steps) as watch:
            tuned = tune_lens(
                model,
                [texts[i] for i in learned],
                targets=written,
                head=head,
                folder=folder,
                max_steps=max_steps,
                tokens_per_batch=tokens_per_batch,
                max_length=max_length,
                learning_rate=learning_rate,
                seed=seed,
                progress=watch,
            )
    except KeyboardInterrupt:
        kept = f"{folder} contains the maps so far, and the same command resumes"
        print_note(f"interrupted; {kept if (folder / BEGUN).exists() else 'nothing is kept'}.")
        raise typer.Exit(130) from None
    known = None if targets is None else targets[held]
    found = lens_divergence(
        model, texts[held], tuned, head=head, targets=known, max_length=max_length
    )
    columns = (Column("stage", 20), Column("logit lens", 10, right=True))
    rows = ResultRows((*columns, Column("tuned lens", 10, right=True)), options.as_json)
    for stage, plain, better in zip(found.labels["stage"], *found.tolist(), strict=True):
        record = {"stage": stage, "logit_lens": plain, "tuned_lens": better}
        rows.add((stage, f"{plain:.4f}", f"{better:.4f}"), record)
    if not options.as_json:
        print(f"The lens is in {folder}.")


def read(options: TextTaskOptions, target: str | None) -> tuple[list[str], list[str] | None]:
    from glassformer.cli.input_records import Record, field_of

    inputs = options.inputs(target)

    def both(record: Record) -> tuple[str, str]:
        return options.text_of(record), "" if target is None else field_of(record, target)

    found = [pair for _, pair in inputs.answers(both, lambda pairs: pairs)]
    inputs.end()
    return [text for text, _ in found], None if target is None else [one for _, one in found]


def folder_of(model: Model, name: str) -> Path:
    """Returns the default folder of a lens, next to the weights.

    Raises an error for models of Glassformer or another package.
    """
    from glassformer import zoo
    from glassformer.inside.lens.tuned_lens import lens_folder

    source = model.source
    ours = source is not None and any(map(source.resolve().is_relative_to, zoo.model_roots()))
    if source is None or ours or name.startswith("real:"):
        raise ConfigError(
            f"{name} is not in a folder of yours; name a folder for the lens with --out."
        )
    return lens_folder(source)


@contextmanager
def watched(steps: int) -> Iterator[Callable[[int, int, float], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("tuning"), BarColumn(), TextColumn("{task.fields[status]}"))
    bar = progress_bar(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    )
    with bar:
        task = bar.add_task("", total=steps, status="")

        def report(done: int, total: int, divergence: float) -> None:
            bar.update(task, completed=done, status=f"{done}/{total}, {divergence:.3f} nats")

        yield report
