"""Generation on two CPU cores, 32 tokens in and 64 out, in every precision, beside transformers
and, where they are installed, CTranslate2 (`pip install ctranslate2`) and llama.cpp (`pip install
llama-cpp-python gguf`, perhaps in an environment of its own):

    python bench/generate.py [--llama PYTHON] [--only "Llama 135M"] [--batch 1] [--rounds 9]

Every side is a process of its own, since idle threads of one disturb another; they take turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sides import Side, serve

PROMPT, NEW = 32, 64
LLAMA = {  # as SmolLM2-135M
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
WANTED = {  # required ratio to the speed of a peer
    ("glassformer float32", "transformers float32"): 2.0,
    ("glassformer float32", "CTranslate2 float32"): 1.3,
    ("glassformer int8", "CTranslate2 int8"): 1.7,
    ("glassformer int4", "llama.cpp Q4_0"): 1.3,
}

Run = Callable[[list[list[int]]], Any]


# --- the sides, each in its process ------------------------------------------------------------


def glassformer(folder: str, kind: str) -> tuple[Run, int]:
    """And what a step reads of the weights: all linear layers, however they are held."""
    import glassformer as gf
    from glassformer.core.linear import Linear
    from glassformer.weights.quantization import QuantizedLinear

    model = gf.load(folder, **({"dtype": kind} if "float" in kind else {"quantize": kind}))
    size = 0
    for layer in model.modules():
        if isinstance(layer, QuantizedLinear) and layer.kind == "int4":
            size += layer.kernel().blocks.nbytes  # with scales and zeros
        elif isinstance(layer, QuantizedLinear):
            size += layer.codes.nbytes + layer.scale.nbytes
        elif isinstance(layer, Linear):
            size += layer.weight.nbytes
    return lambda prompts: model.generate(prompts, max_new_tokens=NEW, min_new_tokens=NEW), size


def reference(folder: str, kind: str) -> tuple[Run, int]:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
    options = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": 0}

    def run(prompts: list[list[int]]) -> Any:
        tokens = torch.tensor(prompts)
        return model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)

    return run, 0


def translator(folder: str, kind: str) -> tuple[Run, int]:
    """CTranslate2's model of a folder; tokens are named by their numbers."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoConfig

    vocabulary = AutoConfig.from_pretrained(folder).vocab_size

    class Names:
        unk_token = bos_token = eos_token = pad_token = str(vocabulary - 1)

        def get_vocab(self) -> dict[str, int]:
            return {str(i): i for i in range(vocabulary)}

        def __getattr__(self, name: str) -> None:
            return None

        def convert_ids_to_tokens(self, id: int) -> str:
            return str(id)

    class Converter(TransformersConverter):  # type: ignore[misc]
        def load_tokenizer(self, *_: Any, **__: Any) -> Names:
            return Names()

    work, out = tempfile.mkdtemp(), tempfile.mkdtemp()
    shutil.copytree(folder, work, dirs_exist_ok=True)
    (Path(work) / "vocab.json").write_text(json.dumps(Names().get_vocab()))  # it asks for one
    Converter(work).convert(out, quantization=kind, force=True)
    generator = ctranslate2.Generator(out, compute_type=kind, intra_threads=2, inter_threads=1)
    length = PROMPT + NEW

    def run(prompts: list[list[int]]) -> Any:
        words = [[str(i) for i in prompt] for prompt in prompts]
        options = {"max_length": length, "min_length": length, "sampling_topk": 1}
        return generator.generate_batch(words, include_prompt_in_result=False, **options)

    return run, 0


def llama_cpp(folder: str, kind: str) -> tuple[Run, int]:
    from llama_side import load

    config = json.loads((Path(folder) / "config.json").read_text("utf-8"))
    return load(config, kind, PROMPT + NEW, NEW)


SIDES = {
    "glassformer": glassformer,
    "transformers": reference,
    "CTranslate2": translator,
    "llama.cpp": llama_cpp,
}


def make(name: str, folder: str) -> tuple[Run, int]:
    maker, kind = name.split()
    if maker != "llama.cpp":
        import torch

        torch.set_num_threads(2)
    return SIDES[maker](folder, kind)


# --- the comparison ----------------------------------------------------------------------------


def compare(
    title: str, sides: list[Side], prompts: list[list[int]], rounds: int, memory_rate: float
) -> dict[str, Any]:
    batch = len(prompts)
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(1 + rounds):
        for side in sides:
            seconds = side.time(prompts)
            if turn > 0:
                times[side.name].append(seconds)
    rates = {name: batch * NEW / statistics.median(values) for name, values in times.items()}
    print(f"\n{title}, batch {batch}")
    result: dict[str, Any] = {"what": title, "batch": batch, "rounds": rounds}
    for side in sides:
        rate = rates[side.name]
        result[side.name] = {"tokens_per_second": round(rate, 1)}
        text = f"  {side.name:24} {rate:8.1f} tokens/s"
        if side.size:
            limit = batch * memory_rate / side.size
            result[side.name]["megabytes"] = round(side.size / 1e6, 1)
            result[side.name]["reading_alone"] = round(limit, 1)
            text += f"   {side.size / 1e6:6.1f} MB a step,"
            text += f" memory limit {limit:8.1f}, reached {rate / limit:.0%}"
        for (mine, peer), wanted in WANTED.items():
            if mine == side.name and peer in rates:
                result[mine][f"times {peer}"] = round(rate / rates[peer], 2)
                text += f"   {rate / rates[peer]:.2f}x {peer} (wanted {wanted})"
        print(text, flush=True)
    return result


def main(llama: str | None, only: str | None, batches: list[int], rounds: int) -> None:
    import torch
    from timing import memory_rate, write

    import glassformer as gf

    torch.set_num_threads(2)
    torch.manual_seed(0)
    rate = memory_rate()
    before = Path(__file__).with_suffix(".json")
    known = json.loads(before.read_text("utf-8"))["results"] if before.exists() else []
    rows = {(row["what"], row["batch"]): row for row in known}
    ours = [f"glassformer {kind}" for kind in ("float32", "bfloat16", "int8", "int4")]
    for title, preset, settings, peers in (
        ("GPT-2 small", "gpt2", {}, ["CTranslate2 float32", "CTranslate2 int8"]),
        ("Llama 135M", "llama-7b", LLAMA, ["llama.cpp Q4_0"]),
    ):
        if only not in (None, title):
            continue
        with tempfile.TemporaryDirectory() as folder:
            gf.create(preset, **settings).save(folder)
            names = [*ours, *peers, "transformers float32"]  # the slow one parts no neighbors
            sides = []
            for name in names:
                python = llama if name.startswith("llama.cpp") else sys.executable
                try:
                    sides.append(Side(__file__, name, folder, python or sys.executable))
                except RuntimeError:
                    print(f"{name} is not installed, so it is left out.")
            for batch in batches:
                prompts = torch.randint(5, 49000, (batch, PROMPT)).tolist()
                taking = [s for s in sides if batch == 1 or not s.name.startswith("llama.cpp")]
                rows[title, batch] = compare(title, taking, prompts, rounds, rate)
                write(__file__, list(rows.values()))
            for side in sides:
                side.process.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama", help="the Python that has llama-cpp-python")
    parser.add_argument("--only", help="the model to measure; what is known of others is kept")
    parser.add_argument("--batch", type=int, help="the only number of prompts at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(make, *asked.serve)
    else:
        batches = [asked.batch] if asked.batch else [1, 8]
        main(asked.llama, asked.only, batches, asked.rounds)
