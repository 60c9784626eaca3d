"""The state of the page: loaded models, views and cached responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import ConfigError, InputError
from glassformer.generate.result import GenerationOutput
from glassformer.inside import View
from glassformer.inside.attribute.predicted import predicts
from glassformer.inside.attribute.steering import resolved
from glassformer.inside.capture.cancellation import cancellable
from glassformer.inside.capture.model_inputs import read_inputs
from glassformer.inside.intervene.editing import resolve
from glassformer.inside.lens.tuned_lens import TunedLens, beside
from glassformer.model import Model
from glassformer.page.binary_response import BinaryResponse, as_json
from glassformer.page.compute_thread import ComputeThread
from glassformer.page.lru_cache import LruCache
from glassformer.page.model_sources import ModelSource, find_sources
from glassformer.page.request_args import RequestArgs

MODELS, VIEWS, ANSWERS = 4, 6, 2**28  # maximum number of models and views; bytes of responses
LONGEST = 2048  # maximum tokens of a text if the model has no limit itself
LETTERS = 2**17  # maximum characters of a text; counting the tokens of more takes seconds
TEXTS = ("text", "pair", "target", "from", "from_target", "toward", "away")
WRITTEN = 32  # tokens of a generated target


@dataclass(frozen=True)
class Response:
    """An encoded response."""

    kind: str  # content type
    body: bytes


class ClientGoneError(Exception):
    """The browser has closed the connection or sent another request instead."""


Question = Callable[["Session", RequestArgs], Mapping[str, Any] | BinaryResponse]


def paired(asked: RequestArgs, name: str) -> str | tuple[str, str]:
    """Returns a text, or a pair of texts if the request has a second sentence."""
    text, pair = asked.text(name, ""), asked.text("pair", "")
    return (text, pair) if pair else text


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
        self._targets: LruCache[str] = LruCache(100)
        self._answers: LruCache[Response] = LruCache(ANSWERS, lambda answer: len(answer.body))
        self._worker = ComputeThread()

    def prepare(self) -> None:
        """Loads the first model, so that errors are reported at once."""
        first = self._worker.do(lambda: self.model(self.sources[0].id))
        if self.head is not None:
            predicts(first, self.head)

    def close(self, patience: float = 2.0) -> bool:
        """Stops the worker; returns whether the running job ended within `patience` seconds."""
        return self._worker.close(patience)

    def answer(
        self,
        name: str,
        question: Question,
        given: Mapping[str, Any],
        gone: Callable[[], bool] = lambda: False,
    ) -> Response | None:
        """Returns the response to a request, from the cache or computed.

        Args:
            name: The name of the handler.
            question: The handler.
            given: The request body.
            gone: Returns whether the client has closed the connection.

        Returns:
            The response, or None if the client is gone.
        """
        key = name, json.dumps(given, sort_keys=True)
        return self._answers.get(key) or self._worker.do(
            lambda: self._compute(key, question, given, gone)
        )

    def _compute(
        self, key: Any, question: Question, given: Mapping[str, Any], gone: Callable[[], bool]
    ) -> Response | None:
        kept = self._answers.get(key)  # another tab may have sent the same request meanwhile
        if kept is not None or gone():
            return kept

        def stop_if_gone() -> None:
            if gone():
                raise ClientGoneError

        try:
            with cancellable(stop_if_gone):
                found = question(self, RequestArgs(given))
        except ClientGoneError:
            return None
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

    def tuned(self, asked: RequestArgs) -> TunedLens | None:
        """Returns the tuned lens stored with the model, if the request asks for it."""
        if not asked.flag("tuned"):
            return None
        id = asked.text("model")
        return self._lenses.get(id) or self._lenses.put(id, beside(self.source(id).place))

    def view(self, asked: RequestArgs, *, edited: bool = True) -> View:
        """Returns the view of the request's model and text, without running the model yet.

        Args:
            asked: The request.
            edited: Whether the request's edits apply.

        Returns:
            The view.
        """
        id, edits = asked.text("model"), asked.list("edits") or []
        self.check_texts(id, asked.given, *edits)
        text, target = paired(asked, "text"), self.target(asked)
        key = id, text, target, json.dumps(edits) if edited else "[]", asked.output
        kept = self._views.get(key)
        if kept is not None:
            return kept
        held = self.model(id)
        reading = read_inputs(held, text, target)
        given = resolve(held, resolved(held, edits)) if edited and edits else None
        return self._views.put(key, View(held, reading, given, asked.output))

    def check_texts(self, id: str, *given: Any) -> None:
        """Raises an error that names a text of a request, or of its edits, that is too long."""
        tokenizer = self.model(id).tokenizer
        named = [one for one in given if isinstance(one, Mapping)]
        for text in (one.get(name) for one in named for name in TEXTS):
            if not isinstance(text, str):
                continue
            if len(text) > LETTERS:
                said = f"{len(text):,} characters, and the page reads {LETTERS:,}"
            elif tokenizer is not None and (count := len(tokenizer.ids(text))) > LONGEST:
                said = f"{count:,} tokens, and the page draws {LONGEST:,}"
            else:
                continue
            raise InputError(f"A text has {said} at most; shorten it ({text[:30]!r}...).")

    def target(self, asked: RequestArgs, model: str = "model") -> str | None:
        """Returns the decoder text of an encoder-decoder model, as given or generated."""
        id = asked.text(model)
        held = self.model(id)
        spec = held.spec
        if spec.encoder is None or spec.decoder is None or spec.shift_right:
            return None
        if "target" in asked:
            return asked.text("target")
        text = asked.text("text", "")
        written = self._targets.get((id, text))
        if written is None:
            made = held.generate(text, max_new_tokens=WRITTEN, num_beams=1, do_sample=False)
            assert isinstance(made, GenerationOutput)  # one text
            written = self._targets.put((id, text), made.text)
        return written
