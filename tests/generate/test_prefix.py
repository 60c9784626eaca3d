"""What prompts begin with alike is read once, and the texts are the same."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from silent_changes import SILENT

import glassformer as gf
from glassformer.generate import prefix
from glassformer.generate.prefix import PrefixCache, can_share, shared

HEAD, NEW = 21, 6
FORCED = ("forced_bos_token_id", "forced_eos_token_id", "begin_suppress_tokens")  # by a config
PLAIN = {"max_new_tokens": NEW, **dict.fromkeys(FORCED)}
WITHOUT = {"prefix_cache_bytes": 0}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Short beginnings are worth it, so that small models can be asked."""
    monkeypatch.setattr(prefix, "LEAST", 8)
    monkeypatch.setattr(prefix, "WORTH", 8)
    monkeypatch.setattr(prefix, "READS", 1)


class Counted:
    """How many tokens a model's decoder reads, padding with them."""

    def __init__(self, model) -> None:
        self.model = model
        model._prefix_cache = PrefixCache()

    def __enter__(self):
        self.tokens = 0
        self.handle = self.model.decoder.register_forward_pre_hook(self.count)
        return self

    def count(self, module, args) -> None:
        self.tokens += args[0].numel()

    def __exit__(self, *_) -> None:
        self.handle.remove()

    def generate(self, prompts, **options):
        """The tokens of all sequences, and how many were read for them."""
        before = self.tokens
        found = self.model.generate(prompts, **options)
        several = found if isinstance(found, list) else [found]
        texts = [[one.tokens for one in (result, *result.alternatives)] for result in several]
        return texts, self.tokens - before


def tree(case) -> list[list[int]]:
    """Prompts with a common beginning, some with a longer one in common, and one by itself."""
    head, second, *tails = case.texts([HEAD, 12, 3, 9, 1, 5, 14], seed=3)
    *tails, other = tails
    return [head + tail for tail in tails] + [head + second + tail for tail in tails] + [other]


OPTIONS = {
    "greedy": {},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "seed": 3},
    "in turns": {"batch_size": 4},
    "in chunks": {"prefill_chunk": 5},
    "guessed": {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, marks=() if name == "greedy" else pytest.mark.over(once_per="kind"))
        for name, options in OPTIONS.items()
    ],
    ids=OPTIONS,
)
def test_the_same_texts_in_one_call_and_in_the_next(case, options):
    if case.both:
        assert not can_share(case.model)
        return
    options, prompts = PLAIN | options, tree(case)
    with Counted(case.model) as counted:
        wanted, plainly = counted.generate(prompts, **options, **WITHOUT)
        first, once = counted.generate(prompts, **options)
        again, less = counted.generate(prompts, **options)
        longer, _ = counted.generate([[*p, p[0]] for p in prompts], **options)
        assert first == again == wanted
        assert longer == counted.generate([[*p, p[0]] for p in prompts], **options, **WITHOUT)[0]
        assert less <= once < plainly if can_share(case.model) else once == plainly


def test_families_that_share(case):
    """Where a text's beginning is keys and values alone; the others do without."""
    alone = {"xlnet", "transfo-xl", "roberta", "xlm-roberta"}
    assert can_share(case.model) == (not case.both and case.name.model_type not in alone)


@pytest.fixture
def bard():
    return gf.load("shakespeare")


STORY = (
    "ROMEO:\nBut soft, what light through yonder window breaks? It is the east, and Juliet is the "
    "sun. Arise, fair sun, and kill the envious moon, who is already sick and pale with grief.\n"
)


def test_what_is_worth_reading_once():
    a, b, c = tuple(range(10)), tuple(range(20, 30)), tuple(range(40, 50))
    prompts = sorted([a + b + (1,), a + b + (2,), a + c, (*a, 1), c, c])
    assert shared(prompts, least=8) == [a, a + b, c]
    assert shared(prompts, least=11) == [a + b]
    assert shared(prompts, least=21) == []
    assert shared(sorted([a[:3] + b, a[:3] + c, a[:3] + b]), least=8) == [a[:3] + b]
    assert shared([a], least=1) == []


def test_a_prompt_asked_twice_in_a_list_is_read_once(bard):
    with Counted(bard) as counted:
        texts, read = counted.generate([STORY] * 4, max_new_tokens=1)
    assert read == len(bard.tokenizer.encode(STORY).ids) + 4
    assert all(text == texts[0] for text in texts)


