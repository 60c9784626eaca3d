"""glassformer translate: translation of texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import about, print_json, print_note, progress
from glassformer.cli.seq2seq_options import FRAME, JUDGE, ReferenceOptions, Seq2SeqOptions
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record

From = Annotated[
    str | None,
    typer.Option("--from", "--source-language", help="Source language, as the model names it."),
]
To = Annotated[str | None, typer.Option("--to", "--target-language", help="Target language.")]
SplitOption = Annotated[
    Literal["parts", "sentences", "none"] | None,
    typer.Option(
        "--split",
        help="parts: as many sentences of a paragraph together as the model can read; "
        "sentences: each separately; none: do not split. By default as the model's folder "
        "says, or parts.",
        rich_help_panel=FRAME,
    ),
]
Tokenize = Annotated[
    str | None,
    typer.Option(
        help="The tokenizer for BLEU (sacrebleu's: 13a, zh, char, ...).", rich_help_panel=JUDGE
    ),
]
Lowercase = Annotated[
    bool, typer.Option("--lowercase", help="Ignore case in the metrics.", rich_help_panel=JUDGE)
]


@verb("translate", group="Write")
@grouped
def translate(
    options: TextTaskOptions,
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
    from glassformer.metrics.translation import check_sacrebleu, translation_scores
    from glassformer.tasks.translate import Translator

    inputs = options.inputs(judging.reference_field)
    scores = judging.reference_scores(inputs, options.encoding)
    if scores:
        check_sacrebleu()
    languages = {"source_language": source_language, "target_language": target_language}
    translator = Translator(
        options.load(quantize=writing.quantize),
        split=split,
        keep_empty=True,
        **{**languages, **writing.options()},
    )
    cut = 0

    def question(record: Record) -> str:
        read = line_in(record, options.column)
        if scores and read.strip():
            scores.references(record)
        return read

    with progress(inputs, "translating") as passed:
        for record, result in passed(inputs.answers(question, translator)):
            cut += any(part.finish_reason == "length" for part in result.parts)
            if options.as_json:
                print_json({**about(record, {"text": question(record)}), **result.record()})
            else:
                print(result.text, flush=True)
            if scores and result.parts:
                scores.add(result.text, record)
    if cut:
        print_note(f"{cut:,} translations were cut off at the maximum length (--max-new-tokens).")
    metrics = partial(translation_scores, tokenize=tokenize, lowercase=lowercase)
    scores.end(metrics, options.as_json)
    inputs.end()
