"""Initial decoder tokens of a speech recognition model (Whisper).

The start token is followed by the spoken language, the task, and the token that disables
timestamps, unless timestamps are generated. Their ids come from generation_config.json, or else
from the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import ConfigError
from glassformer.generate.config import GenerationConfig
from glassformer.text import Tokenizer
from glassformer.text.backends.whisper import LANGUAGES, MULTILINGUAL, TASKS, language_code

NO_TIMES = "<|notimestamps|>"


def beginning(
    net: Transformer,
    tokenizer: Tokenizer | None,
    saved: Mapping[str, Any],
    config: GenerationConfig,
    start: int,
    sound: Tensor,
) -> list[int]:
    """Returns the initial decoder tokens. The language is detected if it is not given."""
    languages, known = tokens_of(net, tokenizer, saved)
    begun = [start]
    spoken = config.language or config.target_language
    forced = [] if spoken or config.task else forced_tokens(saved)
    if forced:
        if forced[0] is None and languages:
            forced[0] = heard(net, start, sound, languages)
        no_times = known.get(NO_TIMES)
        begun += [token for token in forced if token not in (None, no_times)]
        return begun if config.return_timestamps or no_times is None else [*begun, no_times]
    if languages:
        begun.append(named(spoken, languages) if spoken else heard(net, start, sound, languages))
    elif spoken or config.task:
        raise ConfigError("This model knows one language and one task; leave them out.")
    wanted = [f"<|{config.task or 'transcribe'}|>"] if languages else []
    wanted += [] if config.return_timestamps else [NO_TIMES]
    return begun + [known[token] for token in wanted if token in known]


def tokens_of(
    net: Transformer, tokenizer: Tokenizer | None, saved: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the ids of the language tokens (empty for a monolingual model) and of the others."""
    assert net.spec.decoder is not None
    if NO_TIMES in (tokenizer or ()) and "no_timestamps_token_id" not in saved:
        assert tokenizer is not None
        many = net.spec.decoder.embed.vocabulary >= MULTILINGUAL
        codes = [f"<|{code}|>" for code in LANGUAGES] if many else []
        names = [*(f"<|{task}|>" for task in TASKS), NO_TIMES]
        found = [{t: tokenizer.id(t) for t in some if t in tokenizer} for some in (codes, names)]
        return found[0], found[1]
    tasks = {f"<|{task}|>": id for task, id in (saved.get("task_to_id") or {}).items()}
    times = saved.get("no_timestamps_token_id")
    return saved.get("lang_to_id") or {}, tasks if times is None else {**tasks, NO_TIMES: times}


def forced_tokens(saved: Mapping[str, Any]) -> list[int | None]:
    """Returns the `forced_decoder_ids` of older files; None stands for a language to detect."""
    listed = saved.get("forced_decoder_ids") or []
    if [place for place, _ in listed] != list(range(1, len(listed) + 1)):
        raise ConfigError(
            f"The model's forced_decoder_ids are {listed!r}; their places must be 1, 2 and so on."
        )
    return [token for _, token in listed]


def named(language: str, languages: Mapping[str, int]) -> int:
    token = language if language in languages else f"<|{language_code(language)}|>"
    if token not in languages:
        there = ", ".join(name.strip("<|>") for name in languages)
        raise ConfigError(f"The model has no language {language!r}; it knows {there}.")
    return languages[token]


@torch.inference_mode()
def heard(net: Transformer, start: int, sound: Tensor, languages: Mapping[str, int]) -> int:
    """Detects the spoken language: returns the token of the most probable one."""
    device = next(net.parameters()).device
    ids = torch.tensor(list(languages.values()), device=device)
    out = net(
        input_features=sound[None].to(device),
        decoder_input_ids=torch.tensor([[start]], device=device),
    )
    assert out.logits is not None
    return int(ids[out.logits[0, -1, ids].argmax()])
