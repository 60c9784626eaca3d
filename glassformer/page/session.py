"""The state of the page: loaded models, views and cached responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, InputError
from glassformer.generate.result import GenerationOutput
from glassformer.inside import View
from glassformer.inside.attribute.predictions import predicts
from glassformer.inside.attribute.steering import resolved
from glassformer.inside.capture.cancellation import ProgressCallback
from glassformer.inside.capture.model_inputs import encode_inputs
from glassformer.inside.intervene.editing import resolve
from glassformer.inside.lens.tuned_lens import TunedLens, load_lens_of
from glassformer.model import Model
from glassformer.page.binary_response import BinaryResponse, as_json
from glassformer.page.compute_thread import ComputeThread, Job
from glassformer.page.lru_cache import LruCache
from glassformer.page.model_sources import ModelSource, find_sources
from glassformer.page.request_args import RequestArgs

MODELS, VIEWS, ANSWERS = 4, 6, 2**28  # maximum number of models and views; bytes of responses
MAX_TOKENS = 2048  # of a text if the model has no limit itself
MAX_CHARACTERS = 2**17  # of a text; counting the tokens of more takes seconds
TEXT_FIELDS = ("text", "pair", "target", "from", "from_target", "toward", "away")
TARGET_TOKENS = 32  # maximum tokens of a generated target


@dataclass(frozen=True)
class Response:
    """An encoded response."""

    kind: str  # content type
    body: bytes


Question = Callable[["Session", RequestArgs[Any]], object]


def paired(request: RequestArgs[Any], name: str) -> str | tuple[str, str]:
    """Returns a text, or a pair of texts if the request has a second sentence."""
    text, pair = request.text(name, ""), request.text("pair", "")
    return (text, pair) if pair else text


def answer_key(name: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the cache key of a request."""
    return name, json.dumps(given, sort_keys=True)


