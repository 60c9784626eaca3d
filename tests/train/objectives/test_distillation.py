"""Distillation: gradients in closed form, for predictions, hidden states and cosines."""

from __future__ import annotations

import material
import numpy as np
import pytest
import readers
import torch

from glassformer.core import ActivationCapture
from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.text_inputs import IGNORED
from glassformer.train.step import TrainingModule

LABELS = ("bad", "good", "so-so")
RECORDS = [{"text": text, "label": LABELS[i % 3]} for i, text in enumerate(material.SENTENCES[:5])]
TEMPERATURE = 3.0


@pytest.fixture
def teacher(tmp_path):
    """A folder with a larger model of a family, its weights not those of a student of that seed."""

    def make(family: str, kind: str, labels=(), **settings) -> str:
        made = readers.make(family, kind, labels, **settings)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.mul_(2.0)
        made.float()
        made.save(tmp_path / "teacher")
        return str(tmp_path / "teacher")

    return make


def prepared(objective, records=RECORDS):
    return [example for record in records for example in objective.prepare(record)]


def softened(logits):
    """Shares at the temperature, written out."""
    powers = (logits / TEMPERATURE).exp()
    return powers / powers.sum()


def apart(found, wanted):
    """KL(wanted || found) T^2."""
    p, q = softened(wanted), softened(found)
    return (p * (p.log() - q.log())).sum() * TEMPERATURE**2


def frozen(objective):
    return objective._teacher[0].double()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("alone", [False, True])
def test_answers_about_texts(family, alone, teacher):
    kind = "ForSequenceClassification"
    model = readers.make(family, kind, LABELS)
    options = {"teacher": teacher(family, kind, LABELS), "task": "classification"}
    options |= {
        "temperature": TEMPERATURE,
        "hard_weight": 0.0 if alone else 0.25,
        "soft_weight": 0.75,
    }
    objective = make_objective("distillation", model, options)

    def reference(transformer, example):
        segments = readers.knows_segments(model)
        mine = readers.read(transformer, example, segments=segments)["classify"][0]
        theirs = readers.read(frozen(objective), example, segments=segments)["classify"][0]
        hard = material.surprise(mine, int(example["label"][0]))
        soft = {"soft": [apart(mine, theirs)]}
        return soft if alone else {"classify": [hard], **soft}

    frozen(objective)
    material.check_gradients(objective, model, prepared(objective), reference)
    assert objective.weights == ({"soft": 0.75} if alone else {"classify": 0.25, "soft": 0.75})


@pytest.mark.parametrize("loss", ["kl", "cross-entropy"])
def test_answers_about_tokens(loss, teacher):
    """Of a causal language model, token by token, through the chunks."""
    model = readers.make("llama", "ForCausalLM")
    options = {"teacher": teacher("llama", "ForCausalLM", num_hidden_layers=3), "loss": loss}
    options |= {"task": "causal-lm", "temperature": TEMPERATURE}
    objective = make_objective("distillation", model, options)
    whole = prepared(objective)
    rows = [{"tokens": whole[0]["tokens"][:9]}, {"tokens": whole[1]["tokens"][:14]}]

    def reference(transformer, example):
        tokens = material.ids(example["tokens"])
        mine, theirs = (one(tokens[:, :-1]).logits[0] for one in (transformer, frozen(objective)))
        hard = [material.surprise(row, int(t)) for row, t in zip(mine, tokens[0, 1:], strict=True)]
        soft = [apart(found, wanted) for found, wanted in zip(mine, theirs, strict=True)]
        if loss == "cross-entropy":
            shares = [softened(wanted) for wanted in theirs]
            entropies = [-(p * p.log()).sum() * TEMPERATURE**2 for p in shares]
            soft = [a + b for a, b in zip(soft, entropies, strict=True)]
        return {"lm": hard, "soft": soft}

    frozen(objective)
    material.check_gradients(objective, model, rows, reference)


def test_answers_about_masked_tokens(teacher):
    model = readers.make("bert", "ForMaskedLM")
    options = {"teacher": teacher("bert", "ForMaskedLM"), "task": "masked-lm"}
    objective = make_objective("distillation", model, {**options, "temperature": TEMPERATURE})

    def reference(transformer, example):
        mine, theirs = (
            one(material.ids(example["tokens"])).logits[0]
            for one in (transformer, frozen(objective))
        )
        asked = np.flatnonzero(example["targets"] != IGNORED)
        hard = [material.surprise(mine[i], int(example["targets"][i])) for i in asked]
        return {"lm": hard, "soft": [apart(mine[i], theirs[i]) for i in asked]}

    frozen(objective)
    material.check_gradients(objective, model, prepared(objective), reference)


