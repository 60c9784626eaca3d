"""Makes tests/evaluate/harness: made-up records in each benchmark's published format, a tokenizer,
and what EleutherAI's lm-evaluation-harness makes of them with the tiny model of
tests/evaluate/tiny_gpt2.py. It needs an environment with `pip install lm-eval transformers`:

    PYTHONPATH=. python tools/lm_reference.py
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DISABLE_MULTIPROC": "1"}
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "evaluate"))

import tiny_gpt2 as tiny
from tokenizers import ByteLevelBPETokenizer

Record = dict[str, Any]
COUNT = 24  # records of each
SHOTS = (0, 2)
WORDS = """the a of and to in on with from under river stone lamp garden winter bread letter window
carries finds breaks paints follows quiet heavy yellow careful near because before seven doctor
Anna's café naïve Zürich 東京 well-known 3.5 don't it's old sea bird moves slowly"""
TASKS = {  # the harness's names and files
    "lambada": "lambada/lambada_openai",
    "hellaswag": "hellaswag/hellaswag",
    "piqa": "piqa/piqa",
    "arc_easy": "arc/arc_easy",
    "arc_challenge": "arc/arc_easy",  # the same but for the data
    "openbookqa": "openbookqa/openbookqa",
    "winogrande": "winogrande/default",
    "boolq": "super_glue/boolq/default",
    "copa": "super_glue/copa/default",
}


def invented() -> dict[str, list[Record]]:
    """Records in the published formats, of words drawn at random: what the harness does with the
    words is what is compared, and nobody's texts are copied."""
    draw = random.Random(0)

    def words(least: int, most: int) -> str:
        return " ".join(draw.choices(WORDS.split(), k=draw.randint(least, most)))

    def sentence(least: int, most: int) -> str:
        said = words(least, most)
        return f"{said[0].upper()}{said[1:]}."

    def text(sentences: int) -> str:
        return " ".join(sentence(5, 14) for _ in range(draw.randint(1, sentences)))

    def keyed(name: str) -> Record:
        labels = list("ABCDE"[: draw.randint(3, 5)])
        choices = {"text": [words(1, 6) for _ in labels], "label": labels}
        asked = f"{sentence(4, 20)[:-1]}?"
        return {name: asked, "choices": choices, "answerKey": draw.choice(labels)}

    def scene() -> Record:
        steps = draw.random() < 0.3
        return {
            "activity_label": words(2, 3).capitalize(),
            "ctx_a": text(3) + (f" [title] How to  {words(2, 5)} [step] First" if steps else ""),
            "ctx_b": draw.choice(["", words(1, 4)]),
            "endings": [f"{words(3, 12)}." for _ in range(4)],
            "label": str(draw.randrange(4)),
        }

    def pair(one: str, other: str, least: int, most: int) -> Record:
        return {one: sentence(least, most), other: sentence(least, most)}

    makers: dict[str, Callable[[], Record]] = {
        "lambada": lambda: {"text": f"{text(14)} {words(4, 12)}"},
        "hellaswag": scene,
        "piqa": lambda: {"goal": words(4, 12), **pair("sol1", "sol2", 3, 15),
                         "label": draw.randrange(2)},
        "arc_easy": lambda: keyed("question"),
        "arc_challenge": lambda: keyed("question"),
        "openbookqa": lambda: keyed("question_stem"),
        "winogrande": lambda: {"sentence": f"{words(3, 9)} _ {sentence(2, 9)}",
                               "option1": words(1, 1), "option2": words(1, 1),
                               "answer": draw.choice("12")},
        "boolq": lambda: {"passage": text(12), "question": words(4, 9),
                          "label": draw.randrange(2)},
        "copa": lambda: {"premise": sentence(3, 7), **pair("choice1", "choice2", 3, 7),
                         "question": draw.choice(("cause", "effect")), "label": draw.randrange(2)},
    }  # fmt: skip
    return {name: [make() for _ in range(COUNT)] for name, make in makers.items()}


def train_tokenizer(found: dict[str, list[Record]], folder: Path) -> None:
    texts = [json.dumps(record, ensure_ascii=False) for some in found.values() for record in some]
    tokenizer = ByteLevelBPETokenizer()
    end = "<|endoftext|>"
    tokenizer.train_from_iterator(texts, 1000, special_tokens=[end], show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")


def judged_by_harness(found: dict[str, list[Record]], model: Path) -> Record:
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.evaluator import evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks._yaml_loader import load_yaml

    language_model = HFLM(pretrained=str(model), device="cpu", dtype="float32", batch_size=8)
    expected: Record = {}
    for name, file in TASKS.items():
        data = model / f"{name}.jsonl"
        data.write_text("".join(json.dumps(record) + "\n" for record in found[name]))
        for shots in SHOTS:
            path = Path(lm_eval.__file__).parent / "tasks" / f"{file}.yaml"
            config = load_yaml(path)
            config |= {
                "task": name,
                "dataset_path": "json",
                "dataset_name": None,
                "dataset_kwargs": {"data_files": {"test": str(data)}},
                "training_split": None,
                "validation_split": None,
                "test_split": "test",
                "fewshot_split": "test",
                "num_fewshot": shots,
            }
            config.pop("tag", None)
            task = ConfigurableTask(config=config)
            task.set_fewshot_seed(1234)
            said = evaluate(language_model, {name: task}, bootstrap_iters=100, log_samples=True)
            samples = sorted(said["samples"][name], key=lambda sample: sample["doc_id"])
            expected[f"{name}/{shots}"] = {
                "requests": [
                    [list(pair) for pair in arguments_of(sample["arguments"])] for sample in samples
                ],
                "likelihoods": [
                    [[float(r), str(g) == "True"] for r, g in map(first, sample["resps"])]
                    for sample in samples
                ],
                "figures": {
                    key.removesuffix(",none"): value
                    for key, value in said["results"][name].items()
                    if isinstance(value, float) and ",none" in key
                },
            }
    return {"lm_eval": lm_eval.__version__, "tasks": expected}


def first(responses: Any) -> Any:
    return responses[0]


def arguments_of(arguments: Any) -> list[tuple[str, str]]:
    if isinstance(arguments, dict):
        return [(one["arg_0"], one["arg_1"]) for one in arguments.values()]
    return [tuple(one) for one in arguments]


def main() -> None:
    found = invented()
    tiny.HARNESS.mkdir(exist_ok=True)
    tiny.RECORDS.write_text(json.dumps(found, ensure_ascii=False, indent=0) + "\n", "utf-8")
    train_tokenizer(found, tiny.HARNESS / "tokenizer")
    with tempfile.TemporaryDirectory() as folder:
        tiny.model().save(Path(folder) / "model")
        expected = judged_by_harness(found, Path(folder) / "model")
    for one in expected["tasks"].values():
        if one is not None:
            one["requests"] = one["requests"][:6]  # enough to see where a difference comes from
    tiny.EXPECTED.write_text(json.dumps(expected, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