class Session:
    """Models and caches of the page; a single worker thread computes all responses.

    Args:
        sources: Names of models.
        text: The initial text of the first model.
        head: The initial head of the first model.
        adapter: An adapter for the model.
    """

    def __init__(
        self,
        sources: Sequence[str],
        text: str | None = None,
        head: str | None = None,
        adapter: str | None = None,
    ) -> None:
        self.sources = find_sources(sources, adapter)
        self.text, self.head = text, head  # shown with the first model at the start
        self._models: LruCache[Model] = LruCache(MODELS)
        self._lenses: LruCache[TunedLens] = LruCache(MODELS)
        self._views: LruCache[View] = LruCache(VIEWS)
        self._fingerprints: dict[str, str | None] = {}
        self._targets: LruCache[str] = LruCache(100)
        self._answers: LruCache[Response] = LruCache(ANSWERS, lambda answer: len(answer.body))
        self._worker = ComputeThread()

    def prepare(self) -> None:
        """Loads the first model, so that errors are reported at once."""
        first = self._worker.submit(lambda: self.model(self.sources[0].id)).future.result()
        if self.head is not None:
            predicts(first, self.head)

    def close(self, patience: float = 2.0) -> bool:
        """Cancels all jobs; returns whether the running one ended within `patience` seconds."""
        return self._worker.close(patience)

    def cached(self, name: str, given: Mapping[str, Any]) -> Response | None:
        """Returns the response to a request that was computed before, if it is still kept."""
        return self._answers.get(answer_key(name, given))

    def submit(
        self,
        name: str,
        question: Question,
        given: Mapping[str, Any],
        on_progress: ProgressCallback | None = None,
    ) -> Job[Response]:
        """Queues a request.

        Args:
            name: The name of the handler.
            question: The handler.
            given: The request body.
            on_progress: Called in the compute thread; other requests interrupt a job that has it.

        Returns:
            The job that computes the response.
        """
        key = answer_key(name, given)
        return self._worker.submit(lambda: self._compute(key, question, given), on_progress)

    def _compute(self, key: Any, question: Question, given: Mapping[str, Any]) -> Response:
        kept = self._answers.get(key)  # another tab may have sent the same request meanwhile
        if kept is not None:
            return kept
        found = question(self, RequestArgs(given))
        if isinstance(found, BinaryResponse):
            answer = Response("application/octet-stream", found.body())
        else:
            answer = Response("application/json", as_json(found))
        return self._answers.put(key, answer)

    # --- models and views -------------------------------------------------------------------------

    def source(self, id: str) -> ModelSource:
        """Returns a model source or checkpoint by id."""
        for source in self.sources:
            for one in (source, *source.checkpoints):
                if one.id == id:
                    return one
        names = ", ".join(source.id for source in self.sources)
        raise ConfigError(f"There is no model {id!r:.80} here, only {names}.")

    def model(self, id: str) -> Model:
        """Returns a model, loaded at the first use; its folder is not needed afterwards."""
        return self._models.get(id) or self._models.put(id, self.source(id).load())

    def tokenizer_fingerprint(self, id: str) -> str | None:
        """Returns what identifies a model's tokenizer; its weights are not loaded for that."""
        if id not in self._fingerprints:
            model = self._models.get(id)
            tokenizer = self.source(id).load_tokenizer() if model is None else model.tokenizer
            self._fingerprints[id] = None if tokenizer is None else tokenizer.fingerprint
        return self._fingerprints[id]

    def tuned(self, request: RequestArgs[Any]) -> TunedLens | None:
        """Returns the tuned lens stored with the model, if the request asks for it."""
        if not request.flag("tuned"):
            return None
        id = request.text("model")
        return self._lenses.get(id) or self._lenses.put(id, load_lens_of(self.source(id).place))

    def view(self, request: RequestArgs[Any], *, edited: bool = True) -> View:
        """Returns the view of the request's model and text, without running the model yet.

        Args:
            request: The request.
            edited: Whether the request's edits apply.

        Returns:
            The view.
        """
        id, edits = request.text("model"), request.list("edits") or []
        self.check_texts(id, request.fields, *edits)
        text, target = paired(request, "text"), self.target(request)
        key = id, text, target, json.dumps(edits) if edited else "[]", request.output
        cached = self._views.get(key)
        if cached is not None:
            return cached
        model = self.model(id)
        model_inputs = encode_inputs(model, text, target)
        hooks = resolve(model, resolved(model, edits)) if edited and edits else None
        return self._views.put(key, View(model, model_inputs, hooks, request.output))

    def check_texts(self, id: str, *objects: Any) -> None:
        """Raises an error that names a text of a request, or of its edits, that is too long."""
        tokenizer = self.model(id).tokenizer
        mappings = [one for one in objects if isinstance(one, Mapping)]
        for text in (one.get(name) for one in mappings for name in TEXT_FIELDS):
            if not isinstance(text, str):
                continue
            if len(text) > MAX_CHARACTERS:
                size = f"{len(text):,} characters, and the page reads {MAX_CHARACTERS:,}"
            elif tokenizer is not None and (count := len(tokenizer.ids(text))) > MAX_TOKENS:
                size = f"{count:,} tokens, and the page draws {MAX_TOKENS:,}"
            else:
                continue
            raise InputError(f"A text has {size} at most; shorten it ({text[:30]!r}...).")

    def target(self, request: RequestArgs[Any], model_field: str = "model") -> str | None:
        """Returns the decoder text of an encoder-decoder model, as given or generated."""
        id = request.text(model_field)
        model = self.model(id)
        spec = model.spec
        if spec.encoder is None or spec.decoder is None or spec.shift_right:
            return None
        if "target" in request:
            return request.text("target")
        text = request.text("text", "")
        target = self._targets.get((id, text))
        if target is None:
            output = model.generate(
                text, max_new_tokens=TARGET_TOKENS, num_beams=1, do_sample=False
            )
            assert isinstance(output, GenerationOutput)  # one text
            target = self._targets.put((id, text), output.text)
        return target