def test_a_compiler_sees_student_and_teacher_as_one_graph(teacher):
    """And the same one while the weights of hidden states fall."""
    model = readers.make("llama", "ForCausalLM")
    options = {
        "teacher": teacher("llama", "ForCausalLM", num_hidden_layers=4),
        "hidden_weight": 1.0,
    }
    options |= {"task": "causal-lm", "match_layers": "all", "hidden_until": 0.5}
    objective = make_objective("distillation", model, options)
    batch, task = objective.collate(prepared(objective)[:2]), TrainingModule(model, objective)
    graphs = []

    def compiler(graph, _):
        graphs.append(graph)
        return graph.forward

    whole = torch.compile(task, fullgraph=True, backend=compiler)
    for progress, share in ((0.0, 1.0), (0.2, 0.6), (0.5, 0.0), (0.9, 0.0)):
        objective.advance(progress)
        assert task.weights == {"lm": 0.5, "soft": 0.5, "hidden": pytest.approx(share)}
        found = whole(batch)
        for part, value in task(batch).items():
            torch.testing.assert_close(found[part], value)
    assert len(graphs) == 1
    moved = frozen(task.to("meta").objective)
    assert {weight.device.type for weight in moved.parameters()} == {"meta"}


@pytest.mark.parametrize("width", [32, 48])
@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_hidden_states(width, layers, family, teacher):
    """Layers 1 and 2 of the student beside 2 and 4 of the teacher, through a matrix where widths
    differ."""
    kind, sizes = "ForSequenceClassification", {"num_hidden_layers": 4, "hidden_size": width}
    if family == "gpt2":
        sizes = {"n_layer": 4, "n_embd": width}
    model = readers.make(family, kind, LABELS)
    options = {"teacher": teacher(family, kind, LABELS, **sizes), "task": "classification"}
    options |= {
        "hard_weight": 0.0,
        "soft_weight": 0.0,
        "hidden_weight": 0.5,
        "cosine_weight": 2.0,
        "match_layers": layers,
    }
    objective = make_objective("distillation", model, options)
    learned = dict(objective.named_parameters())
    assert len(learned) == (0 if width == 32 else 2 if layers == "all" else 1)
    stack = "encoder" if family == "bert" else "decoder"

    def states(transformer, example):
        seen = ActivationCapture()
        inputs = {"input_ids": material.ids(example["tokens"]), "tap": seen}
        if family == "bert":
            inputs["token_type_ids"] = material.ids(example["segments"])
        last = transformer(**inputs).last_hidden_state[0]
        depth = len(transformer.spec.last_stack.order)
        every = [seen[f"{stack}.blocks.{i}.resid_post"][0] for i in range(depth)]
        return every if layers == "all" else [last]

    def reference(transformer, example):
        mine, theirs = states(transformer, example), states(frozen(objective), example)
        theirs = [theirs[1], theirs[3]] if layers == "all" else theirs
        hidden, cosine = [], []
        for token in range(len(example["tokens"])):
            squares = angles = 0.0
            for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
                x, y = a[token], b[token]
                if learned:
                    x = learned[f"states.projections.{i}.weight"] @ x
                squares = squares + ((x - y) ** 2).sum() / width / len(mine)
                angles = angles + (1 - x @ y / (x @ x).sqrt() / (y @ y).sqrt()) / len(mine)
            hidden.append(squares)
            cosine.append(angles)
        return {"hidden": hidden, "cosine": cosine}

    frozen(objective)
    material.check_gradients(objective, model, prepared(objective)[:3], reference)


def test_the_teacher_is_neither_trained_nor_saved(teacher):
    kind = "ForSequenceClassification"
    model = readers.make("bert", kind, LABELS)
    options = {"teacher": teacher("bert", kind, LABELS), "task": "classification"}
    objective = make_objective("distillation", model, options)
    transformer = objective._teacher[0]
    before = [parameter.clone() for parameter in transformer.parameters()]
    first, last = material.falls(objective, model, prepared(objective), steps=8)
    assert last < first and not transformer.training
    assert all(torch.equal(a, b) for a, b in zip(before, transformer.parameters(), strict=True))
    assert not list(objective.parameters()) and not objective.state_dict()


