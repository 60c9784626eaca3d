"""glassformer translate: translation of texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import about, print_json, progress, say
from glassformer.cli.seq2seq_options import FRAME, JUDGE, ReferenceOptions, Seq2SeqOptions
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record

From = Annotated[
    str | None,
    typer.Option(
        "--from", "--source-language", help="Of the text, as the model names its languages."
    ),
]
To = Annotated[str | None, typer.Option("--to", "--target-language", help="Of the translation.")]
SplitOption = Annotated[
    Literal["parts", "sentences", "none"] | None,
    typer.Option(
        "--split",
        help="parts: sentences of a paragraph together, as many as the model reads; sentences: "
        "each by itself; none: the text as it is. Else as the model's folder says, or parts.",
        rich_help_panel=FRAME,
    ),
]
Tokenize = Annotated[
    str | None,
    typer.Option(
        help="How BLEU finds words (sacrebleu's: 13a, zh, char, ...).", rich_help_panel=JUDGE
    ),
]
Lowercase = Annotated[
    bool, typer.Option("--lowercase", help="Figures without case.", rich_help_panel=JUDGE)
]


@verb("translate", group="Write")
@grouped
def translate(
    reading: TextTaskOptions,
    writing: Seq2SeqOptions,
    judging: ReferenceOptions,
    source_language: From = None,
    target_language: To = None,
    split: SplitOption = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
) -> None:
    """Translate texts line by line, or whole documents.

    $ glassformer translate zoo:translator "Où est la gare ?" --to en
    """
    from glassformer.cli.reference_scores import line_in
    from glassformer.metrics.translation import check_sacrebleu, translation_figures
    from glassformer.tasks.translate import Translator

    inputs = reading.inputs(judging.reference_field)
    beside = judging.beside(inputs, reading.encoding)
    if beside:
        check_sacrebleu()
    languages = {"source_language": source_language, "target_language": target_language}
    translator = Translator(
        reading.load(quantize=writing.quantize),
        split=split,
        keep_empty=True,
        **{**languages, **writing.options()},
    )
    cut = 0

    def question(record: Record) -> str:
        read = line_in(record, reading.column)
        if beside and read.strip():
            beside.references(record)
        return read

    with progress(inputs, "translating") as passed:
        for record, result in passed(inputs.answers(question, translator)):
            cut += any(part.stop == "length" for part in result.parts)
            if reading.as_json:
                print_json({**about(record, {"text": question(record)}), **result.record()})
            else:
                print(result.text, flush=True)
            if beside and result.parts:
                beside.add(result.text, record)
    if cut:
        say(f"Cut off at the greatest length (--max-new-tokens): {cut:,} of the translations.")
    figures = partial(translation_figures, tokenize=tokenize, lowercase=lowercase)
    beside.end(figures, reading.as_json)
    inputs.end()
