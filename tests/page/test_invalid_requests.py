"""Every field of every request gets invalid values, and the server responds with an error."""

from __future__ import annotations

import json

import pytest

TEXT = "time flies like an arrow"
RUN = {"model": "decoder", "text": TEXT}
AT = "decoder.blocks.0"
HEAD = {**RUN, "attention_type": "decoder", "layer": 0, "head": 1, "query": 1}
OFF = {"kind": "scale", "at": f"{AT}.z", "heads": [0], "positions": [0], "factor": 0.0}
RIGHT = {  # a question that is answered, for each
    "structure": [{"model": "decoder"}],
    "read": [RUN],
    "array": [
        {**RUN, "name": f"{AT}.q", "at": {"head": 0, "position": [0, 2]}, "downsample": {"dim": 2}}
    ],
    "vocabulary": [{"model": "decoder", "begins": "t", "count": 5}],
    "attention": [
        {**HEAD, "view": "head"},
        {**HEAD, "view": "layer", "heads": [0, 1], "size": 3},
        {**HEAD, "view": "row"},
        {**HEAD, "view": "model", "size": 4, "first": 0, "end": 1},
        {**HEAD, "view": "neuron"},
    ],
    "heads": [{**RUN, "attention_type": "decoder"}],
    "walk": [{**RUN, "stack": "decoder", "layer": 0, "head": 0}],
    "cell": [{**RUN, "name": f"{AT}.q", "head": 0, "row": 0, "col": 0, "limit": 3}],
    "next": [{**RUN, "position": 1, "count": 5, "temperature": 0.5, "top_k": 4, "top_p": 0.9}],
    "continue": [{**RUN, "token": 5, "position": 1}],
    "beams": [{**RUN, "beams": 2, "length": 2, "length_penalty": 1.0}],
    "step": [{**RUN, "length": 2, "seed": 1, "sample": True, "min_p": 0.1}],
    "lens": [{**RUN, "token": 5}],
    "lens_cell": [{**RUN, "row": 1, "position": 1, "count": 3}],
    "contributions": [{**RUN, "position": 1, "token": 5, "against": 6}],
    "saliency": [{**RUN, "position": 1, "token": 5, "method": "gradient"}],
    "positions": [{"model": "decoder", "length": 8, "text": TEXT}],
    "edit": [
        {**RUN, "edits": [edit], "temperature": 0.7, "position": 1}
        for edit in (
            OFF,
            {"kind": "add", "at": f"{AT}.resid_post", "vector": [0.1] * 32, "positions": [0]},
            {"kind": "replace", "at": f"{AT}.scores", "vector": 0.5, "keys": [1]},
            {"kind": "patch", "at": f"{AT}.z", "from": "fruit", "positions": [[0, 0]]},
            {"kind": "steer", "at": f"{AT}.resid_post", "toward": "a", "away": "b", "factor": 1},
        )
    ],
    "edit_lens": [{**RUN, "edits": [OFF], "first": 1, "count": 2}],
    "edit_text": [{**RUN, "edits": [OFF], "length": 1}],
    "sweep": [{**RUN, "from": TEXT, "at": "z", "position": 1, "token": 3, "against": 4}],
    "compare": [{"a": "decoder", "b": "decoder", "text": TEXT}],
    "histogram": [{"model": "decoder", "name": "heads.lm.out.weight"}],
}
WRONG = (None, "", "*", -1, 10**6, 2**31 - 1, 1.5, 1e300, True, [], [[]], [-1], ["x"], [[0, 10**9]])
WRONG += ({}, {"head": [2, 1]}, {"head": True}, {"position": [90, 99]})


def spoiled(given, value):
    """The same with one thing in it, at any depth, replaced."""
    yield value
    keys = list(given) if isinstance(given, dict) else []
    keys = list(range(len(given)))[:2] if isinstance(given, list) else keys
    for key in keys:
        for other in spoiled(given[key], value):
            copy = given.copy()
            copy[key] = other
            yield copy


@pytest.mark.parametrize("question", RIGHT)
def test_wrong_values_get_one_sentence(decoder, question):
    for right in RIGHT[question]:
        for value in WRONG:
            for wrong in spoiled(right, value):
                body = json.dumps(wrong).encode()
                status, _, answer = decoder.post(f"api/{question}", body)
                assert status in (200, 400), (wrong, answer)
                if status == 400:
                    said = json.loads(answer)["error"]
                    assert said and "\n" not in said and len(said) < 400, (wrong, said)
    assert decoder.ask("models")["models"]


HUGE = {
    "a text of many letters": ("decoder", {"text": "time " * 30_000}, "characters"),
    "a text of many tokens": ("decoder", {"text": "time " * 20_000}, "tokens, and the page draws"),
    "what an encoder reads": ("encoder_decoder", {"text": "time " * 20_000}, "the page draws"),
    "a target": ("encoder_decoder", {"text": "time", "target": "a " * 9_000}, "the page draws"),
    "a second sentence": ("encoder", {"text": "time", "pair": "a " * 9_000}, "the page draws"),
    "a text to patch from": (
        "encoder_decoder",
        {"text": "time", "edits": [{"kind": "patch", "at": "embed", "from": "a " * 9_000}]},
        "the page draws",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_too_long_is_said_before_anything_is_computed(name, request):
    model, given, says = HUGE[name]
    served = request.getfixturevalue(model)
    status, said = served.refused("read", model=model, **given)
    assert status == 400 and says in said and len(said) < 200
