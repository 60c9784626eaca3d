"""The generation methods of `Model`: generate, stream and score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack, overload

from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import InputError
from glassformer.generate import GenerationChunk, GenerationOutput, Score
from glassformer.generate.options import GenerationOptions
from glassformer.generate.prompt import Prompt, is_rows_of_ids
from glassformer.generate.token_ids import generate_ids
from glassformer.tasks.model_protocol import TaskModel


class TextGeneration(TaskModel):
    """A model that generates text and scores it, with its `generator`."""

    @overload
    def generate(
        self,
        prompt: str | list[int] | None = None,
        *,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> GenerationOutput: ...

    @overload
    def generate(
        self,
        prompt: list[str] | list[list[int]] | tuple[str, ...] | list[Tensor],
        *,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[GenerationOutput]: ...

    @overload
    def generate(
        self,
        prompt: Tensor,
        *,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> GenerationOutput | list[GenerationOutput] | Tensor: ...

    @overload
    def generate(
        self,
        *,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Tensor: ...

    def generate(
        self,
        prompt: Prompt | Sequence[Prompt] | None = None,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        input_features: Tensor | None = None,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> GenerationOutput | list[GenerationOutput] | Tensor:
        """Generates text from a prompt.

        Args:
            prompt: A text, a list of token ids, or a list of either. None starts from the start
                token. For an encoder-decoder the prompt is the encoder's input; for a model that
                reads audio it is a spectrogram: `model.generate(model.processor("hello.wav"))`.
                A tensor of token ids of [row, position] is the same as `input_ids`.
            input_ids: Token ids of [row, position] instead of a prompt, as a tokenizer returns
                them: `model.generate(**tokenizer("To be", return_tensors="pt"))`.
            attention_mask: Nonzero at real tokens of `input_ids`.
            token_type_ids: Accepted beside `input_ids`; generation does not read it.
            input_features: A spectrogram or several, instead of a prompt.
            assistant_model: A smaller draft model for speculative decoding: faster, with the same
                result.
            **options: The fields of `generate.config.GenerationConfig`, named as in transformers.

        Returns:
            One `GenerationOutput`, or a list of them for a list of prompts. For `input_ids`, a
            tensor of token ids as in transformers; see `generate.token_ids.generate_ids`.

        >>> model.generate("To be, or", max_new_tokens=20, do_sample=True, top_k=40).text
        """
        if input_ids is None and is_rows_of_ids(prompt):
            prompt, input_ids = None, prompt
        given = [x for x in (prompt, input_ids, input_features) if x is not None]
        if len(given) > 1:
            raise InputError("Give one of prompt, input_ids and input_features.")
        if input_ids is not None:
            return generate_ids(self.generator, input_ids, attention_mask, options, assistant_model)
        if attention_mask is not None or token_type_ids is not None:
            raise InputError("attention_mask and token_type_ids go with input_ids; leave them out.")
        return self.generator.generate(given[0] if given else None, options, assistant_model)

    def stream(
        self,
        prompt: Prompt | None = None,
        *,
        assistant_model: Transformer | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[GenerationChunk]:
        """Generates like `generate`, and yields tokens as they are produced.

        Args:
            prompt: The prompt, as in `generate`.
            assistant_model: A draft model, as in `generate`.
            **options: The options of `generate`.

        Returns:
            The tokens and the text that each completes.

        >>> for piece in model.stream("To be, or"): print(piece.text, end="")
        """
        return self.generator.stream(prompt, options, assistant_model)

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

        Returns:
            The log-probabilities and the perplexity.
        """
        return self.generator.score(text, target, window, stride)
