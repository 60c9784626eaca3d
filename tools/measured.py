"""Writes the tables of docs/benchmarks.md and the READMEs from the last results in bench/:

python tools/measured.py            # writes them between their marks
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HEADS = {
    "README.md": ("", "beside", "theirs", "ours", "times"),
    "README.zh.md": ("", "对照", "对方", "我们", "倍数"),
    "docs/benchmarks.md": ("", "beside", "theirs", "ours", "times"),
}


@dataclass(frozen=True)
class Row:
    """One comparison. Milliseconds are better when low, rates when high."""

    english: str
    chinese: str
    peer: str
    theirs: float
    ours: float
    unit: str
    ratio: float

    def cells(self, readme: str) -> list[str]:
        what = self.chinese if readme.endswith(".zh.md") else self.english
        each = [f"{formatted(number)} {self.unit}" for number in (self.theirs, self.ours)]
        ratio = f"{self.ratio:.2f}x"
        return [what, self.peer, *each, f"**{ratio}**" if self.ratio >= 1 else ratio]


def formatted(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "bench" / name).read_text("utf-8"))["results"]
    return found


def timed() -> Iterator[Row]:
    """The rows in milliseconds: with packed weights where those were measured, too."""
    titles = {
        "BERT-base encoder, 8 x 128": ("forward, BERT-base, 8 x 128", "前向，BERT-base，8 x 128"),
        "GPT-2 small prefill, 1 x 512": (
            "prefill, GPT-2 small, 1 x 512",
            "预填充，GPT-2 small，1 x 512",
        ),
        "DeBERTa-v3-base encoder, 1 x 512": (
            "forward, DeBERTa-v3-base, 1 x 512",
            "前向，DeBERTa-v3-base，1 x 512",
        ),
        "XLNet-base, 1 x 512": ("forward, XLNet-base, 1 x 512", "前向，XLNet-base，1 x 512"),
        "Transformer-XL base, 1 x 512, memory of 512": (
            "forward, Transformer-XL, 512 after 512",
            "前向，Transformer-XL，记忆 512 后的 512",
        ),
        "BigBird-base encoder, 1 x 4,096": (
            "forward, BigBird-base, 1 x 4,096",
            "前向，BigBird-base，1 x 4,096",
        ),
        "load GPT-2 small": ("load, GPT-2 small", "加载，GPT-2 small"),
    }
    for name in ("forward", "deberta", "memory", "long", "load"):
        for found in results(f"{name}.json"):
            if found["what"] not in titles:
                continue
            peer = next(key for key in found if key.startswith("transformers"))
            ours = found.get("glassformer, packed", found["glassformer"])
            yield Row(
                *titles[found["what"]], peer, found[peer]["ms"], ours["ms"], "ms", ours["ratio"]
            )


def generated() -> Iterator[Row]:
    beside = {  # ours: theirs
        "glassformer float32": ("transformers float32", "CTranslate2 float32"),
        "glassformer int8": ("CTranslate2 int8",),
        "glassformer int4": ("llama.cpp Q4_0",),
    }
    for found in results("generate.json"):
        for who, peers in beside.items():
            for peer in peers:
                if f"times {peer}" not in found[who]:
                    continue
                kind = who.removeprefix("glassformer ")
                yield Row(
                    f"generate, {found['what']}, {kind}, {rows_of(found['batch'])}",
                    f"生成，{found['what']}，{kind}，{found['batch']} 行",
                    peer,
                    found[peer]["tokens_per_second"],
                    found[who]["tokens_per_second"],
                    "tok/s",
                    found[who][f"times {peer}"],
                )


def rows_of(number: int) -> str:
    return "alone" if number == 1 else f"{number} at once"


def translated() -> Iterator[Row]:
    [found] = results("translate.json")
    pairs = {
        "glassformer float32 packed": ("transformers float32", "CTranslate2 float32"),
        "glassformer int8": ("CTranslate2 int8",),
    }
    for who, peers in pairs.items():
        for peer in peers:
            yield Row(
                f"translate, base Transformer, beam 5, {peer.split()[-1]}",
                f"翻译，base Transformer，束宽 5，{peer.split()[-1]}",
                peer,
                found[peer]["tokens_per_second"],
                found[who]["tokens_per_second"],
                "tok/s",
                found[who][f"over {peer}"],
            )


def tasks() -> Iterator[Row]:
    titles = {"classify": "分类", "tag": "标注", "embed": "嵌入"}
    kinds = {"short": "短", "long": "长"}
    for found in results("tasks.json"):
        task, number, kind = re.findall(r"(\w+), ([\d,]+) (\w+) texts", found["what"])[0]
        rates = found["texts_per_second"]
        for family in ("transformers", "sentence_transformers"):
            rivals = [who for who in rates if who.startswith(f"{family},") or who == family]
            if not rivals:
                continue
            best = max(rivals, key=lambda who: rates[who])
            yield Row(
                f"{task}, {number} {kind} texts",
                f"{titles[task]}，{number} 篇{kinds[kind]}文本",
                f"{family}, its best batch",
                rates[best],
                rates["glassformer, packed"],
                "texts/s",
                rates["glassformer, packed"] / rates[best],
            )


def trained() -> Iterator[Row]:
    for found in results("train.json"):
        shape = found["what"].replace(" characters", "")
        for mode, chinese in (("", ""), (", compiled", "，编译")):
            if f"nanoGPT{mode}" not in found:
                continue
            theirs, ours = (
                found[f"{side}{mode}"]["tokens_per_second"] for side in ("nanoGPT", "glassformer")
            )
            yield Row(
                f"train, {shape}{mode}", f"训练，{shape}{chinese}", f"nanoGPT{mode}", theirs, ours,
                "tok/s", ours / theirs,
            )  # fmt: skip
    for found in results("vectors.json"):
        yield Row(
            f"word vectors, {found['what']}", f"词向量，{found['what']}", "gensim",
            found["gensim"]["words/s"], found["glassformer"]["words/s"], "words/s",
            found["ratio of words/s"],
        )  # fmt: skip


def on_a_gpu() -> Iterator[Row]:
    trained = {(one["what"], one["who"]): one for one in results("train_gpu.json")}
    names = {"gpt2": "GPT-2 small", "bert": "BERT-base", "translation": "base Transformer"}
    for (what, peer), theirs in trained.items():
        if peer != "glassformer":
            rates = theirs["tokens/s"], trained[what, "glassformer"]["tokens/s"]
            label = names[what]
            yield Row(
                f"train, {label}, compiled",
                f"训练，{label}，编译",
                f"{peer}, compiled",
                *rates,
                "tok/s",
                rates[1] / rates[0],
            )
    made = {(one["what"], one["rows"], one["who"]): one for one in results("generate_gpu.json")}
    for (what, rows, peer), theirs in made.items():
        if peer != "ours":
            rates = theirs["tokens/s"], made[what, rows, "ours"]["tokens/s"]
            label = {"gpt2": "GPT-2 small", "llama 1B": "Llama 1B"}[what]
            yield Row(
                f"generate, {label}, {rows_of(rows)}", f"生成，{label}，{rows} 行",
                f"{peer}, compiled", *rates,
                "tok/s", rates[1] / rates[0],
            )  # fmt: skip
    file = json.loads((ROOT / "bench" / "translate_gpu.json").read_text("utf-8"))
    rates = file["tokens_per_second"]
    yield Row(
        "translate, base Transformer, beam 5", "翻译，base Transformer，束宽 5", "transformers",
        rates["transformers"], rates["glassformer"], "tok/s",
        rates["glassformer"] / rates["transformers"],
    )  # fmt: skip


def on_a_cpu() -> Iterator[Row]:
    for part in (timed, generated, translated, tasks, trained):
        yield from part()


CHOSEN = (  # what the READMEs show: a row of each kind, with its peer
    ("forward, BERT-base, 8 x 128", "transformers"),
    ("forward, BigBird-base, 1 x 4,096", "transformers"),
    ("load, GPT-2 small", "transformers"),
    ("generate, GPT-2 small, float32, alone", "transformers float32"),
    ("generate, GPT-2 small, int8, alone", "CTranslate2 int8"),
    ("generate, Llama 135M, int4, alone", "llama.cpp Q4_0"),
    ("embed, 2,000 short texts", "sentence_transformers, its best batch"),
    ("train, 6 layers of 384, 16 x 256", "nanoGPT"),
    ("train, BERT-base, compiled", "transformers, compiled"),
    ("generate, Llama 1B, alone", "gpt-fast, compiled"),
)


def chosen() -> Iterator[Row]:
    known = {(row.english, row.peer): row for row in (*on_a_cpu(), *on_a_gpu())}
    yield from (known[name] for name in CHOSEN)


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    "cpu": on_a_cpu,
    "gpu": on_a_gpu,
    "chosen": chosen,
}
PAGES = {
    "README.md": ("chosen",),
    "README.zh.md": ("chosen",),
    "docs/benchmarks.md": ("cpu", "gpu"),
}


def filled(page: str, text: str) -> str:
    """The text with every table as the results have it."""
    for name in PAGES[page]:
        rows = [HEADS[page], *(row.cells(page) for row in TABLES[name]())]
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        lines.insert(1, "| --- | --- | ---: | ---: | ---: |")
        mark = f"<!-- measured: {name} -->"
        found = re.compile(f"{mark}.*?{mark}", re.S)
        if not found.search(text):
            raise ValueError(f"{page} has no place for {mark}")
        table = "\n".join((mark, *lines, mark))
        text = found.sub(lambda _, table=table: table, text)
    return text


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(page, path.read_text("utf-8")), "utf-8")
