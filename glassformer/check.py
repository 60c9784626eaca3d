"""Compares a model with the reference implementation (transformers), number by number."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer import adapters
from glassformer.adapters import AdaLoRA, BitFit, LoRA
from glassformer.core.input_rules import input_name, shifted_right
from glassformer.errors import LoadError, UnsupportedError
from glassformer.find_model import find_folder
from glassformer.loading import load
from glassformer.model import Model
from glassformer.spec import AudioFramesSpec, BlockSparsePattern, ModelSpec, PatchEmbeddingSpec
from glassformer.storage.gguf_header import is_gguf
from glassformer.weights.folder_kind import holds_adapter

TOLERANCE = 1e-5
EXACT = 1e-10  # in float64


@dataclass
class CheckResult:
    """The largest absolute differences; None where there is nothing to compare.

    Attributes:
        reference: Name and version of the reference implementation.
        logits: Difference of the logits in float32.
        hidden: Difference of the last hidden states in float32.
        same_tokens: Whether both tokenizers gave the same ids.
        texts: Number of texts compared.
        finer: Difference in float64, computed only if the float32 differences are too large.
        rounding: Differences between float32 and float64, for this implementation and the
            reference.
    """

    reference: str
    logits: float | None
    hidden: float | None
    same_tokens: bool | None
    texts: int
    finer: float | None = None
    rounding: tuple[float, float] | None = None

    @property
    def equal(self) -> bool:
        return self.close and self.same_tokens is not False

    @property
    def close(self) -> bool:
        return all(d is None or d <= TOLERANCE for d in (self.logits, self.hidden))

    @property
    def rounded(self) -> bool:
        """Whether a too large difference is only float32 rounding.

        This holds if the difference vanishes in float64 and our rounding error is at most twice
        that of the reference. It explains a difference; the results still do not count as equal.
        """
        if self.finer is None or self.rounding is None:
            return False
        return self.finer <= EXACT and self.rounding[0] <= 2 * self.rounding[1]


TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "time flies like an arrow",
    "Thanks for all the",
    "je suis étudiant",
    "水能载舟，亦能覆舟。",
)


def check(
    source: str | Path,
    *,
    architecture: str | None = None,
    adapter: str | Path | None = None,
    texts: tuple[str, ...] = TEXTS,
    seed: int = 0,
) -> CheckResult:
    """Compares a model with the reference implementation in float32.

    If the results differ by more than the tolerance, as rounding of large logits may cause, both
    implementations are also run in float64. The reference reads adapters with peft. Models that
    read audio or images get random inputs.

    Args:
        source: As in `load`.
        architecture: As in `load`.
        adapter: As in `load`.
        texts: The texts to run on. Without a tokenizer, random token ids are used instead.
        seed: Seed of the random inputs.
    """
    transformers = import_reference()

    def ours(dtype: torch.dtype) -> Model:
        return load(source, dtype=dtype, architecture=architecture, adapter=adapter)

    model = ours(torch.float32)
    folder = find_folder(source)
    if adapters.active(model) is None:
        reference = load_reference(transformers, folder, model.architecture)
    else:
        reference = load_adapted_reference(transformers, model)
    same_tokens = None
    rows = None
    if model.tokenizer is not None:
        rows = [model.tokenizer.encode(text).ids for text in texts]
        where = model._tokenizer if isinstance(model._tokenizer, Path) else folder
        same_tokens = rows == reference_rows(transformers, where, texts)
    batch = make_batch(model, rows, seed)
    signal = make_signal(model.spec, len(batch[0]), seed)
    logits, hidden = compare_all(model, reference, *batch, signal)
    found = CheckResult(
        reference=f"transformers {transformers.__version__}",
        logits=logits,
        hidden=hidden,
        same_tokens=same_tokens,
        texts=len(batch[0]),
    )
    if found.close:
        return found
    with suppress(RuntimeError):  # FSMT's reference lacks float64; memory may run out
        fine = ours(torch.float64)
        theirs_fine = copy.deepcopy(reference).double()
        pairs = (fine, theirs_fine), (model, theirs_fine), (fine, reference)
        both = [compare_all(*pair, *batch, signal) for pair in pairs]
        finer, here, there = (max(d for d in side if d is not None) for side in both)
        found.finer, found.rounding = finer, (here, there)
    return found


def import_reference() -> Any:
    """Imports transformers and silences its logging."""
    try:
        import transformers
    except ImportError:
        raise UnsupportedError(
            "The reference implementation is not installed; pip install 'glassformer[check]'."
        ) from None
    reference: Any = transformers
    reference.logging.set_verbosity_error()
    reference.logging.disable_progress_bar()
    return reference


def load_reference(
    transformers: Any, folder: Path, architecture: str, settings: Mapping[str, Any] | None = None
) -> Any:
    """Loads a folder or GGUF file with the reference implementation, in float32.

    Args:
        transformers: The module of the reference implementation.
        folder: The folder or file.
        architecture: The name of the class.
        settings: Changes to config.json.
    """
    known = getattr(transformers, architecture, None)
    if known is None:
        raise UnsupportedError(
            f"transformers {transformers.__version__} has no {architecture} to compare with."
        )
    place = reference_place(folder)
    try:
        model = known.from_pretrained(**place, dtype=torch.float32, **(settings or {}))
    except Exception as error:  # any error is reported as the reference's
        raise _refused("the model", folder, error) from None
    return model.eval()


def load_adapted_reference(transformers: Any, model: Model) -> Any:
    """Loads the base in the reference implementation, and merges the adapter into it with peft."""
    assert model.base is not None and model.source is not None
    on = adapters.active(model)
    if on is None or not isinstance(on.settings, LoRA | AdaLoRA | BitFit):
        raise UnsupportedError(
            "The reference has no such adapter in its weights; LoRA, AdaLoRA and BitFit can be "
            "checked."
        )
    try:
        peft: Any = import_module("peft")
    except ImportError:
        raise UnsupportedError("To check an adapter, install peft: pip install peft.") from None
    if model.base.folder is None or holds_adapter(Path(model.base.folder)):
        raise UnsupportedError(
            f"The base of {model.source} is an adapter; merge it, save that and check it."
        )
    labels = {"num_labels": len(model.spec.labels)} if model.base.labels else {}
    base = load_reference(transformers, Path(model.base.folder), model.architecture, labels)
    return peft.PeftModel.from_pretrained(base, model.source).merge_and_unload().eval()


def reference_rows(transformers: Any, folder: Path, texts: tuple[str, ...]) -> list[list[int]]:
    """Returns the token ids that the reference tokenizer gives for the texts."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(**reference_place(folder))
        return [tokenizer(text)["input_ids"] for text in texts]
    except Exception as error:
        raise _refused("the tokenizer", folder, error) from None


