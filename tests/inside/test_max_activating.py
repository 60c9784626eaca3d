"""Max activating texts, compared with a search that reads all texts one by one."""

from __future__ import annotations

import pytest
import small

from glassformer import GlassformerError, inside

WORDS = small.WORDS.split()
TEXTS = [" ".join(WORDS[(3 * i + j) % len(WORDS)] for j in range(4 + i % 5)) for i in range(40)]


def by_hand(model, name, neuron, targets=None):
    """Of every text the values of its tokens, and the tokens."""
    found = []
    for number, text in enumerate(TEXTS):
        view = model.look(text, None if targets is None else targets[number])
        tokens = view.model_inputs.encoder if name.startswith("encoder") else view.model_inputs.last
        values = view.tap(name).array[:, neuron].tolist()
        found.append((values, [token.text for token in tokens]))
    return found


@pytest.mark.parametrize("kind", ["decoder", "encoder", "both", "source"])
def test_they_are_those_that_reading_each_text_finds(kind):
    made = {"decoder": small.decoder, "encoder": small.encoder}.get(kind, small.both)
    model, targets = made(), [text[:20].rsplit(" ", 1)[0] for text in TEXTS]
    given = targets if kind in ("both", "source") else None
    stack = "encoder" if kind == "source" else ""
    told = []
    found = inside.max_activating(
        model,
        iter(TEXTS),
        1,
        [7, 40],
        6,
        targets=given,
        stack=stack,
        tokens_per_batch=50,
        progress=told.append,
    )
    assert told[-1] == found.read == 40 and told == sorted(told) and len(told) > 3
    assert found.name.startswith("encoder" if kind in ("encoder", "source") else "decoder")
    for neuron in (7, 40):
        read, got = by_hand(model, found.name, neuron, given), found[neuron]
        highest = sorted((max(values) for values, _ in read), reverse=True)[:6]
        # equal values may come in any order, and which of them come last depends on rounding
        assert [one.value for one in got] == pytest.approx(highest, abs=1e-5)
        assert len({one.text for one in got}) == 6
        for one in got:
            values, tokens = read[one.text]
            assert one.value == pytest.approx(max(values), abs=1e-5)
            assert one.value == pytest.approx(values[one.position], abs=1e-5)
            assert list(one.tokens) == tokens
            assert one.values[one.at] == one.value and one.at == one.position


def test_of_a_long_text_the_best_window_counts_and_what_stands_around():
    model = small.decoder()
    long = " ".join(WORDS[(5 * i * i + i) % len(WORDS)] for i in range(150))
    found = inside.max_activating(model, [long, "time flies"], 2, 3, k=5, max_length=60)[3]
    assert sorted(one.text for one in found) == [0, 1]
    (one,) = (one for one in found if one.text == 0)
    ids = model.tokenizer.ids(long)
    windows = [model.look(ids[at : at + 60]).neurons[2].array[:, 3] for at in (0, 60, 120)]
    values = [float(x) for window in windows for x in window]
    assert values[one.position] == pytest.approx(max(values), abs=1e-5) and len(one.tokens) <= 49
    assert one.tokens[one.at] == model.tokenizer.decode([ids[one.position]])


def test_any_tensor_with_a_number_for_each_token():
    model = small.decoder()
    found = inside.max_activating(model, TEXTS[:5], 0, 3, k=1, tensor="resid_post")
    best = max(float(model.look(text).residual[0].array[:, 3].max()) for text in TEXTS[:5])
    assert found[3][0].value == pytest.approx(best, abs=1e-5)
    assert found[3][0].tokens[found[3][0].at] in found._repr_html_()


def test_bad_input_is_one_clear_sentence():
    model = small.decoder()
    for wrong, said in (
        (lambda: inside.max_activating(model, TEXTS, 9, 0), "layer 9"),
        (lambda: inside.max_activating(model, TEXTS, 0, 5000), "neuron 5000"),
        (lambda: inside.max_activating(model, TEXTS, 0, [], 3), "at least one"),
        (lambda: inside.max_activating(model, ["", " "], 0, 1), "There are no tokens"),
        (lambda: inside.max_activating(model, TEXTS, 0, 1, tensor="pattern"), "no pattern"),
        (lambda: inside.max_activating(model, TEXTS[:2], 0, 1)[5], "not requested"),
    ):
        with pytest.raises(GlassformerError, match=said):
            wrong()
