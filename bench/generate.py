"""Generation on two CPU cores, 32 tokens in and 64 out, float32 and quantized, beside transformers
and, where it is installed (`pip install ctranslate2`), CTranslate2:

    python bench/generate.py
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from timing import in_turn, write

import glassformer as gf
from glassformer.core.linear import Linear
from glassformer.weights.quantize import QuantizedLinear

try:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter
except ImportError:
    ctranslate2 = None

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

PROMPT, NEW, ROUNDS = 32, 64, 3
READING = 34e9  # bytes a second that these two cores read from memory
LLAMA = {  # as SmolLM2-135M
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}

Side = Callable[[], Any]


def ours(model: gf.Model, prompts: list[list[int]]) -> Side:
    return lambda: model.generate(prompts, max_new_tokens=NEW, min_new_tokens=NEW)


def theirs(peer: Any, prompts: list[list[int]]) -> Side:
    tokens = torch.tensor(prompts)
    knobs = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": 0}
    return lambda: peer.generate(tokens, attention_mask=torch.ones_like(tokens), **knobs)


def converted(folder: str, vocabulary: int, kind: str) -> Any:
    """CTranslate2's model of a folder; tokens are named by their numbers."""

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

    (Path(folder) / "vocab.json").write_text(json.dumps(Names().get_vocab()))
    out = tempfile.mkdtemp()
    Converter(folder).convert(out, quantization=kind, force=True)
    return ctranslate2.Generator(out, compute_type=kind, intra_threads=2, inter_threads=1)


def translated(generator: Any, prompts: list[list[int]]) -> Side:
    words = [[str(i) for i in prompt] for prompt in prompts]
    length = PROMPT + NEW
    return lambda: generator.generate_batch(
        words, max_length=length, min_length=length, sampling_topk=1, include_prompt_in_result=False
    )


def step_bytes(model: gf.Model) -> int:
    """What a step reads of the weights: all linear layers, however they are held. The 4-bit kernel
    reads scale and zero in bfloat16, together as much as the scale in float32."""
    layers = [module for module in model.net.modules() if isinstance(module, Linear)]
    return sum(
        layer.codes.nbytes + layer.scale.nbytes
        if isinstance(layer, QuantizedLinear)
        else layer.weight.nbytes
        for layer in layers
    )


def row(
    title: str, batch: int, sides: dict[str, Side], models: dict[str, gf.Model]
) -> dict[str, Any]:
    times = in_turn(sides, rounds=ROUNDS, warm=1)
    print(f"\n{title}, batch {batch}")
    result: dict[str, Any] = {"what": title, "batch": batch, "rounds": ROUNDS}
    for name, values in times.items():
        rate = batch * NEW / statistics.median(values)
        result[name] = {"tokens_per_second": round(rate, 1)}
        text = f"  {name:24} {rate:8.1f} tokens/s"
        if name in models:
            floor = step_bytes(models[name]) / READING
            reached = floor * rate / batch
            result[name]["reading_alone"] = round(batch / floor, 1)
            text += f"   memory limit {batch / floor:8.1f}, reached {reached:.0%}"
        print(text, flush=True)
    return result


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    rows = []
    for title, preset, settings in (
        ("GPT-2 small", "gpt2", {}),
        ("Llama 135M", "llama-7b", LLAMA),
    ):
        kinds = (None, "int8", "int4")
        made = [gf.create(preset, **settings) for _ in kinds]
        models = {
            f"glassformer {kind or 'float32'}": (
                model.pack() if kind is None else model.quantize(kind)
            )
            for kind, model in zip(kinds, made, strict=True)
        }
        peers: dict[str, Callable[[list[list[int]]], Side]] = {}
        with tempfile.TemporaryDirectory() as folder:
            gf.create(preset, **settings).save(folder)
            peer = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
            peers["transformers float32"] = lambda prompts, peer=peer: theirs(peer, prompts)
            vocabulary = peer.config.vocab_size
            if ctranslate2 is None:
                print("CTranslate2 is not installed, so it is left out.")
            elif preset == "gpt2":
                for kind in ("float32", "int8"):
                    made_by = converted(folder, vocabulary, kind)
                    peers[f"CTranslate2 {kind}"] = lambda prompts, g=made_by: translated(g, prompts)
        for batch in (1, 8):
            prompts = torch.randint(5, vocabulary - 5, (batch, PROMPT)).tolist()
            sides = {name: ours(model, prompts) for name, model in models.items()}
            sides |= {name: make(prompts) for name, make in peers.items()}
            rows.append(row(title, batch, sides, models))
            write(__file__, rows)


if __name__ == "__main__":
    main()
