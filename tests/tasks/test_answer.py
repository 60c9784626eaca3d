"""answer end to end: a tiny model that learned simple questions in the test answers them, by Python
and by the command line."""

from __future__ import annotations

import json
import random
from itertools import count, islice

import longtexts
import pytest
import torch
import trained
import transformers
from small_models import bert, word_tokenizer
from typer.testing import CliRunner

import glassformer as gf
from glassformer.cli import app
from glassformer.metrics.squad import exact_match, squad_scores, word_f1
from glassformer.tasks.words import whole_characters

FACT = "Kurt Go\u0308del was born in São Paulo (1906)"
ASKED = {
    "Who was born?": "Kurt Go\u0308del",
    "Where was that?": "São Paulo",
    "When was that?": "1906",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("squad")
    trained.train_answerer(made)
    trained.write_squad(made / "test.json", 60, seed=2)
    return made


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder / "run" / "model")


@pytest.fixture(scope="module")
def questions(folder):
    return trained.write_squad(folder / "more.json", 60, seed=3)


def test_questions_are_answered_where_the_answer_stands(model, questions):
    found = model.answer([q["question"] for q in questions], [q["context"] for q in questions])
    right = 0
    for result, asked in zip(found, questions, strict=True):
        assert asked["context"][result.start : result.end] == result.text or result.start is None
        for span in result.alternatives:
            assert asked["context"][span.start : span.end] == span.text
        gold = [(one["text"], one["answer_start"]) for one in asked["answers"]]
        right += (result.text, result.start) in gold if gold else result.start is result.end is None
    assert right >= 57
    assert any(result.text == "" for result in found)


def test_one_of_one_several_of_several(model):
    context = f"{FACT}."
    assert {q: model.answer(q, context).text for q in ASKED} == ASKED
    assert [one.text for one in model.answer([*ASKED], context)] == [*ASKED.values()]
    two = model.answer("Who was born?", [context, "Zoe\u0301 was born in Paris."])
    assert [one.text for one in two] == ["Kurt Go\u0308del", "Zoe\u0301"]
    endless = model.answer("Who was born?", (f"So it was told. {FACT}" for _ in count()))
    assert [one.start for one in islice(endless, 2)] == [16, 16]
    with pytest.raises(gf.GlassformerError, match="2 questions and 1 contexts"):
        model.answer(["a", "b"], ["c"])


