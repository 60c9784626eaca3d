"""Translation on two CPU cores: a base Transformer (2017: 6 + 6 layers, width 512, 32,000 words),
beam 5, 16 texts at once, 32 tokens in and 40 out, beside transformers and, where it is installed
(`pip install ctranslate2`), CTranslate2:

    python bench/translate.py [ROUNDS]

The floors of a step are the bytes of its weights over the rate of memory, and its products over the
rate that the two cores reach in a large one, which is measured first.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from generate import READING
from timing import in_turn, write

import glassformer as gf
from glassformer.core.linear import Linear
from glassformer.weights.quantize import QuantizedLinear

try:
    import ctranslate2
except ImportError:
    ctranslate2 = None

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.filterwarnings("ignore", message=".*quantize_per_tensor.*")

BATCH, BEAMS, SOURCE, NEW = 16, 5, 32, 40
WORDS = 32000
KNOBS = {"num_beams": BEAMS, "min_new_tokens": NEW, "max_new_tokens": NEW}
Side = Callable[[], Any]


def converted(folder: str, kind: str) -> Any:
    """CTranslate2's model of a folder; tokens are named by their numbers. It drops the last word,
    which Marian has for padding."""
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

    (Path(folder) / "vocab.json").write_text(json.dumps(Names().get_vocab()))
    out = tempfile.mkdtemp()
    Converter(folder).convert(out, quantization=kind, force=True)
    return ctranslate2.Translator(out, compute_type=kind, intra_threads=2, inter_threads=1)


def step_layers(model: gf.Model) -> list[Linear]:
    """The linear layers that a step goes through; of cross-attention's keys they are none."""
    named = [*model.net.decoder.named_modules(), *model.net.heads.named_modules()]
    return [m for name, m in named if isinstance(m, Linear) and not name.endswith("cross.kv")]


def floors(model: gf.Model) -> dict[str, float]:
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
    return {"bytes": size / READING, "operations": operations * min(times) / (2 * 2048**3)}


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    source = torch.randint(5, WORDS - 5, (BATCH, SOURCE))
    settings = {"vocab_size": WORDS, "decoder_vocab_size": WORDS}
    models = {f"glassformer {kind}": gf.create("transformer-base", **settings)
              for kind in ("float32", "float32 packed", "int8")}  # fmt: skip
    models["glassformer float32 packed"].pack()
    models["glassformer int8"].quantize("int8")
    sides: dict[str, Side] = {
        name: lambda model=model: model.generate(source.tolist(), batch_size=BATCH * BEAMS, **KNOBS)
        for name, model in models.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        gf.create("transformer-base", **settings).save(folder)
        peer = transformers.MarianMTModel.from_pretrained(folder).eval()
        mask = torch.ones_like(source)
        sides["transformers float32"] = lambda: peer.generate(
            source, attention_mask=mask, do_sample=False, **KNOBS
        )
        if ctranslate2 is None:
            print("CTranslate2 is not installed, so it is left out.")
        words = [[str(i) for i in row] for row in source.tolist()]
        for kind in ("float32", "int8") if ctranslate2 is not None else ():
            translator = converted(folder, kind)
            sides[f"CTranslate2 {kind}"] = lambda t=translator: t.translate_batch(
                words, beam_size=BEAMS, min_decoding_length=NEW, max_decoding_length=NEW
            )
        times = in_turn(sides, rounds=rounds, warm=1)
    rates = {n: BATCH * NEW / statistics.median(values) for n, values in times.items()}
    row: dict[str, Any] = {"what": "translation", "batch": BATCH, "beams": BEAMS, "rounds": rounds}
    for name, rate in rates.items():
        row[name] = {"tokens_per_second": round(rate, 1)}
        text = f"{name:28} {rate:7.1f} tokens/s"
        for other, theirs in rates.items():
            if name in models and other not in models and ("int8" in name) == ("int8" in other):
                row[name][f"over {other}"] = round(rate / theirs, 2)
                text += f"   {rate / theirs:.2f}x {other}"
        if name in models:
            least = floors(models[name])
            row[name]["floors_ms"] = {what: round(s * 1e3, 2) for what, s in least.items()}
            text += f"   a step {BATCH / rate * 1e3:.1f} ms, at least " + ", ".join(
                f"{s * 1e3:.1f} by its {what}" for what, s in least.items()
            )
        print(text, flush=True)
    write(__file__, [row])


if __name__ == "__main__":
    main()
