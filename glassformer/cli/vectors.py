"""glassformer vectors: training, queries and evaluation of word vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from glassformer.cli.help_layout import Verb, Verbs
from glassformer.cli.output_paths import OutputPath, with_output_checks
from glassformer.cli.printing import output_console, progress_bar
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.word_vectors import Corpus, GloVe, Vectors, Word2Vec
    from glassformer.word_vectors.corpus import Watch

KINDS = ("skip-gram", "cbow", "glove")


class TrainsByDefault(Verbs):
    """Treats `vectors TEXT...` as `vectors train TEXT...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["train", *args]
        return super().parse_args(ctx, args)


vectors = verb("vectors", group="Train and evaluate")(
    typer.Typer(
        cls=TrainsByDefault,
        no_args_is_help=True,
        help="""Train word vectors on text, query and evaluate them.

    Files without a subcommand are the training texts.

    $ glassformer vectors text.txt --out vectors.bin
    $ glassformer vectors nearest vectors.bin king""",
    )
)


def subcommand(command: Callable[..., None]) -> Callable[..., None]:
    return vectors.command(cls=Verb)(with_output_checks(command))


File = Annotated[
    Path, typer.Argument(help="File of vectors: word2vec's text or binary format, or GloVe's text.")
]
Count = Annotated[int, typer.Option("--count", "-n", help="Number of words.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@subcommand
def train(
    texts: Annotated[list[Path], typer.Argument(metavar="TEXT...", help="Text files.")],
    out: Annotated[
        Path, typer.Option(help="The output file; .bin is binary, others are text."), OutputPath()
    ],
    type: Annotated[str, typer.Option(help="skip-gram, cbow, glove.")] = "skip-gram",
    vector_size: Annotated[int, typer.Option(help="Dimensions of a vector.")] = 100,
    window: Annotated[int, typer.Option(help="Number of context words on each side.")] = 5,
    negative: Annotated[int, typer.Option(help="Negative samples per word; 0: full softmax.")] = 5,
    epochs: Annotated[int, typer.Option(help="Passes over the text.")] = 5,
    min_count: Annotated[int, typer.Option(help="Ignore words that are rarer.")] = 5,
    sample: Annotated[
        float, typer.Option(help="Subsample words with a larger share of the text; 0: none.")
    ] = 1e-3,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate; 0.025, for glove 0.05.")
    ] = None,
    x_max: Annotated[float, typer.Option(help="glove: larger counts have the same weight.")] = 100,
    alpha: Annotated[
        float, typer.Option(help="glove: exponent of the weight of smaller counts.")
    ] = 0.75,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Convert the text to lower case.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of the text files.")] = "utf-8",
    segmenter: Annotated[
        str | None, typer.Option(help="jieba separates the words of Chinese text.")
    ] = None,
    num_workers: Annotated[
        int, typer.Option(help="Threads; with 1 the same seed gives the same bytes.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    device: Annotated[str, typer.Option(help="Device of the full softmax: cpu, cuda, ...")] = "cpu",
) -> None:
    """Train word vectors. Words are separated by spaces, and a line is a sentence.

    In Chinese text, --segmenter jieba finds the words.

    Ctrl-C leaves no partial files.

    $ glassformer vectors train text.txt --out vectors.bin --vector-size 200
    """
    from glassformer.data.data_config import DataSettings
    from glassformer.word_vectors import GloVe, Word2Vec, check_target, read_corpus, write_vectors

    if type not in KINDS:
        raise ConfigError(f"--type is one of {', '.join(KINDS)}, not {type!r}.")
    shared: dict[str, Any] = {
        "vector_size": vector_size,
        "window": window,
        "epochs": epochs,
        "seed": seed,
        "num_workers": num_workers,
    }
    shared |= {} if learning_rate is None else {"learning_rate": learning_rate}
    plan: Word2Vec | GloVe = (
        GloVe(**shared, x_max=x_max, alpha=alpha)
        if type == "glove"
        else Word2Vec(type=type, negative=negative, sample=sample, device=device, **shared)
    )
    check_target(out)
    total = sum(file.stat().st_size for file in texts if file.is_file())
    with bar("reading", 2 * total, "bytes") as watch:
        corpus = read_corpus(
            texts,
            min_count=min_count,
            lowercase=lowercase,
            encoding=DataSettings(encoding=encoding).encoding,
            segmenter=segmenter,
            watch=watch,
        )
    console = Console(stderr=True)
    console.print(f"{len(corpus.words):,} words, {len(corpus.ids):,} of them in the text")
    write_vectors(out, learned(corpus, plan))
    console.print(f"written to {out}", soft_wrap=True)


def learned(corpus: Corpus, plan: Word2Vec | GloVe) -> Vectors:
    from glassformer.word_vectors import Word2Vec, cooccurrences, learn_glove, learn_word2vec

    words = len(corpus.ids)
    if isinstance(plan, Word2Vec):
        with bar("learning", plan.epochs * words, "words") as watch:
            return learn_word2vec(corpus, plan, watch)
    with bar("counting", words, "words") as watch:
        counts = cooccurrences(corpus, plan.window, watch)
    with bar("learning", plan.epochs * len(counts.value), "pairs") as watch:
        return learn_glove(corpus.words, counts, plan, watch)


@contextmanager
def bar(title: str, total: int, unit: str) -> Iterator[Watch]:
    progress = progress_bar(
        TextColumn(f"{title:8}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with progress:
        task = progress.add_task("", total=total, speed="")

        def watch(done: int) -> None:
            seconds = progress.tasks[0].elapsed
            speed = f"{done / seconds:,.0f} {unit}/s" if seconds else ""
            progress.update(task, completed=done, speed=speed)

        yield watch


@subcommand
def evaluate(
    file: File,
    analogy_file: Annotated[
        list[Path] | None, typer.Option("--analogies", help="Questions: a b c d, under : titles.")
    ] = None,
    similarity_file: Annotated[
        list[Path] | None, typer.Option("--similarities", help="Pairs and judgments: WordSim-353.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Use only the first so many words.")] = 300_000,
    as_json: AsJson = False,
) -> None:
    """Evaluate vectors on analogies and on human judgments of similarity, as gensim does.

    $ glassformer vectors evaluate vectors.bin --analogies questions-words.txt
    """
    from glassformer.word_vectors import analogies, read_vectors, similarities

    if not analogy_file and not similarity_file:
        raise ConfigError(
            "Name the data for the evaluation: --analogies FILE, --similarities FILE."
        )
    space = read_vectors(file)
    found = {str(path): analogies(space, path, limit) for path in analogy_file or ()}
    alike = {str(path): similarities(space, path, limit) for path in similarity_file or ()}
    if as_json:
        output = {path: [asdict(one) for one in sections] for path, sections in found.items()}
        print(json.dumps(output | {path: asdict(one) for path, one in alike.items()}))
        return
    console = output_console()
    for path, sections in found.items():
        table = Table("analogies", "right", "of", "accuracy", "unknown", box=None, title=path)
        for one in sections:
            counts = (f"{one.right:,}", f"{one.asked:,}", f"{one.accuracy:.1%}", f"{one.unknown:,}")
            table.add_row(one.name, *counts, style="bold" if one is sections[-1] else None)
        console.print(table)
    for path, like in alike.items():
        console.print(
            f"{path}: Spearman [bold]{like.spearman:.4f}[/], Pearson {like.pearson:.4f} over "
            f"{like.pairs:,} pairs ({like.unknown:,} with unknown words)",
            highlight=False,
            soft_wrap=True,
        )


@subcommand
def nearest(file: File, words: Annotated[list[str], typer.Argument()], count: Count = 10) -> None:
    """Show the words nearest to each word.

    $ glassformer vectors nearest vectors.bin king queen
    """
    from glassformer.word_vectors import read_vectors

    space = read_vectors(file)
    for word in words:
        show(word, space.nearest(word, count))


@subcommand
def analogy(file: File, a: str, b: str, c: str, count: Count = 10) -> None:
    """Solve an analogy: A is to B as C is to what?

    $ glassformer vectors analogy vectors.bin man king woman
    """
    from glassformer.word_vectors import read_vectors

    show(f"{a} : {b} = {c} : ?", read_vectors(file).analogy(a, b, c, count))


def show(title: str, found: list[tuple[str, float]]) -> None:
    sys.stdout.write(f"{title}\n")
    sys.stdout.writelines(f"  {cosine:7.4f}  {word}\n" for word, cosine in found)


@subcommand
def convert(
    file: File, out: Annotated[Path, typer.Argument(help="The new file."), OutputPath()]
) -> None:
    """Write vectors in another format: .bin is binary, else text.

    $ glassformer vectors convert vectors.bin vectors.txt
    """
    from glassformer.word_vectors import read_vectors, write_vectors

    write_vectors(out, read_vectors(file))