def brute(folder, question, context, longest=30):
    """Every span's score by the reference's logits, the best first, and that of no answer."""
    place = str(folder / "run" / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(place).eval()
    read = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets, sequence = read.pop("offset_mapping")[0].tolist(), read.sequence_ids()
    with torch.no_grad():
        out = model(**read)
    starts, ends = out.start_logits[0].tolist(), out.end_logits[0].tolist()
    inside = [i for i, text in enumerate(sequence) if text == 1]
    spans = {
        (offsets[i][0], offsets[j][1]): starts[i] + ends[j]
        for i in inside
        for j in inside
        if i <= j < i + longest
    }
    return sorted(spans.items(), key=lambda item: -item[1]), starts[0] + ends[0]


@pytest.mark.parametrize("question", ASKED)
def test_the_best_spans_are_the_references(model, folder, question):
    context = "So it was told. Alan Turing was born in London in 1912."
    expected, none = brute(folder, question, context)
    found = model.answer(question, context, n_best=7, threshold=0.0)
    assert [(one.start, one.end) for one in found.alternatives] == [s for s, _ in expected[:7]]
    for span, (_, score) in zip(found.alternatives, expected, strict=False):
        assert span.score == pytest.approx(score, abs=1e-4)
    assert found.margin == pytest.approx(expected[0][1] - none, abs=1e-4)
    scores = torch.tensor([*(score for _, score in expected[:20]), none])
    assert found.probability == pytest.approx(float(scores.softmax(0)[0]), abs=1e-5)


def test_from_which_margin_on_there_is_an_answer(model):
    asked = ("When was that?", "Zoe\u0301 was born in Paris.")
    refused = model.answer(*asked)
    assert (refused.text, refused.start, refused.end) == ("", None, None)
    assert refused.margin < 0 and refused.alternatives and refused.probability > 0.5
    forced = model.answer(*asked, threshold=refused.margin - 0.01)
    assert forced.text == refused.alternatives[0].text
    assert model.answer("Who was born?", FACT, threshold=1e6).start is None
    assert model.config["task_specific_params"]["span"] == {"length": 64, "threshold": 0.0}


def test_windows_find_what_a_short_text_has(model):
    """Wherever a fact stands in a long context, the answers are those of the fact alone."""
    filling = "So it was told. 你好，世界！ Cafe\u0301 stories 👩\u200d👧: "
    for before in (0, 3, 7):
        context = filling * before + FACT + " " + filling * (9 - before)
        for question, right in ASKED.items():
            found = model.answer(question, context)
            assert (found.text, found.start) == (right, context.index(right))
    narrow = model.answer("Where was that?", filling * 3 + FACT, max_length=40, stride=5)
    assert narrow.text == "São Paulo"


def test_two_hundred_pages(model):
    """600,000 characters with emoji, Chinese and combining marks."""
    rng = random.Random(1)
    pages = [rng.choice(trained.OPENINGS[1:]) for _ in range(41_000)]
    context = "".join([*pages[:20_000], FACT, *pages[20_000:]])
    assert len(context) > 600_000
    found = model.answer("Who was born?", context)
    assert (found.text, found.start) == (ASKED["Who was born?"], context.index(FACT))
    assert context[found.start : found.end] == found.text


def test_a_head_that_searches_for_starts_and_then_ends():
    """XLNet's, beside what the reference finds."""
    tokenizer = longtexts.tokenizer("unigram")
    sizes = {"n_layer": 1, "d_model": 16, "n_head": 2, "d_inner": 16, "vocab_size": tokenizer.size}
    special = tokenizer.special
    model = gf.create(
        "xlnet-base", seed=4, tokenizer=tokenizer, architectures=["XLNetForQuestionAnswering"],
        start_n_top=8, end_n_top=6, pad_token_id=special["pad"], **sizes,
    )  # fmt: skip
    question, context = "Was there bread?", "The old miller walked to the river, 你好"
    whole = tokenizer.encode(question, context)
    with torch.no_grad():
        out = model(
            torch.tensor([whole.ids]), token_type_ids=torch.tensor([whole.segments])
        ).head_outputs
    inside = [i for i, text in enumerate(whole.sequence) if text == 1 and not whole.special_mask[i]]
    best = {}
    for s, (start, first) in enumerate(
        zip(out["answer.start"][0], out["answer.start_at"][0], strict=True)
    ):
        ends = out["answer.end"][0].view(6, 8)[:, s], out["answer.end_at"][0].view(6, 8)[:, s]
        for end, last in zip(*ends, strict=True):
            if int(first) in inside and int(last) in inside and first <= last:
                place = whole_characters(context, whole.offsets[first][0], whole.offsets[last][1])
                best[place] = float(start.log() + end.log())
    found = model.answer(question, context, n_best=3)
    top = sorted(best.values(), reverse=True)
    assert found.alternatives[0].score == pytest.approx(top[0], abs=1e-4)
    assert (found.start, found.end) == max(best, key=best.get)
    assert context[found.start : found.end] == found.text
    none = float(out["answer.possible"][0])
    assert found.margin == pytest.approx(-none, abs=1e-4)
    assert model.answer(question, context, threshold=-none + 0.1).text == ""
    assert model.answer(question, context, threshold=-none - 0.1).text == found.text


def run(*words: str, **options):
    said = CliRunner().invoke(app, [*words], catch_exceptions=False, **options)
    assert said.exit_code == 0, said.output
    return said


def test_a_file_of_squad_gives_predictions_and_scores(folder, tmp_path):
    output, data = tmp_path / "predictions.json", folder / "test.json"
    place = str(folder / "run" / "model")
    said = run("answer", place, "--squad", str(data), "--out", str(output), "--json")
    given = json.loads(output.read_text("utf-8"))
    (article,) = json.loads(data.read_text("utf-8"))["data"]
    asked = [one for paragraph in article["paragraphs"] for one in paragraph["qas"]]
    right = {one["id"]: [answer["text"] for answer in one["answers"]] for one in asked}
    assert given.keys() == right.keys()
    expected = [(exact_match(given[i], right[i]), word_f1(given[i], right[i])) for i in right]
    scores = json.loads(said.stdout)
    assert scores["exact"] == pytest.approx(100 * sum(e for e, _ in expected) / len(expected))
    assert scores["f1"] == pytest.approx(100 * sum(f for _, f in expected) / len(expected))
    assert scores["HasAns_total"] + scores["NoAns_total"] == scores["total"] == 60
    assert scores["exact"] > 90
    assert scores == squad_scores(given, right)


RIGHT = [["Zoe\u0301"], [{"text": "Zoe\u0301", "answer_start": 0}], {"text": ["Zoe\u0301"]}]
WRONG = [5, [5], [{"answer": "Zoe\u0301"}], {"answer_start": [0]}, None, "Zoe\u0301"]


def test_right_answers_are_written_in_several_ways_and_wrong_ones_are_named(folder, tmp_path):
    asked = {"question": "Who was born?", "context": "Zoe\u0301 was born in Paris."}
    records = [{**asked, "answers": answers} for answers in [*RIGHT, *WRONG]]
    data, output = tmp_path / "a.jsonl", tmp_path / "given.json"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ("answer", str(folder / "run" / "model"), "--file", str(data), "--out", str(output))
    said = run(*words, "--json", "--on-error", "skip")
    *found, scores = map(json.loads, said.stdout.splitlines())
    assert [one["text"] for one in found] == ["Zoe\u0301"] * 3 and scores["exact"] == 100
    assert said.stderr.count("answers must be a list of texts") == len(WRONG)
    assert f"{len(RIGHT)} used, {len(WRONG)} skipped" in said.stderr
    judged = gf.evaluate(str(folder / "run" / "model"), records, on_error="skip")
    assert (judged["exact"], judged.records, len(judged.skipped)) == (100, 3, len(WRONG))
    output.unlink()
    with pytest.raises(gf.GlassformerError, match=r"a\.jsonl:4: answers must be"):
        run(*words)
    assert [*json.loads(output.read_text()).values()] == ["Zoe\u0301"] * 3  # nothing is lost


def test_the_command_line(folder, tmp_path):
    place = str(folder / "run" / "model")
    found = json.loads(run("answer", place, "Where was that?", FACT, "--json").stdout)
    assert (found["text"], FACT[found["start"] : found["end"]]) == ("São Paulo", "São Paulo")
    assert "São Paulo" in run("answer", place, "Where was that?", FACT, "--n-best", "3").stdout
    book = tmp_path / "book.txt"
    book.write_text(f"So it was told.\n\n{FACT}\n", "utf-8")
    found = json.loads(run("answer", place, "When was that?", "--file", str(book), "--json").stdout)
    assert (found["text"], found["start"]) == ("1906", book.read_text("utf-8").index("1906"))
    assert "1906" in run("answer", place, "When was that?", input=FACT).stdout
    data = tmp_path / "asked.jsonl"
    whole = {"question": "Who was born?", "context": FACT}
    lines = [{"id": 7, **whole}, {"question": "Who?"}, {**whole, "question": " "}, whole]
    data.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    said = run("answer", place, "--file", str(data), "--json", "--on-error", "skip")
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert [one["text"] for one in found] == ["Kurt Go\u0308del"] * 2 and found[0]["id"] == 7
    assert f"{data}:2: there is no field 'context'" in said.stderr
    assert f"{data}:3: the question is empty" in said.stderr and "2 used, 2 skipped" in said.stderr


def test_bad_input(model, tmp_path):
    with pytest.raises(gf.GlassformerError, match="The question is empty"):
        model.answer(" ", FACT)
    with pytest.raises(gf.GlassformerError, match="The context is empty"):
        model.answer("Who?", "\n")
    with pytest.raises(gf.GlassformerError, match="leaves no space for the text"):
        model.answer("Who was born in Paris?", FACT, max_length=5)
    with pytest.raises(gf.GlassformerError, match="n_best must be at least 1"):
        model.answer("Who?", FACT, n_best=0)
    with pytest.raises(gf.GlassformerError, match="not int"):
        model.answer("Who?", 5)
    tokenizer = word_tokenizer(tmp_path, "a b")
    other = bert(tokenizer, "TokenClassification")
    with pytest.raises(gf.GlassformerError, match=r"answer needs a head for answers.*to tag with"):
        other.answer("a", "b")
    with pytest.raises(gf.GlassformerError, match="Give one of QUESTION, --file and --squad"):
        CliRunner().invoke(app, ["answer", "x", "Who?", "--squad", "y"], catch_exceptions=False)
