"""Translation on two CPU cores: a base Transformer (2017: 6 + 6 layers, width 512, 32,000 words),
beam 5, 16 texts at once, 32 tokens in and 40 out, beside transformers and, where it is installed
(`pip install ctranslate2`), CTranslate2:

    python bench/translate.py [ROUNDS]

Every side is a process of its own.

The floors of a step are the bytes of its weights over the rate of memory, and its products over the
rate that the two cores reach in a large one, which is measured first.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from sides import Side, serve
from timing import memory_rate, write

import glassformer as gf
from glassformer.core.linear import Linear
from glassformer.weights.quantization import QuantizedLinear

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.filterwarnings("ignore", message=".*quantize_per_tensor.*")

BATCH, BEAMS, SOURCE, NEW = 16, 5, 32, 40
WORDS = 32000
OPTIONS = {"num_beams": BEAMS, "min_new_tokens": NEW, "max_new_tokens": NEW}
OURS = ["glassformer float32", "glassformer float32 packed", "glassformer int8"]
SIDES = [*OURS, "transformers float32", "CTranslate2 float32", "CTranslate2 int8"]
Run = Callable[[list[list[int]]], Any]


def converted(folder: str, kind: str) -> Any:
    """CTranslate2's model of a folder; tokens are named by their numbers. It drops the last word,
    which Marian has for padding."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    class Names:
        unk_token, bos_token, eos_token, pad_token = "2", "1", "1", "<pad>"

        def get_vocab(self) -> dict[str, int]:
            return {str(i): i for i in range(WORDS - 1)} | {"<pad>": WORDS - 1}

        def convert_ids_to_tokens(self, id: int) -> str:
            return str(id)

        def __getattr__(self, name: str) -> None:
            return None

    class Converter(TransformersConverter):  # type: ignore[misc]
        def load_tokenizer(self, *_: Any, **__: Any) -> Names:
            return Names()

    own = Path(tempfile.mkdtemp()) / "model"  # which nobody else reads
    shutil.copytree(folder, own)
    (own / "vocab.json").write_text(json.dumps(Names().get_vocab()))
    out = tempfile.mkdtemp()
    Converter(str(own)).convert(out, quantization=kind, force=True)
    return ctranslate2.Translator(out, compute_type=kind, intra_threads=2, inter_threads=1)


def step_layers(model: gf.Model) -> list[Linear]:
    """The linear layers that a step goes through; of cross-attention's keys they are none."""
    named = [*model.decoder.named_modules(), *model.heads.named_modules()]
    return [m for name, m in named if isinstance(m, Linear) and not name.endswith("cross.kv")]


def floors(model: gf.Model, memory_rate: float) -> dict[str, float]:
    """Seconds that a step takes at least."""
    layers = step_layers(model)
    codes = isinstance(layers[0], QuantizedLinear)
    size = sum((x.codes if codes else x.weight).nbytes for x in layers)
    operations = sum(2 * BATCH * BEAMS * x.in_features * x.out_features for x in layers)
    large = Linear(2048, 2048)
    large = QuantizedLinear(large, "int8") if codes else large
    large.pack()
    x = torch.randn(2048, 2048)
    times = []
    with torch.inference_mode():
        for _ in range(6):
            begin = time.perf_counter()
            large(x)
            times.append(time.perf_counter() - begin)
    return {"bytes": size / memory_rate, "operations": operations * min(times) / (2 * 2048**3)}


def make(name: str, folder: str) -> tuple[Run, int]:
    """A side, by its name, and the bytes of what a step of ours reads."""
    torch.set_num_threads(2)
    maker, kind, *packed = name.split()
    if maker == "glassformer":
        model = gf.load(folder, quantize="int8" if kind == "int8" else None)
        model = model.pack() if packed else model
        run = partial(model.generate, batch_size=BATCH * BEAMS, **OPTIONS)
        layers = step_layers(model)
        return run, sum(getattr(layer, "codes", layer.weight).nbytes for layer in layers)
    if maker == "transformers":
        peer = transformers.MarianMTModel.from_pretrained(folder).eval()

        def generate(source: list[list[int]]) -> Any:
            x = torch.tensor(source)
            return peer.generate(x, attention_mask=torch.ones_like(x), do_sample=False, **OPTIONS)

        return generate, 0
    translator = converted(folder, kind)
    limits = {"min_decoding_length": NEW, "max_decoding_length": NEW}

    def translate(source: list[list[int]]) -> Any:
        words = [[str(i) for i in row] for row in source]
        return translator.translate_batch(words, beam_size=BEAMS, **limits)

    return translate, 0


def main(rounds: int) -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    source = torch.randint(5, WORDS - 5, (BATCH, SOURCE)).tolist()
    model = gf.create("transformer-base", vocab_size=WORDS, decoder_vocab_size=WORDS)
    rate = memory_rate()
    least = {"float32": floors(model, rate)}
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        least["int8"] = floors(model.quantize("int8"), rate)
        sides = []
        for name in SIDES:
            try:
                sides.append(Side(__file__, name, folder))
            except RuntimeError:
                print(f"{name} is not installed, so it is left out.")
        times: dict[str, list[float]] = {side.name: [] for side in sides}
        for turn in range(1 + rounds):
            for side in sides:
                seconds = side.time(source)
                times[side.name] += [seconds] if turn else []
        for side in sides:
            side.process.terminate()
    rates = {name: BATCH * NEW / statistics.median(values) for name, values in times.items()}
    row: dict[str, Any] = {"what": "translation", "batch": BATCH, "beams": BEAMS, "rounds": rounds}
    for name, rate in rates.items():
        maker, kind = name.split()[:2]
        row[name] = {"tokens_per_second": round(rate, 1)}
        text = f"{name:28} {rate:7.1f} tokens/s"
        for other, theirs in rates.items():
            if maker == "glassformer" and other.endswith(kind) and other not in OURS:
                row[name][f"over {other}"] = round(rate / theirs, 2)
                text += f"   {rate / theirs:.2f}x {other}"
        if maker == "glassformer":
            row[name]["floors_ms"] = {what: round(s * 1e3, 2) for what, s in least[kind].items()}
            text += f"   a step {BATCH / rate * 1e3:.1f} ms, at least " + ", ".join(
                f"{s * 1e3:.1f} by its {what}" for what, s in least[kind].items()
            )
        print(text, flush=True)
    write(__file__, [row])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(make, *sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