@pytest.mark.parametrize("name", ["continuation", "sequence-to-sequence", "masked-lm"])
def test_hidden_states_count_where_something_is_written_or_read(name, teacher):
    kinds = {
        "continuation": ("llama", "ForCausalLM"),
        "sequence-to-sequence": ("bart", "ForConditionalGeneration"),
        "masked-lm": ("bert", "ForMaskedLM"),
    }
    pairs = [("The old", "dog barked"), ("She", "laughed!")]
    records = [{"source": a, "target": b} for a, b in pairs]
    if name == "masked-lm":
        records = [{"text": "as long as the next"}, {"text": "is a text before it"}]
    model = readers.make(*kinds[name])
    settings = {"separator": " "} if name == "continuation" else {}
    options = {"teacher": teacher(*kinds[name]), "task": name, "task_options": settings}
    options |= {"hidden_weight": 1.0, "soft_weight": 0.0, "hard_weight": 0.0}
    objective = make_objective("distillation", model, options)
    examples = material.varied(objective, prepared(objective, records))
    batch = objective.collate(examples)
    frozen(objective)
    mine, theirs = (
        transformer(**batch.inputs).last_hidden_state for transformer in (model, frozen(objective))
    )
    squares = (mine - theirs).square().mean(-1)
    if name == "masked-lm":
        counted = [(row, place) for row, one in enumerate(examples)
                   for place in range(len(one["tokens"]))]  # fmt: skip
    else:
        counted = [divmod(int(place), squares.shape[1]) for place, token in
                   zip(batch.targets["at"], batch.targets["tokens"], strict=True)
                   if token >= 0]  # fmt: skip
    assert batch.counts["hidden"] == len(counted)
    expected = float(sum(squares[place] for place in counted))
    assert float(objective(model, batch)["hidden"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["tagging", "span", "multiple-choice", "sequence-to-sequence"])
def test_around_every_kind_of_task(name, teacher):
    """A student that equals its teacher has nothing to learn; another does."""
    text = material.SENTENCES
    pairs = zip(text[:3], text[3:6], strict=True)
    kinds = {
        "tagging": ("bert", "ForTokenClassification", ("O", "X")),
        "span": ("bert", "ForQuestionAnswering", ()),
        "multiple-choice": ("bert", "ForMultipleChoice", ()),
        "sequence-to-sequence": ("bart", "ForConditionalGeneration", ()),
    }
    records = {
        "tagging": [{"words": s.split(), "tags": ["O"] * len(s.split())} for s in text[:3]],
        "span": [{"question": "What?", "context": s, "answers": [], "id": s} for s in text[:3]],
        "multiple-choice": [{"question": "?", "choices": text[:n], "label": 0} for n in (2, 3)],
        "sequence-to-sequence": [{"source": a, "target": b} for a, b in pairs],
    }
    folder = teacher(*kinds[name])
    model = readers.make(*kinds[name])
    options = {"teacher": folder, "task": name, "hard_weight": 0.0}
    objective = make_objective("distillation", model, options)
    batch = objective.collate(prepared(objective, records[name]))
    assert float(objective(model, batch)["soft"].detach()) > 1e-8
    same = frozen(objective)
    assert abs(float(objective(same, batch)["soft"])) < 1e-12
    assert objective.measure(model, [batch])


def test_several_labels_are_each_yes_or_no(teacher):
    kind = "ForSequenceClassification"
    model = readers.make("bert", kind, LABELS)
    options = {
        "teacher": teacher("bert", kind, LABELS),
        "task": "classification",
        "hard_weight": 0.0,
    }
    options |= {"task_options": {"multi_label": True}}
    objective = make_objective("distillation", model, {**options, "temperature": TEMPERATURE})

    def reference(transformer, example):
        mine, theirs = (
            readers.read(n, example)["classify"][0] for n in (transformer, frozen(objective))
        )
        pairs = zip(mine, theirs, strict=True)
        both = [apart(torch.stack((a, 0 * a)), torch.stack((b, 0 * b))) for a, b in pairs]
        return {"soft": [sum(both) / 3]}

    frozen(objective)
    material.check_gradients(objective, model, prepared(objective), reference)


def test_teachers_that_do_not_fit(teacher):
    kind = "ForSequenceClassification"
    model = readers.make("bert", kind, LABELS)
    folder = teacher("bert", kind, ("a", "b"))
    with pytest.raises(GlassformerError, match="has 2 outputs of the head 'classify'"):
        make_objective("distillation", model, {"teacher": folder, "task": "classification"})
    with pytest.raises(GlassformerError, match="needs the option 'teacher'"):
        make_objective("distillation", model, {"task": "classification"})
    with pytest.raises(GlassformerError, match="There is no objective 'x'"):
        make_objective("distillation", model, {"teacher": folder, "task": "x"})
    with pytest.raises(GlassformerError, match="until is a share of training, not 2"):
        make_objective("distillation", model, {"teacher": folder, "task": "x", "hidden_until": 2})


def test_a_task_that_looks_inside_the_student(tmp_path):
    """AWD-LSTM's regularizers and the states of all layers are seen in one pass; a teacher that is
    the student itself has nothing to add."""
    sizes = {"vocab_size": material.SIZE, "emb_sz": 8, "n_hid": 12, "n_layers": 2}
    dry = dict.fromkeys(("input_p", "hidden_p", "embed_p", "weight_p", "output_p"), 0.0)
    model = material.model("awd-lstm", material.letters(), **sizes, **dry)
    model.save(tmp_path)
    task = {"activation_regularization": 2.0, "temporal_regularization": 1.0}
    options = {"teacher": str(tmp_path), "task": "causal-lm", "task_options": task}
    options |= {"match_layers": "all", "hidden_weight": 1.0, "hard_weight": 1.0}
    objective = make_objective("distillation", model, options)
    rows = [{"tokens": example["tokens"][:12]} for example in prepared(objective)[:2]]
    batch = objective.collate(rows)
    frozen(objective)
    sums = objective.train()(model.train(), batch)
    assert set(sums) == {"lm", "activation", "temporal", "soft", "hidden"}
    alone = make_objective("causal-lm", model, task)
    plain = alone.train()(model, alone.collate(rows))
    for part, value in plain.items():
        assert float(sums[part]) == pytest.approx(float(value), rel=1e-6)
    assert float(sums["hidden"]) == pytest.approx(0.0, abs=1e-9)