def reference_place(folder: Path) -> dict[str, Any]:
    """Returns the `from_pretrained` arguments for a folder or a GGUF file."""
    if folder.is_file() and not is_gguf(folder):
        raise UnsupportedError(
            f"The reference cannot read {folder.name}; save the model as a folder and check that."
        )
    if folder.is_file():
        return {"pretrained_model_name_or_path": folder.parent, "gguf_file": folder.name}
    return {"pretrained_model_name_or_path": folder}


def _refused(what: str, folder: Path, error: Exception) -> LoadError:
    said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".: ")
    return LoadError(f"The reference cannot load {what} of {folder}: {said}.")


def make_batch(model: Model, rows: list[list[int]] | None, seed: int) -> tuple[Tensor, Tensor]:
    """Returns token ids of [text, position], padded on the right, and their mask."""
    spec = model.spec
    readers = [s for s in (spec.encoder, spec.decoder) if s is not None and s.embed.vocabulary]
    if not readers:  # the batch size of the signals
        return torch.zeros(4, 1, dtype=torch.long), torch.ones(4, 1, dtype=torch.bool)
    if rows is None:
        generator = torch.Generator().manual_seed(seed)
        vocabulary = min(stack.embed.vocabulary for stack in readers)
        ids = [i for i in range(vocabulary) if i not in vars(spec.tokens).values()]
        chosen = torch.randint(len(ids), (4, 12), generator=generator).tolist()
        rows = [[ids[i] for i in row[: 6 + 2 * n]] for n, row in enumerate(chosen)]
        if any(head.pooling == "eos" for head in spec.heads) and spec.tokens.eos is not None:
            rows = [[*row[:-1], spec.tokens.eos] for row in rows]
    table = readers[0].embed.position
    limit = None if table is None else table.length
    rows = [row[:limit] for row in rows]
    longest = max(map(len, rows))
    pad = spec.tokens.pad or 0
    tokens = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.arange(longest) < torch.tensor([[len(row)] for row in rows])
    return tokens, mask


def make_signal(spec: ModelSpec, count: int, seed: int) -> Tensor | None:
    """Returns random spectrograms or images of the encoder's input size; None if it reads text."""
    embed = None if spec.encoder is None else spec.encoder.embed
    generator = torch.Generator().manual_seed(seed)
    if isinstance(embed, AudioFramesSpec):
        frames = 2 * embed.position.length
        return torch.randn(count, embed.num_mel_bins, frames, generator=generator)
    if isinstance(embed, PatchEmbeddingSpec):
        return torch.randn(count, embed.channels, *embed.image_size, generator=generator)
    return None


def compare_all(
    model: Model, reference: Any, tokens: Tensor, mask: Tensor, signal: Tensor | None
) -> tuple[float | None, float | None]:
    """Runs `compare` on the whole batch, or per text if the reference treats padding as text."""
    if model.spec.last_stack.memory is None:
        return compare(model, reference, tokens, mask, signal)
    return _text_by_text(model, reference, tokens, mask)


