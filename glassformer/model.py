"""The `Model` class: a Transformer with its config, tokenizer, task methods and load report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from glassformer.adapters.base_model import AdapterBase
from glassformer.core import Transformer
from glassformer.core.checkpointing import GradientCheckpointing
from glassformer.core.stack import Stack
from glassformer.errors import LoadError
from glassformer.generate import Generator
from glassformer.generate.prefix import PrefixCache
from glassformer.generate.recordings import Recordings
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.view import View
from glassformer.inside.intervene.edit import Edit
from glassformer.inside.intervene.editing import edit
from glassformer.model_adapters import ModelAdapters
from glassformer.model_files import save_model
from glassformer.model_generation import TextGeneration
from glassformer.model_tasks import TextTasks
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.image_processor import ImageProcessor
from glassformer.spec import AudioFramesSpec, PatchEmbeddingSpec
from glassformer.tasks.pooling import Pooling, read_pooling
from glassformer.text import Tokenizer
from glassformer.text.backends.whisper import without_words
from glassformer.text.loading.files import holds_reader
from glassformer.text.loading.load import holds_tokenizer
from glassformer.weights.load_report import LoadReport
from glassformer.weights.quantization import count_parameters, quantize
from glassformer.weights.resize import resize_token_embeddings
from glassformer.weights.save import SHARD_BYTES
from glassformer.weights.tensor_files import is_openai


class Model(TextGeneration, TextTasks):
    """A loaded or newly created model: a `torch.nn.Module` that is called on token ids.

    Attributes:
        spec: The architecture.
        config: The contents of config.json.
        architecture: The name of the published model class.
        load_report: What happened to each tensor when the model was loaded.
        generation_config: The contents of generation_config.json, or None.
        source: The folder or file that the model was loaded from, or None.
        base: How an adapter's folder refers to this model, or None.

    >>> model = gf.Model.from_pretrained("zoo:stories")
    >>> model(**model.tokenizer("Once upon a time", return_tensors="pt")).logits.shape
    """

    def __init__(
        self,
        transformer: Transformer,
        config: dict[str, Any],
        architecture: str,
        *,
        tokenizer: Tokenizer | Path | None = None,
        processor: Path | None = None,
        pooling: Pooling | Path | None = None,
        load_report: LoadReport | None = None,
        generation_config: dict[str, Any] | None = None,
    ) -> None:
        """Takes over the modules of a transformer.

        Args:
            transformer: The network with its weights.
            config: The contents of config.json.
            architecture: The name of the published model class.
            tokenizer: The tokenizer, or the folder that it is read from on first access.
            processor: The folder with the settings of an audio or image processor.
            pooling: How `embed` pools hidden states, or the folder that says so.
            load_report: What happened to each tensor when the model was loaded.
            generation_config: The contents of generation_config.json.
        """
        nn.Module.__init__(self)
        self.spec = transformer.spec
        self.encoder, self.decoder = transformer.encoder, transformer.decoder
        self.heads = transformer.heads
        self.train(transformer.training)
        self.config = config
        self.architecture = architecture
        self.load_report = load_report or LoadReport()
        self.generation_config = generation_config
        self.source: Path | None = None
        self.base: AdapterBase | None = None
        self._tokenizer = tokenizer
        self._pooling = pooling
        self.processor_source = (
            processor if processor is not None and holds_reader(processor) else None
        )
        self._recorded = Recordings()
        self._prefix_cache = PrefixCache()

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | str | None = None,
        architecture: str | None = None,
        init_missing: str | Sequence[str] = (),
        ignore_unexpected: str | Sequence[str] = (),
        labels: Sequence[str] | None = None,
        seed: int = 0,
        quantize: str | None = None,
        adapter: str | Path | None = None,
        revision: str | None = None,
        download: bool = False,
    ) -> Model:
        """Loads a model; `glassformer.load` is the short form and describes the arguments.

        Args:
            name_or_path: As `source` in `glassformer.load`.
            device: Device of the weights.
            dtype: The dtype of the weights; None keeps that of the file.
            architecture: The published class; None is that of config.json.
            init_missing: Beginnings of the names of tensors that are newly initialized.
            ignore_unexpected: Beginnings of the names of tensors that are not loaded.
            labels: The labels of a new classification head.
            seed: Seed of newly initialized tensors.
            quantize: "int8" or "int4" weights of the linear layers.
            adapter: The folder of an adapter.
            revision: A branch, tag or commit of a model on the hub, as in "org/name@revision".
            download: Whether a model that is named as on the hub is downloaded from there.

        Returns:
            The model.
        """
        source = name_or_path if revision is None else f"{name_or_path}@{revision}"
        load = import_module("glassformer.loading").load  # it imports this module
        model: Model = load(
            source,
            device,
            dtype,
            architecture=architecture,
            init_missing=init_missing,
            ignore_unexpected=ignore_unexpected,
            labels=labels,
            seed=seed,
            quantize=quantize,
            adapter=adapter,
            download=download,
        )
        return model

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        dtype: torch.dtype | str | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Saves the model to a folder that `load` and the reference implementation can read.

        Only `load` reads the folder of a quantized model. An adapter is not saved with the weights:
        see `adapters.save` and `adapters.merge`. If the adapter holds a head that the weights lack,
        it must be merged first. A model that is already in the folder is replaced completely or not
        at all; other files in the folder stay.

        Args:
            folder: Target folder.
            dtype: Dtype of the saved weights ("float16"), if it differs from the model's.
            shard_bytes: Maximum size of one weights file.
        """
        save_model(self, Path(folder), dtype, shard_bytes)

    save = save_pretrained

    # --- parts -----------------------------------------------------------------------------------

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, read from the model's folder on first access; None if there is none."""
        folder = self.tokenizer_source
        if folder is None:
            assert not isinstance(self._tokenizer, Path)
            return self._tokenizer
        if not holds_tokenizer(folder):
            return None
        return Tokenizer.load(
            folder,
            size=self.config.get("vocab_size"),
            context_length=(self.spec.encoder or self.spec.last_stack).context_length,
        )

    @property
    def tokenizer_source(self) -> Path | None:
        """The folder that the tokenizer is read from; None if it was given as an object."""
        return self._tokenizer if isinstance(self._tokenizer, Path) else None

    def read_tokenizer(self, folder: Path) -> None:
        """Makes the tokenizer in a folder the model's.

        Args:
            folder: The folder of the tokenizer.
        """
        self._tokenizer = folder
        self.__dict__.pop("tokenizer", None)

    @cached_property
    def processor(self) -> AudioProcessor | ImageProcessor | None:
        """The audio or image processor; None if the model reads text only.

        Its settings come from the model's folder, or else are the defaults for a model of this
        size.
        """
        embed = None if self.spec.encoder is None else self.spec.encoder.embed
        folder = self.processor_source
        if isinstance(embed, AudioFramesSpec):
            return AudioProcessor.of(embed) if folder is None else AudioProcessor.load(folder)
        if isinstance(embed, PatchEmbeddingSpec):
            return ImageProcessor.of(embed) if folder is None else ImageProcessor.load(folder)
        return None

    @cached_property
    def pooling(self) -> Pooling | None:
        """How `embed` pools hidden states into one vector.

        None if the model was not made for that. It can be assigned, and is saved in the format of
        the sentence-transformers library.
        """
        if isinstance(self._pooling, Path):
            return read_pooling(self._pooling)
        return self._pooling

    @property
    def adapters(self) -> ModelAdapters:
        """Adds, loads, activates, merges and saves adapters, such as LoRA."""
        return ModelAdapters(self)

    @property
    def generator(self) -> Generator:
        """The text generator of this model.

        Its saved settings are generation_config.json, or config.json in folders from before 2023.
        """
        saved = self.config if self.generation_config is None else self.generation_config
        if self.tokenizer is None and self.source is not None and is_openai(self.source):
            why = without_words(self.source, self.config["vocab_size"])
            raise LoadError(f"The model's vocabulary is missing; {why}")
        return Generator(self, self.tokenizer, saved, self._recorded, self._prefix_cache)

    # --- torch.nn.Module -------------------------------------------------------------------------

    @property
    def problem_type(self) -> str | None:
        """What the labels of a classification head mean, if config.json says so."""
        found: str | None = self.config.get("problem_type")
        return found

    def num_parameters(self, only_trainable: bool = False) -> int:
        """Counts the parameters; tied ones count once, quantized ones by what they represent.

        Args:
            only_trainable: Counts only parameters that are trained.

        Returns:
            The number of parameters.
        """
        if only_trainable:
            return sum(p.numel() for p in self.parameters() if p.requires_grad)
        return count_parameters(self)

    def get_input_embeddings(self) -> nn.Module:
        """Returns the token table of the stack that reads `input_ids`."""
        stack = self.encoder or self.decoder
        assert stack is not None
        found: nn.Module = stack.embed.get_submodule("token")
        return found

    def resize_token_embeddings(self, size: int, *, seed: int = 0) -> Model:
        """Changes the size of the vocabulary; existing tokens keep their vectors.

        Args:
            size: The new number of tokens, such as `len(tokenizer)`.
            seed: Seed of the new vectors.

        Returns:
            The model itself.
        """
        resize_token_embeddings(self, size, seed)
        return self.invalidate()

    def gradient_checkpointing_enable(self) -> None:
        """Recomputes layers in the backward pass: training takes less memory and more time."""
        for stack in self.stacks:
            stack.checkpointing = GradientCheckpointing()

    def gradient_checkpointing_disable(self) -> None:
        """Keeps the activations of all layers for the backward pass, as by default."""
        for stack in self.stacks:
            stack.checkpointing = None

    @property
    def stacks(self) -> list[Stack]:
        """The encoder and the decoder, as far as the model has them."""
        return [stack for stack in (self.encoder, self.decoder) if stack is not None]

    def invalidate(self) -> Model:
        """Discards recorded decoding steps and cached prompts, which belong to other weights.

        Returns:
            The model itself.
        """
        self._recorded.clear()
        self._prefix_cache.forget()
        return self

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.invalidate()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Omits recorded decoding steps and cached prompts from copies."""
        return {**self.__dict__, "_recorded": Recordings(), "_prefix_cache": PrefixCache()}

    def _get_name(self) -> str:
        return self.architecture

    def extra_repr(self) -> str:
        kind = self.config.get("quantization")
        return f"{self.num_parameters():,} parameters{f' in {kind}' if kind else ''}"

    def quantize(self, kind: str) -> Model:
        """Quantizes the weights of the linear layers, for inference.

        `evaluate.quantization_cost` measures what this costs on a text.

        Args:
            kind: "int8" or "int4".

        Returns:
            The model itself.
        """
        quantize(self, kind)
        self.config["quantization"] = kind
        return self.invalidate()

    # --- inspection ------------------------------------------------------------------------------

    def look(
        self,
        text: Text,
        target: Text | None = None,
        at: str | Iterable[str] = (),
        *,
        head: str | None = None,
        edits: Iterable[Edit | Mapping[str, Any]] = (),
    ) -> View:
        """Gives access to the activations of a forward pass over a text.

        Args:
            text: The input text; for an encoder-decoder, the encoder's input.
            target: For an encoder-decoder, the decoder's text.
            at: Names of tensors to capture immediately; see `inside.look`.
            head: The head whose outputs are used if the model has several.
            edits: Edits that apply to this view only.

        Returns:
            A view of the forward pass.

        >>> model.look("To be, or not to be").attention[3, 1].numpy()
        """
        return look(self, text, target, at, head=head, edits=edits)

    def edit(self, *edits: Edit | Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Returns a context manager that changes activations while it is active; see `inside.Edit`.

        Args:
            *edits: Edits, or dicts that describe them.

        >>> with model.edit(inside.ablate_heads(3, [1, 2])): model.generate("To be, or")
        """
        return edit(self, edits)
