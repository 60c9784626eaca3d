"""Generation settings for Whisper models in OpenAI's format.

OpenAI's program has these settings in its code; published folders have them in a file.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.text.backends.whisper import LANGUAGES, MULTILINGUAL, START, TASKS, TIMES
from glassformer.text.tokenizer import Tokenizer

SYMBOLS = (
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』', "<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('",
    '("', "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪", "♪♪♪",
)  # fmt: skip
NOTES = "♩♪♫♬♭♮♯"  # the first token of each is suppressed even if it has several tokens


def generation_of(tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    """Returns the content of generation_config.json.

    Args:
        tokenizer: The Whisper tokenizer.
        longest: The largest number of tokens of the decoder.
    """
    end, many = tokenizer.special["eos"], tokenizer.size >= MULTILINGUAL
    tasks = {task: tokenizer.id(f"<|{task}|>") for task in TASKS}
    codes = [token for token in (f"<|{code}|>" for code in LANGUAGES) if token in tokenizer]
    languages = {"lang_to_id": {token: tokenizer.id(token) for token in codes}}
    more = {**languages, "task_to_id": tasks} if many else {}
    return {
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end),
        "decoder_start_token_id": tokenizer.id(START),
        "begin_suppress_tokens": [*tokenizer.encode(" ", special=False).ids, end],
        "suppress_tokens": suppressed(tokenizer),
        "no_timestamps_token_id": tokenizer.id("<|notimestamps|>"),
        "is_multilingual": many,
        **more,
        "max_length": longest,
        "return_timestamps": False,
    }


def generation_of_ctranslate2(
    config: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the content of generation_config.json of a CTranslate2 folder.

    Args:
        config: The model's config.
        given: The config.json of the folder.
    """
    size, end = config["vocab_size"], config["eos_token_id"]
    no_times = size - len(TIMES) - 1
    more: dict[str, Any] = {}
    if size >= MULTILINGUAL:
        ids = given.get("lang_ids") or range(end + 2, no_times - 5)
        codes = zip(LANGUAGES, ids, strict=False)
        more["lang_to_id"] = {f"<|{code}|>": id for code, id in codes}
        more["task_to_id"] = {task: no_times - 5 + place for place, task in enumerate(TASKS)}
    if given.get("alignment_heads"):
        more["alignment_heads"] = given["alignment_heads"]
    return {
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end),
        "decoder_start_token_id": config["decoder_start_token_id"],
        "begin_suppress_tokens": given.get("suppress_ids_begin", []),
        "suppress_tokens": given.get("suppress_ids", []),
        "no_timestamps_token_id": no_times,
        "is_multilingual": size >= MULTILINGUAL,
        **more,
        "max_length": config["max_target_positions"],
        "return_timestamps": False,
    }


def suppressed(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of symbols that are not spoken and of control tokens.

    This is what OpenAI's `suppress_tokens` of -1 means. Hyphens and apostrophes are allowed, except
    those that begin a word.
    """

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, special=False).ids

    found = {ids(" -")[0], ids(" '")[0]}
    for symbol in (*SYMBOLS, *NOTES):
        for tokens in (ids(symbol), ids(f" {symbol}")):
            if len(tokens) == 1 or symbol in NOTES:
                found.add(tokens[0])
    orders = ("<|startoflm|>", "<|startofprev|>", "<|nospeech|>")
    asked = (START, *(f"<|{task}|>" for task in TASKS), *orders)
    return sorted(found | {tokenizer.id(token) for token in asked})
