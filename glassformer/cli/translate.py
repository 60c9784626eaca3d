"""glassformer translate: texts in another language."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from glassformer.cli.inputs import (
    Device,
    Dtype,
    Encoding,
    Field,
    Files,
    FormOption,
    Inputs,
    OnErrorOption,
    Record,
    Source,
    Text,
    Whole,
    say,
)
from glassformer.cli.outputs import AsJson, about, print_json, progress
from glassformer.cli.rewriting import (
    FRAME,
    JUDGE,
    BatchSize,
    Beams,
    Beside,
    Length,
    LengthPenalty,
    MaxNewTokens,
    NoRepeat,
    Prefix,
    Quantize,
    Reference,
    ReferenceField,
    Separator,
    Sets,
    line_in,
    turned,
)
from glassformer.metrics.texts import check_sacrebleu, translation_figures
from glassformer.source import load
from glassformer.tasks.translate import Split, Translator

From = Annotated[
    str | None, typer.Option("--from", help="Of the text, as the model names its languages.")
]
To = Annotated[str | None, typer.Option("--to", help="Of the translation.")]
SplitOption = Annotated[
    Split,
    typer.Option(
        "--split",
        help="parts: sentences of a paragraph together, as many as the model reads; sentences: "
        "each by itself; none: the text as it is.",
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


def translate(
    context: typer.Context,
    model: Source,
    text: Text = None,
    source_language: From = None,
    target_language: To = None,
    file: Files = None,
    form: FormOption = None,
    field: Field = "text",
    whole: Whole = False,
    encoding: Encoding = "utf-8",
    on_error: OnErrorOption = "stop",
    as_json: AsJson = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    quantize: Quantize = None,
    num_beams: Beams = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: MaxNewTokens = None,
    no_repeat_ngram_size: NoRepeat = None,
    batch_size: BatchSize = None,
    sets: Sets = None,
    split: SplitOption = "parts",
    length: Length = None,
    prefix: Prefix = None,
    separator: Separator = None,
    reference: Reference = None,
    reference_field: ReferenceField = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
) -> None:
    """Translate texts, a line for a line, or whole documents with their paragraphs."""
    inputs = Inputs(text, file, form=form, encoding=encoding, whole=whole, on_error=on_error)
    beside = Beside(inputs, reference, reference_field, encoding)
    if beside:
        check_sacrebleu()
    knobs = turned(context, sets)
    translator = Translator(
        load(model, device, dtype, quantize=quantize),
        source_language=knobs.pop("source_language", None),
        target_language=knobs.pop("target_language", None),
        split=split,
        length=length,
        prefix=prefix,
        separator=separator,
        keep_empty=True,
        **knobs,
    )
    cut = 0

    def question(record: Record) -> str:
        read = line_in(record, field if inputs.word is None else "text")
        if beside and read.strip():
            beside.references(record)
        return read

    with progress(inputs, "translating") as passed:
        for record, result in passed(inputs.answers(question, translator.stream)):
            cut += any(part.stop == "length" for part in result.parts)
            if as_json:
                print_json({**about(record, {"text": question(record)}), **result.record()})
            else:
                print(result.text, flush=True)
            if beside and result.parts:
                beside.add(result.text, record)
    if cut:
        say(f"Cut off at the greatest length (--max-new-tokens): {cut:,} of the translations.")
    inputs.end()
    beside.end(partial(translation_figures, tokenize=tokenize, lowercase=lowercase), as_json)
