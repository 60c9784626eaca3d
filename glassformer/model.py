"""A model as its user holds it: the description, the net, the tokenizer, and what loading did."""

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
from glassformer.errors import GlassformerError
from glassformer.families import find_family, spec_from_config
from glassformer.generate import (
    GenerationChunk,
    GenerationOutput,
    Generator,
    QuantizationCost,
    Score,
)
from glassformer.generate.infill import infill
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
from glassformer.tasks.model_protocol import keep_settings
from glassformer.tasks.monitor.monitor import Monitor, watch
from glassformer.tasks.pooling import Pooling, read_pooling, write_pooling
from glassformer.tasks.summarize import summarize
from glassformer.tasks.tag import tag
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
    """`net` is the torch module, `spec` what it is made of, `config` what stands in config.json,
    `architecture` the published class, `generation` what stands in generation_config.json."""

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
        self.source: Path | None = None  # where it was loaded from
        self.base: AdapterBase | None = None  # the same as an adapter's folder says it
        self._shelf = PrefixCache()
        self._reader = reader if reader is not None and holds_reader(reader) else None

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Read from the model's folder when it is first asked for; None where there is none."""
        folder = self._tokenizer
        if not isinstance(folder, Path):
            return folder
        if not holds_tokenizer(folder):
            return None
        return Tokenizer.load(folder, size=self.config.get("vocab_size"))

    @cached_property
    def reader(self) -> AudioProcessor | ImageProcessor | None:
        """Makes numbers of sound or images, as the model's folder says, or else as is usual for a
        model of its size; None where the model reads text alone."""
        embed = None if self.spec.encoder is None else self.spec.encoder.embed
        folder = self._reader  # where its settings stand
        if isinstance(embed, AudioFramesSpec):
            return AudioProcessor.of(embed) if folder is None else AudioProcessor.load(folder)
        if isinstance(embed, PatchEmbeddingSpec):
            return ImageProcessor.of(embed) if folder is None else ImageProcessor.load(folder)
        return None

    @cached_property
    def pooling(self) -> Pooling | None:
        """How `embed` makes one vector of a text, where the model was made for that. It may be set,
        and is saved as the sentence-transformers library has it."""
        if isinstance(self._pooling, Path):
            return read_pooling(self._pooling)
        return self._pooling

    @property
    def spec(self) -> ModelSpec:
        """What the model is made of."""
        return self.net.spec

    def save(
        self,
        folder: str | Path,
        *,
        dtype: torch.dtype | str | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Writes a folder that `load`, and the reference implementation, read back; of a quantized
        model `load` alone. `dtype` is that of the numbers in the file ("float16"), if not the
        model's own. An adapter beside the weights is not part of it: see `save_adapter` and
        `merge_adapter`. Where the adapter holds a head that the weights lack, it has to be merged
        first. A model that is in the folder is replaced, wholly or not at all; other files there
        stay."""
        on = adapters.active(self.net)
        if on is not None and not set(self.report.made).isdisjoint(on.own):
            raise GlassformerError(
                f"The adapter {on.name!r} holds weights that the model lacks; write them with "
                "save_adapter, or merge_adapter(forget=True) before save."
            )
        stored = as_dtype(dtype)
        if stored is not None and "quantization" in self.config:
            raise GlassformerError("Quantized weights are saved as they are; leave `dtype` out.")
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
        """Holds the linear layers' weights in 8 bits ("int8") or 4 ("int4"), for inference. What
        it costs on a text says `quantization_cost`."""
        quantize(self.net, kind)
        self._shelf.forget()  # it holds on to the weights
        self.config["quantization"] = kind
        return self

    def add_adapter(
        self, settings: adapters.AdapterConfig, name: str = "default", *, seed: int = 0
    ) -> Model:
        """Adds LoRA, AdaLoRA, a bottleneck, a prefix, a prompt or BitFit, and turns it on: from now
        on it is all that learns.

        >>> model.add_adapter(adapters.LoRA(rank=8, targets=("q_proj", "v_proj")))
        """
        adapters.add(self, settings, name, seed=seed)
        return self._changed()

    def load_adapter(self, folder: str | Path, name: str = "default") -> Model:
        """Reads an adapter's folder, as `save_adapter` or the peft library write it, or that of a
        run which has trained one. With it come the labels and the settings of its task."""
        place = published(Path(folder))
        has_config = (place / ADAPTER_CONFIG).is_file()
        told = read_description(place) if has_config else AdapterDescription(base=None)
        if told.architecture not in (None, self.architecture):
            raise GlassformerError(
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
        """Writes the adapter that is on, in the layout of the peft library; `base` is what it will
        look for as the model, if not the folder that this one came from. Other files in the folder
        stay, so that it may be the model's own."""
        adapter = adapters.active(self.net)
        if adapter is None:
            raise GlassformerError("The model has no adapter that is on; add or switch to one.")
        told = self.base
        if base is not None:
            told = replace(told or AdapterBase(source=base), source=base, folder=base)
        target = Path(folder)
        complete_pending_save(target)
        beside = (target / CONFIG).is_file()  # a model: its tokenizer and pooling stay
        own_tokenizer = self.tokenizer is not None and not self._reads_as_base
        if beside and (own_tokenizer or read_pooling(target) != self.pooling):
            raise GlassformerError(
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
        """Whether the tokenizer is the one that lies with the base."""
        there, own = None if self.base is None else self.base.folder, self._tokenizer
        return there is not None and isinstance(own, Path) and os.path.abspath(own) == there

    def switch_adapter(self, name: str | None) -> Model:
        """Turns one adapter on and the others off; None: the model as it was, which learns."""
        adapters.switch(self.net, name)
        return self._changed()

    def remove_adapter(self, name: str = "default") -> Model:
        """Forgets an adapter; the weights are as they were."""
        adapters.remove(self.net, name)
        return self._changed()

    def merge_adapter(self, name: str = "default", *, forget: bool = False) -> Model:
        """Adds a low-rank adapter's change to the weights, which then cost what they did before.
        `unmerge_adapter` takes it out again, unless the weights as they were are forgotten."""
        held = adapters.adapters_of(self.net).get(name)
        adapters.merge(self.net, name, forget=forget)
        if forget and held is not None:
            self.report.made = [made for made in self.report.made if made not in held.own]
            self.base = None  # no folder holds these weights
        return self._changed()

    def unmerge_adapter(self, name: str = "default") -> Model:
        """Takes a merged adapter out of the weights again, to the bit."""
        adapters.unmerge(self.net, name)
        return self._changed()

    def _changed(self) -> Model:
        """Steps that were recorded are of another net."""
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
        """Quantizes the model, and says how much worse it predicts a text from then on; the text
        is read as by `score`.

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
        """Writes on from a prompt: a text, a list of token ids, or a list of either; without one,
        from the start token. For an encoder-decoder the prompt is what the encoder reads; where
        that is sound, a spectrogram: `model.generate(model.reader("hello.wav"))`.

        The knobs are those of `generate.Knobs`, which are named as in transformers. An assistant
        is a smaller model that writes ahead; the result is the same, only sooner.

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
        """The same, token by token as they come.

        >>> for piece in model.stream("To be, or"): print(piece.text, end="")
        """
        return self.writer.stream(prompt, knobs, _net_of(assistant_model))

    def infill(
        self, text: str, *, assistant_model: Model | None = None, **knobs: Any
    ) -> GenerationOutput:
        """Fills the gaps of a text, which are marked by `___` or by the tokenizer's own mask or
        sentinels. The result's `text` is the whole text, `spans` are the pieces.

        >>> t5.infill("The ___ walks in ___ park.").spans
        """
        return infill(self.writer, text, knobs, _net_of(assistant_model))

    def fill(
        self, texts: str | Sequence[str] | Iterator[str], **how: Any
    ) -> Filled | list[Filled] | Iterator[Filled]:
        """What belongs in the gaps of a text, marked by `___`: candidates of every gap, and the
        best fillings of all together. `how` is what `tasks.fill.filler` takes: `top` candidates,
        `tokens` of a gap at most, `among` given words; for T5 and BART, generation's knobs.

        >>> bert.fill("Paris is the ___ of France.").gaps[0].candidates[0].text
        """
        return fill(self, texts, **how)

    def embed(
        self, texts: str | Sequence[str] | Iterator[str], **how: Any
    ) -> Vector | Iterator[Vector]:
        """The vector of a text, [width], of a list, [text, width], of an iterator, one by one.
        `how` is what `tasks.embed.Embedder.of` takes: `pooling`, `normalize`, `prompt`, `length`.

        >>> a, b = minilm.embed(["A dog barks.", "The hound is loud."], normalize=True); a @ b
        """
        return embed(self, texts, **how)

    def translate(self, texts: str | Iterable[str], **options: Any) -> Any:
        """A `Translation` of a text, a list for a list, and for an iterator an iterator. Languages
        are told to a model of several; long texts are translated in parts and keep their
        paragraphs. Options: `source_language`, `target_language`, `split` ("parts", "sentences",
        "none"), `length` of a part in tokens, `prefix`, `separator`, and the knobs of `generate`.

        >>> m2m.translate("Guten Morgen.", source_language="de", target_language="en").text
        """
        return translate_texts(self, texts, **options)

    def summarize(self, texts: str | Iterable[str], **options: Any) -> Any:
        """A `Summary` of a text, a list for a list, and for an iterator an iterator. Of a text that
        is longer than the model reads, the rest is left out (`long="cut"`), or its parts are
        summarized, and then what comes of that ("split"). Other options: `length`, `prefix`,
        `separator`, and the knobs of `generate`.

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
        """The log-probability of each token of a text (of `target`, for an encoder-decoder that
        reads `text`), and its perplexity.

        A text longer than the model's context is read in windows, of the context's length if no
        other is given. Each moves on by `stride` tokens, half its length by default, and scores
        those with the rest as their context: the smaller the stride, the more context.
        """
        return self.writer.score(text, target, window, stride)

    def classify(self, texts: Any, **options: Any) -> Any:
        """The labels of a text, or of a tuple of two texts: a `Classification`; of a list a list,
        of an iterator an iterator. The options are those of `tasks.classify.Classifier`.

        >>> model.classify(["A moving film.", "A bore."], threshold=0.7)
        """
        return classify(self, texts, **options)

    def tag(self, texts: Any, **options: Any) -> Any:
        """The entities and the words' tags of a text of any length, with where they stand in it: a
        `Tagged`; of a list (of texts, or of lists of words) a list, of an iterator an iterator.
        The options are those of `tasks.tag.Tagger`.

        >>> for entity in model.tag("Ada Lovelace was born in London.").entities: print(entity)
        """
        return tag(self, texts, **options)

    def answer(
        self, question: str | Iterable[str], context: str | Iterable[str], **options: Any
    ) -> Any:
        """Where the answer to a question stands in a context of any length: an `Answer`; of lists
        a list, of iterators an iterator. The options are those of `tasks.answer.Answerer`.

        >>> model.answer("Where was she born?", "Ada Lovelace was born in London.").text
        """
        return answer(self, question, context, **options)

    def watch(self, records: Iterable[Mapping[str, Any]], **options: Any) -> Monitor:
        """Classifies texts with a date, counts labels by the hour, day or week, and finds shares
        that jump. The options are those of `tasks.watch.watch`.

        >>> model.watch([{"date": "2026-11-15", "text": "A moving film."}]).alerts
        """
        return watch(records, self, **options)

    def look(self, text: Any, target: Any = None, at: str | Iterable[str] = (), **how: Any) -> View:
        """What goes on inside while the model reads a text (an encoder-decoder: reads `text` and
        has written `target`): a `View`. `at` are tensors to capture at once; see `inside.look`.

        >>> model.look("To be, or not to be").attention[3, 1].numpy()
        """
        return look(self, text, target, at, **how)

    def edit(self, *edits: Edit | Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Changes what is computed, while the context lasts: see `inside.Edit`.

        >>> with model.edit(inside.ablate_heads(3, [1, 2])): model.generate("To be, or")
        """
        return edit(self, edits)

    def keep(self, task: str, **settings: Any) -> Model:
        """Lets settings of a task travel with the model, in config.json; None forgets one. A head
        of several has its own, under its name.

        >>> model.keep("classify", threshold={"spam": 0.9}).save(folder)
        """
        keep_settings(self, task, **settings)
        return self

    @property
    def writer(self) -> Generator:
        """Folders of before 2023 keep their knobs in config.json."""
        saved = self.config if self.generation is None else self.generation
        if self.tokenizer is None and self.source is not None and is_openai(self.source):
            said = without_words(self.source, self.config["vocab_size"])
            raise GlassformerError(f"The model's words are missing; {said}")
        return Generator(self.net, self.tokenizer, saved, self._recorded, self._shelf)

    def __repr__(self) -> str:
        kind = self.config.get("quantization")
        held = f" in {kind}" if kind else ""
        return f"<{self.architecture}: {count_parameters(self.net):,} parameters{held}>"


def _net_of(model: Model | None) -> Transformer | None:
    return None if model is None else model.net
