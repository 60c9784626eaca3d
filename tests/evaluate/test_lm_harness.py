"""Benchmarks beside EleutherAI's lm-evaluation-harness: the same requests, log-likelihoods and
figures of the same tiny model, with and without examples. tools/lm_reference.py wrote its numbers
down."""

from __future__ import annotations

import json
import random

import pytest
import tiny_gpt2 as tiny

from glassformer.evaluate.lm_harness import run
from glassformer.evaluate.lm_harness.benchmarks import BENCHMARKS
from glassformer.evaluate.lm_harness.likelihood import likelihoods
from glassformer.evaluate.lm_harness.requests import LikelihoodRequest
from glassformer.evaluate.lm_harness.run import BenchmarkEvaluator, requests_of, with_examples
from glassformer.metrics.bootstrap import Resamples

EXPECTED = json.loads(tiny.EXPECTED.read_text("utf-8"))["tasks"]


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def records():
    return tiny.records()


def asked(model, records, which):
    name, shots = which.split("/")
    judge = BenchmarkEvaluator(model, BENCHMARKS[name])
    judge.shots = int(shots)
    return judge, [judge.ask(record) for record in records[name]]


@pytest.mark.parametrize("which", EXPECTED)
def test_requests_likelihoods_and_figures(model, records, which):
    wanted = EXPECTED[which]
    judge, questions = asked(model, records, which)
    found = list(judge.answers(questions))
    for one, right in zip(found, wanted["requests"], strict=False):
        pairs = zip(one.question.contexts, one.question.continuations, strict=True)
        assert [list(pair) for pair in pairs] == right
    for one, right in zip(found, wanted["likelihoods"], strict=True):
        assert [total for total, _ in one.likelihoods] == pytest.approx(
            [total for total, _ in right], abs=2e-4
        )
        assert [greedy for _, greedy in one.likelihoods] == [greedy for _, greedy in right]
    metrics = judge.compute_metrics(questions, found, Resamples())
    for name, value in wanted["figures"].items():
        if not name.endswith("_stderr"):
            assert metrics[name].value == pytest.approx(value, rel=1e-5), name
        elif name != "perplexity_stderr":
            assert metrics[name.removesuffix("_stderr")].error == pytest.approx(value, rel=1e-6)


def test_the_harness_saw_truncated_contexts_greedy_words_and_right_answers(model, records):
    """So that the numbers above could have shown a difference."""
    cut = 0
    for name in records:
        _, questions = asked(model, records, f"{name}/2")
        for question in with_examples(questions, 2):
            requests = requests_of(model, question)
            cut += any(len(one.context) + len(one.target) > tiny.POSITIONS for one in requests)
    assert cut > 20
    metrics = [one["figures"] for one in EXPECTED.values()]
    assert any(0 < one["acc"] < 1 for one in metrics)
    assert any(one["acc"] != one["acc_norm"] for one in metrics if "acc_norm" in one)


def test_a_shared_context_is_read_once_and_changes_nothing(model, records, monkeypatch):
    _, questions = asked(model, records, "hellaswag/0")
    groups = [requests_of(model, question) for question in questions]
    read = []
    forward = type(model).forward

    def counted(transformer, tokens, *others, **named):
        read.append(tokens.numel())
        return forward(transformer, tokens, *others, **named)

    monkeypatch.setattr(type(model), "forward", counted)
    shared = list(likelihoods(model, groups))
    together, read[:] = sum(read), []
    monkeypatch.setattr(
        "glassformer.evaluate.lm_harness.likelihood.can_share", lambda transformer: False
    )
    apart = list(likelihoods(model, groups))
    assert together < 0.75 * sum(read)
    for one, other in zip(shared, apart, strict=True):
        assert [x.total for x in one] == pytest.approx([x.total for x in other], rel=1e-6)
        assert [x.greedy for x in one] == [x.greedy for x in other]


def test_a_long_context_beside_long_targets(model):
    """Each fits by itself; padded to the longest of both, a batch of them would not."""
    rng = random.Random(3)

    def group(context: int, target: int) -> list[LikelihoodRequest]:
        ids = [tuple(rng.choices(range(300), k=size)) for size in (context, target, target)]
        return [LikelihoodRequest(ids[0], ids[1]), LikelihoodRequest(ids[0], ids[2])]

    groups = [group(tiny.POSITIONS - 4, 4), group(tiny.POSITIONS - 60, 60), group(200, 9)]
    together = list(likelihoods(model, groups))
    for found, own in zip(together, groups, strict=True):
        alone = [next(likelihoods(model, [[one]]))[0].total for one in own]
        assert [one.total for one in found] == pytest.approx(alone, rel=1e-5)


def test_greedy_is_what_greedy_search_writes(model, records):
    context = requests_of(model, asked(model, records, "lambada/0")[1][0])[0].context[:60]
    written = model.generate(list(context), max_new_tokens=5, min_new_tokens=5).tokens
    right = LikelihoodRequest(context, tuple(written)[-5:])
    wrong = LikelihoodRequest(context, (*right.target[:-1], right.target[-1] ^ 1))
    for group in ([right], [wrong], [right, wrong]):
        found = [one.greedy for one in next(likelihoods(model, [group]))]
        assert found == [one is right for one in group]


def test_examples_from_another_file_are_drawn_without_leaving_any_out(model, records):
    _, questions = asked(model, records, "arc_easy/0")
    told = with_examples(questions[:3], 2, questions[3:])
    shown = {one.shown for one in questions[3:]}
    for question, bare in zip(told, questions, strict=False):
        before = question.contexts[0].removesuffix(bare.contexts[0])
        assert {*before.strip("\n").split(run.BETWEEN)} <= shown
    with pytest.raises(run.GlassformerError, match="24 examples cannot be drawn from 23"):
        with_examples(questions, 24)