def test_a_conversation_is_not_read_again(bard):
    """Every turn reads what is new in it, and the token that was written last."""
    tokenizer, text = bard.tokenizer, STORY
    with Counted(bard) as counted:
        counted.generate(text, max_new_tokens=12)
        for line in ("\nJULIET:\nO Romeo", "\nNURSE:\nMadam!"):
            ids = tokenizer.encode(text).ids
            ids += bard.generate(ids, max_new_tokens=12).tokens + tokenizer.encode(line).ids
            _, read = counted.generate(ids, max_new_tokens=12)
            assert read == 1 + len(tokenizer.encode(line).ids) + 11
            text = tokenizer.decode(ids)


def test_a_stream_goes_on_from_a_stream(bard):
    first = [piece.token for piece in bard.stream(STORY, max_new_tokens=9)]
    ids = bard.tokenizer.encode(STORY).ids + first
    wanted = [p.token for p in bard.stream(ids, max_new_tokens=9, **WITHOUT)]
    list(bard.stream(STORY, max_new_tokens=9))
    assert tuple(ids[:-1]) in bard._prefix_cache.texts
    assert [piece.token for piece in bard.stream(ids, max_new_tokens=9)] == wanted


@torch.no_grad()
def double(model):
    model.decoder.blocks[0].ffn.up.weight.mul_(2)


def steered(model):
    model.decoder.blocks[1].register_forward_hook(lambda module, args, out: out * 1.5)


def scaled(model):
    model.decoder.blocks[0].ffn.scale = 2.0


def silently(change, model):
    change([model.decoder.blocks[0].ffn.up.weight])


CHANGES = {
    "a weight": double,
    "weights loaded": lambda model: model.load_state_dict(
        {name: 0.9 * weight for name, weight in model.state_dict().items()}
    ),
    "quantized": lambda model: model.quantize("int8"),
    "another dtype": lambda model: model.bfloat16(),
    "a hook": steered,
    "a setting": scaled,
    **{name: partial(silently, change) for name, change in SILENT.items()},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_net_that_computes_something_else_has_read_nothing(bard, change):
    bard.generate(STORY, max_new_tokens=2)
    assert bard._prefix_cache.is_of(bard) and bard._prefix_cache.texts
    change(bard)
    assert not bard._prefix_cache.is_of(bard)
    found = bard.generate(STORY, max_new_tokens=8)
    assert found.tokens == bard.generate(STORY, max_new_tokens=8, **WITHOUT).tokens


def test_a_short_call_keeps_nothing(bard, monkeypatch):
    """The checksum of the weights would take long in comparison."""
    monkeypatch.setattr(prefix, "READS", 100)
    with Counted(bard) as counted:
        counted.generate([STORY] * 2, max_new_tokens=1)
        assert not bard._prefix_cache.texts
        counted.generate(STORY, max_new_tokens=100)
        assert bard._prefix_cache.texts
        _, read = counted.generate(STORY, max_new_tokens=1)
        assert read == 1  # what is known is used


def test_the_shelf_has_an_end_and_the_latest_stay(bard):
    texts = [f"{word} {STORY}" for word in ("One", "Two", "Three", "Four")]
    bard.generate(texts[0], max_new_tokens=1)
    one = bard._prefix_cache.bytes
    for text in (*texts[1:], texts[1]):
        bard.generate(text, max_new_tokens=1, prefix_cache_bytes=int(3.5 * one))
        assert 0 < bard._prefix_cache.bytes <= 3.5 * one
    kept = [bard.tokenizer.decode(list(ids))[:3] for ids in bard._prefix_cache.texts]
    assert [words.split()[0][:3] for words in kept] == ["Thr", "Fou", "Two"]
    bard.generate(texts[0], max_new_tokens=1, prefix_cache_bytes=one // 2)
    assert not bard._prefix_cache.texts


def test_a_text_that_goes_on_takes_the_place_of_its_beginning(bard):
    bard.generate(STORY, max_new_tokens=1)
    bard.generate(STORY + STORY, max_new_tokens=1)
    assert len(bard._prefix_cache.texts) == 1


def test_weights_of_inference_mode_are_checked_like_others():
    with torch.inference_mode():
        model = gf.create("gpt2", n_layer=1, n_embd=16, n_head=2, vocab_size=50)
        model.to(torch.float64)  # makes tensors of inference mode
    prompt = list(range(40))
    model.generate(prompt, max_new_tokens=3)
    with torch.inference_mode():
        model.decoder.blocks[0].ffn.up.weight.mul_(2)  # raises no version
    wanted = model.generate(prompt, max_new_tokens=3, **WITHOUT).tokens
    model.generate(prompt, max_new_tokens=3)
    assert model.generate(prompt, max_new_tokens=3).tokens == wanted
