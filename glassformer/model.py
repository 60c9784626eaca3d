"""The `Model` class: a network with its config, tokenizer, task methods and load report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from glassformer import adapters
from glassformer.adapters.base_model import (
    AdapterBase,
    AdapterDescription,
    read_description,
    write_description,
)
from glassformer.core import Transformer
from glassformer.errors import GlassformerError, LoadError, UnsupportedError
from glassformer.families import find_family, spec_from_config
from glassformer.generate import (
    GenerationChunk,
    GenerationOutput,
    Generator,
    QuantizationCost,
    Score,
)
from glassformer.generate.infilling import infill
from glassformer.generate.prefix import PrefixCache
from glassformer.generate.prompt import Prompt
from glassformer.inside.capture.look import look
from glassformer.inside.capture.view import View
from glassformer.inside.intervene.edit import Edit
from glassformer.inside.intervene.editing import edit
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.image_processor import ImageProcessor
from glassformer.spec import AudioFramesSpec, ModelSpec, PatchEmbeddingSpec
from glassformer.storage.files import write_json
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.tasks.answer import answer
from glassformer.tasks.classify import classify
from glassformer.tasks.embed import Vector, embed, states_width
from glassformer.tasks.fill import fill
from glassformer.tasks.fill_types import Filled
from glassformer.tasks.monitor import Monitor, watch
from glassformer.tasks.pooling import Pooling, read_pooling, write_pooling
from glassformer.tasks.summarize import summarize
from glassformer.tasks.tag import tag
from glassformer.tasks.task_settings import keep
from glassformer.tasks.translate import translate as translate_texts
from glassformer.text import Tokenizer
from glassformer.text.backends.whisper import without_words
from glassformer.text.loading.files import copy_reader, holds_reader
from glassformer.text.loading.load import holds_tokenizer
from glassformer.weights.dtypes import as_dtype
from glassformer.weights.folder_kind import ADAPTER_CONFIG, published
from glassformer.weights.load_report import LoadReport
from glassformer.weights.quantization import count_parameters, quantize
from glassformer.weights.save import (
    CONFIG,
    SHARD_BYTES,
    WEIGHT_KEYS,
    dtype_of,
    old_weights,
    save_transformer,
)
from glassformer.weights.tensor_files import is_openai


class Model:
    """A loaded or newly created model.

    Attributes:
        net: The `torch.nn.Module`.
        spec: The architecture of `net`.
        config: The contents of config.json.
        architecture: The name of the published model class.
        report: What happened to each tensor when the model was loaded.
        generation: The contents of generation_config.json, or None.
        source: The folder or file that the model was loaded from, or None.
    """

    def __init__(
        self,
        net: Transformer,
        config: dict[str, Any],
        architecture: str,
        *,
        tokenizer: Tokenizer | Path | None = None,
        reader: Path | None = None,
        pooling: Pooling | Path | None = None,
        report: LoadReport | None = None,
        generation: dict[str, Any] | None = None,
    ) -> None:
        self.net = net
        self.config = config
        self.architecture = architecture
        self.report = report or LoadReport()
        self.generation = generation
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._recorded: dict[Any, Any] = {}
        self.source: Path | None = None  # folder or file it was loaded from
        self.base: AdapterBase | None = None  # how an adapter's folder refers to this model
        self._shelf = PrefixCache()
        self._reader = reader if reader is not None and holds_reader(reader) else None

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, read from the model's folder on first access; None if there is none."""
        folder = self._tokenizer
        if not isinstance(folder, Path):
            return folder
        if not holds_tokenizer(folder):
            return None
        return Tokenizer.load(folder, size=self.config.get("vocab_size"))

    @cached_property
    def reader(self) -> AudioProcessor | ImageProcessor | None:
        """The audio or image processor; None if the model reads text only.

        Its settings come from the model's folder, or else are the defaults for a model of this
        size.
        """
        embed = None if self.spec.encoder is None else self.spec.encoder.embed
        folder = self._reader  # holds its settings
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
    def spec(self) -> ModelSpec:
        """The architecture of the model."""
        return self.net.spec

    def save(
        self,
        folder: str | Path,
        *,
        dtype: torch.dtype | str | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Saves the model to a folder that `load` and the reference implementation can read.

        Only `load` reads the folder of a quantized model. An adapter is not saved with the weights:
        see `save_adapter` and `merge_adapter`. If the adapter holds a head that the weights lack,
        it must be merged first. A model that is already in the folder is replaced completely or not
        at all; other files in the folder stay.

        Args:
            folder: Target folder.
            dtype: Dtype of the saved weights ("float16"), if it differs from the model's.
            shard_bytes: Maximum size of one weights file.
        """
        on = adapters.active(self.net)
        if on is not None and not set(self.report.made).isdisjoint(on.own):
            raise UnsupportedError(
                f"The adapter {on.name!r} holds weights that the model lacks; write them with "
                "save_adapter, or merge_adapter(forget=True) before save."
            )
        stored = as_dtype(dtype)
        if stored is not None and "quantization" in self.config:
            raise UnsupportedError(
                "Quantized weights are saved as they are; leave `dtype` out.", field="dtype"
            )
        config = {
            **self.config,
            "architectures": [self.architecture],
            "dtype": dtype_of(self.net, stored),
        }
        config.pop("torch_dtype", None)
        with atomic_folder(Path(folder), keys=WEIGHT_KEYS, obsolete=old_weights) as draft:
            family = find_family(config)
            with adapters.switched_off(self.net):
                save_transformer(
                    draft, self.net, family, config, self.architecture, shard_bytes, stored
                )
            if self.tokenizer is not None:
                self.tokenizer.save(draft)
            if self._reader is not None:
                copy_reader(self._reader, draft)
            elif self.reader is not None:
                self.reader.save(draft)
            if self.pooling is not None:
                write_pooling(self.pooling, draft, states_width(self))
            if self.generation is not None:
                write_json(draft / "generation_config.json", self.generation)

    def pack(self) -> Model:
        """Packs the linear layers for faster inference on a CPU; see `Transformer.pack`."""
        self.net.pack()
        return self

    def quantize(self, kind: str) -> Model:
        """Quantizes the weights of the linear layers, for inference.

        `quantization_cost` measures what this costs on a text.

        Args:
            kind: "int8" or "int4".

        Returns:
            The model itself.
        """
        quantize(self.net, kind)
        self._shelf.forget()  # it keeps the old weights alive
        self.config["quantization"] = kind
        return self

    def add_adapter(
        self, settings: adapters.AdapterConfig, name: str = "default", *, seed: int = 0
    ) -> Model:
        """Adds an adapter and activates it: from then on only the adapter is trained.

        Args:
            settings: LoRA, AdaLoRA, bottleneck, prefix, prompt or BitFit settings.
            name: Name of the adapter.
            seed: Seed of its initial weights.

        Returns:
            The model itself.

        >>> model.add_adapter(adapters.LoRA(rank=8, targets=("q_proj", "v_proj")))
        """
        adapters.add(self, settings, name, seed=seed)
        return self._changed()

    def load_adapter(self, folder: str | Path, name: str = "default") -> Model:
        """Loads an adapter, with the labels and task settings that are stored with it.

        Args:
            folder: A folder written by `save_adapter` or by the peft library, or the folder of a
                training run that trained an adapter.
            name: Name of the adapter in this model.

        Returns:
            The model itself.
        """
        place = published(Path(folder))
        has_config = (place / ADAPTER_CONFIG).is_file()
        told = read_description(place) if has_config else AdapterDescription(base=None)
        if told.architecture not in (None, self.architecture):
            raise LoadError(
                f"The adapter {folder} is for {told.architecture}, and this model is "
                f"{self.architecture}; gf.load({str(folder)!r}) loads both as they were."
            )
        adapters.load_adapter(self, place, name)
        if told.config is not None:
            held = {k: v for k, v in self.config.items() if k == "quantization"}
            self.config = {**told.config, **held}
            labels = spec_from_config(told.config, self.architecture).labels
            self.net.spec = replace(self.net.spec, labels=labels)
        self.pooling = read_pooling(place) or self.pooling
        if holds_tokenizer(place):
            self._tokenizer = place
            self.__dict__.pop("tokenizer", None)
        self.source = place
        return self._changed()

    def save_adapter(self, folder: str | Path, *, base: str | None = None) -> None:
        """Saves the active adapter in the layout of the peft library.

        Other files in the folder stay, so it may be the model's own folder.

        Args:
            folder: Target folder.
            base: The base model that the adapter refers to, if it is not the folder that this model
                was loaded from.
        """
        adapter = adapters.active(self.net)
        if adapter is None:
            raise GlassformerError("The model has no adapter that is on; add or switch to one.")
        told = self.base
        if base is not None:
            told = replace(told or AdapterBase(source=base), source=base, folder=base)
        target = Path(folder)
        complete_pending_save(target)
        beside = (target / CONFIG).is_file()  # holds a model, whose tokenizer and pooling stay
        own_tokenizer = self.tokenizer is not None and not self._reads_as_base
        if beside and (own_tokenizer or read_pooling(target) != self.pooling):
            raise LoadError(
                f"{folder} holds a model with another tokenizer or pooling; save the adapter in "
                "its own folder."
            )
        with atomic_folder(target, keys=(ADAPTER_CONFIG,)) as draft:
            adapters.write_adapter(self, adapter, draft, None if told is None else told.folder)
            write_description(draft, target, told, self)
            if self.tokenizer is not None and own_tokenizer:
                self.tokenizer.save(draft)
            if self.pooling is not None and not beside:
                write_pooling(self.pooling, draft, states_width(self))

    @property
    def _reads_as_base(self) -> bool:
        """Whether the tokenizer is the one in the base model's folder."""
        there, own = None if self.base is None else self.base.folder, self._tokenizer
        return there is not None and isinstance(own, Path) and os.path.abspath(own) == there

    def switch_adapter(self, name: str | None) -> Model:
        """Activates one adapter and deactivates the others.

        Args:
            name: The adapter. None deactivates all, and makes the model's own weights trainable.

        Returns:
            The model itself.
        """
        adapters.switch(self.net, name)
        return self._changed()

    def remove_adapter(self, name: str = "default") -> Model:
        """Removes an adapter; the model's own weights are unchanged."""
        adapters.remove(self.net, name)
        return self._changed()

    def merge_adapter(self, name: str = "default", *, forget: bool = False) -> Model:
        """Merges a low-rank adapter into the weights, which removes its cost at inference.

        Args:
            name: The adapter.
            forget: Discards the original weights, so that `unmerge_adapter` is no longer possible.

        Returns:
            The model itself.
        """
        held = adapters.adapters_of(self.net).get(name)
        adapters.merge(self.net, name, forget=forget)
        if forget and held is not None:
            self.report.made = [made for made in self.report.made if made not in held.own]
            self.base = None  # no folder contains the merged weights
        return self._changed()

    def unmerge_adapter(self, name: str = "default") -> Model:
        """Restores the exact weights from before `merge_adapter`."""
        adapters.unmerge(self.net, name)
        return self._changed()

    def _changed(self) -> Model:
        """Discards the recorded decoding steps, which belong to the network before the change."""
        self._recorded.clear()
        return self

    def quantization_cost(
        self,
        kind: str,
        text: Prompt,
        target: Prompt | None = None,
        *,
        window: int | None = None,
        stride: int | None = None,
    ) -> QuantizationCost:
        """Quantizes the model and measures how much worse it predicts a text afterward.

        Args:
            kind: "int8" or "int4".
            text, target, window, stride: As in `score`.

        Returns:
            The scores of the text before and after quantization.

        >>> print(gf.load("shakespeare").quantization_cost("int4", "To be, or not to be"))
        """
        before = self.score(text, target, window=window, stride=stride)
        after = self.quantize(kind).score(text, target, window=window, stride=stride)
        return QuantizationCost(kind, before, after)

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt] | None = None,
        *,
        assistant_model: Model | None = None,
        **knobs: Any,
    ) -> GenerationOutput | list[GenerationOutput]:
        """Generates text from a prompt.

        Further keyword arguments are the fields of `generate.config.GenerationConfig`, named as in
        transformers.

        Args:
            prompt: A text, a list of token ids, or a list of either. None starts from the start
                token. For an encoder-decoder the prompt is the encoder's input; for a model that
                reads audio it is a spectrogram: `model.generate(model.reader("hello.wav"))`.
            assistant_model: A smaller draft model for speculative decoding: faster, with the same
                result.

        Returns:
            One `GenerationOutput`, or a list of them for a list of prompts.

        >>> model.generate("To be, or", max_new_tokens=20, do_sample=True, top_k=40).text
        """
        return self.writer.generate(prompt, knobs, _net_of(assistant_model))

    def stream(
        self,
        prompt: Prompt | None = None,
        *,
        assistant_model: Model | None = None,
        **knobs: Any,
    ) -> Iterator[GenerationChunk]:
        """Generates like `generate`, and yields tokens as they are produced.

        >>> for piece in model.stream("To be, or"): print(piece.text, end="")
        """
        return self.writer.stream(prompt, knobs, _net_of(assistant_model))

    def infill(
        self, text: str, *, assistant_model: Model | None = None, **knobs: Any
    ) -> GenerationOutput:
        """Fills the gaps of a text by generation.

        Args:
            text: A text whose gaps are marked by `___` or by the tokenizer's own mask or sentinel
                tokens.
            assistant_model: As in `generate`, like the further keyword arguments.

        Returns:
            An output whose `text` is the whole text and whose `spans` are the generated pieces.

        >>> t5.infill("The ___ walks in ___ park.").spans
        """
        return infill(self, text, assistant_model=assistant_model, **knobs)

    def fill(
        self, texts: str | Sequence[str] | Iterator[str], **how: Any
    ) -> Filled | list[Filled] | Iterator[Filled]:
        """Predicts what belongs in the gaps of texts.

        Args:
            texts: A text with gaps marked by `___`, a list of texts, or an iterator.
            **how: Arguments of `tasks.fill.filler`: `top` candidates, at most `tokens` per gap,
                choices `among` given words; for T5 and BART also the generation settings.

        Returns:
            For each text the candidates of every gap and the best joint fillings.

        >>> bert.fill("Paris is the ___ of France.").gaps[0].candidates[0].text
        """
        return fill(self, texts, **how)

    def embed(
        self, texts: str | Sequence[str] | Iterator[str], **how: Any
    ) -> Vector | Iterator[Vector]:
        """Computes one vector per text.

        Args:
            texts: A text, a list of texts, or an iterator.
            **how: Arguments of `tasks.embed.Embedder.of`: `pooling`, `normalize`, `prompt`,
                `length`.

        Returns:
            [width] for a text, [text, width] for a list, an iterator of vectors for an iterator.

        >>> a, b = minilm.embed(["A dog barks.", "The hound is loud."], normalize=True); a @ b
        """
        return embed(self, texts, **how)

    def translate(self, texts: Any, **options: Any) -> Any:
        """Translates texts. Long texts are translated in parts and keep their paragraphs.

        Args:
            texts: A text, a list of texts, or an iterator.
            **options: `source_language` and `target_language` (for a multilingual model), `split`
                ("parts", "sentences", "none"), `length` of a part in tokens, `prefix`, `separator`,
                and the arguments of `generate`.

        Returns:
            A `Translation` for a text, a list for a list, an iterator for an iterator.

        >>> m2m.translate("Guten Morgen.", source_language="de", target_language="en").text
        """
        return translate_texts(self, texts, **options)

    def summarize(self, texts: Any, **options: Any) -> Any:
        """Summarizes texts.

        Args:
            texts: A text, a list of texts, or an iterator.
            **options: `long` says what happens to a text that exceeds the model's context: "cut"
                drops the rest; "split" summarizes its parts and then the joined summaries. Further
                options are `length`, `prefix`, `separator`, and the arguments of `generate`.

        Returns:
            A `Summary` for a text, a list for a list, an iterator for an iterator.

        >>> bart.summarize(article, max_new_tokens=60).text
        """
        return summarize(self, texts, **options)

    def score(
        self,
        text: Prompt,
        target: Prompt | None = None,
        *,
        window: int | None = None,
        stride: int | None = None,
    ) -> Score:
        """Computes the log-probability of each token of a text, and the perplexity.

        A text longer than the model's context is read in overlapping windows. Each window advances
        by `stride` tokens and scores those, with the rest of the window as their context: the
        smaller the stride, the more context.

        Args:
            text: The text, or the encoder's input for an encoder-decoder.
            target: For an encoder-decoder, the text to score.
            window: Window length in tokens. Default: the model's context length.
            stride: Tokens scored per window. Default: half the window.
        """
        return self.writer.score(text, target, window, stride)

    def classify(self, texts: Any, **options: Any) -> Any:
        """Classifies texts.

        Args:
            texts: A text, a tuple of two texts, a list of either, or an iterator.
            **options: Arguments of `tasks.classify.Classifier`.

        Returns:
            A `Classification`, a list for a list, an iterator for an iterator.

        >>> model.classify(["A moving film.", "A bore."], threshold=0.7)
        """
        return classify(self, texts, **options)

    def tag(self, texts: Any, **options: Any) -> Any:
        """Tags the words of texts of any length and extracts entities with their positions.

        Args:
            texts: A text, a list of texts or of lists of words, or an iterator.
            **options: Arguments of `tasks.tag.Tagger`.

        Returns:
            A `Tagged`, a list for a list, an iterator for an iterator.

        >>> for entity in model.tag("Ada Lovelace was born in London.").entities: print(entity)
        """
        return tag(self, texts, **options)

    def answer(self, question: Any, context: Any, **options: Any) -> Any:
        """Extracts the answer to a question from a context of any length.

        Args:
            question: A question, a list of questions, or an iterator.
            context: The context of each question, in the same form.
            **options: Arguments of `tasks.answer.Answerer`.

        Returns:
            An `Answer` with its position in the context, a list for lists, an iterator for
            iterators.

        >>> model.answer("Where was she born?", "Ada Lovelace was born in London.").text
        """
        return answer(self, question, context, **options)

    def watch(self, records: Iterable[Mapping[str, Any]], **options: Any) -> Monitor:
        """Classifies dated texts, counts labels per period, and detects jumps in their shares.

        A period is an hour, a day or a week.

        Args:
            records: Mappings with a `date` and a `text`.
            **options: Arguments of `tasks.monitor.monitor.watch`.

        >>> model.watch([{"date": "2026-11-15", "text": "A moving film."}]).alerts
        """
        return watch(self, records, **options)

    def look(self, text: Any, target: Any = None, at: str | Iterable[str] = (), **how: Any) -> View:
        """Gives access to the activations of a forward pass over a text.

        Args:
            text: The input text; for an encoder-decoder, the encoder's input.
            target: For an encoder-decoder, the decoder's text.
            at: Names of tensors to capture immediately; see `inside.look`.
            **how: Further arguments of `inside.look`.

        >>> model.look("To be, or not to be").attention[3, 1].numpy()
        """
        return look(self, text, target, at, **how)

    def edit(self, *edits: Edit | Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Returns a context manager that changes activations while it is active; see `inside.Edit`.

        >>> with model.edit(inside.ablate_heads(3, [1, 2])): model.generate("To be, or")
        """
        return edit(self, edits)

    def keep(self, task: str, **settings: Any) -> Model:
        """Stores task settings in config.json, so that they are saved with the model.

        Args:
            task: The name of a task, or of one of several heads, which has its own settings.
            **settings: The settings; None deletes one.

        Returns:
            The model itself.

        >>> model.keep("classify", threshold={"spam": 0.9}).save(folder)
        """
        keep(self, task, **settings)
        return self

    @property
    def writer(self) -> Generator:
        """The text generator of this model.

        Its saved settings are generation_config.json, or config.json in folders from before 2023.
        """
        saved = self.config if self.generation is None else self.generation
        if self.tokenizer is None and self.source is not None and is_openai(self.source):
            said = without_words(self.source, self.config["vocab_size"])
            raise LoadError(f"The model's words are missing; {said}")
        return Generator(self.net, self.tokenizer, saved, self._recorded, self._shelf)

    def __repr__(self) -> str:
        kind = self.config.get("quantization")
        held = f" in {kind}" if kind else ""
        return f"<{self.architecture}: {count_parameters(self.net):,} parameters{held}>"


def _net_of(model: Model | None) -> Transformer | None:
    return None if model is None else model.net