@torch.no_grad()
def compare(
    model: Model, reference: Any, tokens: Tensor, mask: Tensor, signal: Tensor | None = None
) -> tuple[float | None, float | None]:
    """Returns the largest differences of the logits and of the last hidden states."""
    spec = model.spec
    blocked = any(
        isinstance(block.pattern, BlockSparsePattern) for block in spec.last_stack.attention_blocks
    )
    if blocked and len(tokens) > 1:
        return _text_by_text(model, reference, tokens, mask)
    if any(
        head.multiple_choice for head in spec.heads
    ):  # the texts become the choices of one example
        tokens, mask = tokens[None], mask[None]
    given: dict[str, Any] = {"input_ids": tokens, "attention_mask": mask.long()}
    ours: dict[str, Any] = {"input_ids": tokens, "attention_mask": mask}
    if spec.encoder is not None and spec.decoder is not None and not spec.shift_right:
        target = shifted_right(tokens, mask, spec.tokens.start or 0)
        given |= {"decoder_input_ids": target, "decoder_attention_mask": mask.long()}
        ours |= {"decoder_input_ids": target, "decoder_attention_mask": mask}
    if signal is not None:
        for inputs, dtype in ((given, reference.dtype), (ours, model.dtype)):
            inputs[input_name(spec)] = signal.to(dtype)
            del inputs["input_ids"], inputs["attention_mask"]
            if spec.decoder is None:
                inputs.pop("decoder_input_ids", None)
    if model.architecture.endswith("DoubleHeadsModel"):  # it takes no mask of the choices
        given = {"input_ids": tokens, "mc_token_ids": mask.sum(-1) - 1}
    if any(head.beam is not None for head in spec.heads):  # otherwise it attends to padding too
        given |= {"p_mask": (~mask).float(), "cls_index": mask.sum(-1) - 1}
    if spec.global_tokens in ("question", "answers"):  # random ids have no question and answers
        ours["global_attention_mask"] = torch.arange(tokens.shape[-1]).expand_as(tokens) < 2
        given["global_attention_mask"] = ours["global_attention_mask"].long()
    out = model(**ours)
    if hasattr(reference.base_model, "set_attention_type"):  # a short text may have changed it
        reference.base_model.set_attention_type(reference.config.attention_type)
    if spec.decoder is None and signal is not None:
        mask = mask.expand(-1, out.last_hidden_state.shape[1])
    if hasattr(reference.config, "use_cache"):  # FSMT is causal only without a cache
        given["use_cache"] = False
    reference = reference(**given, output_hidden_states=True)
    results = {REFERENCE_NAMES[k]: v for k, v in reference.items() if k in REFERENCE_NAMES}
    if "start_logits" in reference:
        results["span"] = torch.stack((reference["start_logits"], reference["end_logits"]), -1)
    named = {**out.head_outputs, "logits": out.logits}
    states = reference.get("last_hidden_state")
    if states is None:
        layers = reference.get("decoder_hidden_states") or reference.get("hidden_states")
        states = None if layers is None else layers[-1]
        if states is not None and model.encoder is not None and "pixel_values" in given:
            states = states.to(out.last_hidden_state.dtype)
            states = model.encoder.norm(states)  # unnormed in the reference, for images
    elif states.shape[-1] != out.last_hidden_state.shape[-1]:  # FSMT's bare model returns logits
        results["logits"], states = states, None
    differences = [max_difference(named[name], value, mask) for name, value in results.items()]
    hidden = None
    if states is not None:
        hidden = max_difference(
            out.last_hidden_state.reshape(states.shape), states, mask.view(states.shape[:-1])
        )
    return max(differences, default=None), hidden


def _text_by_text(
    model: Model, reference: Any, tokens: Tensor, mask: Tensor
) -> tuple[float | None, float | None]:
    """Compares per text, if the reference reads padding or cuts the padded batch into blocks."""
    pairs = [
        compare(model, reference, row[real][None], real[real][None])
        for row, real in zip(tokens, mask, strict=True)
    ]
    logits, hidden = (
        max((value for value in values if value is not None), default=None)
        for values in zip(*pairs, strict=True)
    )
    return logits, hidden


REFERENCE_NAMES = {
    "logits": "logits",
    "reconstruction": "logits",
    "prediction_logits": "lm",
    "seq_relationship_logits": "next_sentence",
    "sop_logits": "sentence_order",
    "start_top_log_probs": "answer.start",
    "end_top_log_probs": "answer.end",
    "cls_logits": "answer.possible",
    "mc_logits": "choose",
    "pooler_output": "pooler",
}


def max_difference(ours: Tensor, reference: Tensor, mask: Tensor) -> float:
    """Returns the largest difference at real tokens; results at padding have no meaning."""
    difference = (ours - reference).abs()
    if difference.shape[: mask.ndim] == mask.shape:
        difference = difference[mask]
    return float(difference.max())
