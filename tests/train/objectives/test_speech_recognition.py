"""Speech recognition: features and losses equal the reference's, augmentation, CTC, the records."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import speech_material as speech
import torch
import transformers

import glassformer as gf
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.ctc import ctc_loss, ctc_texts
from glassformer.train.objectives.registry import options_of
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Rows
from glassformer.train.objectives.spec_augment import Augmentation, at_speed

PLAIN = {"speed_perturbation": 0.0, "freq_masks": 0, "time_masks": 0}
TEXTS = ("one", "seven two", "four")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    speech.write_words(folder, TEXTS)
    return folder


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    return speech.make_model(tmp_path_factory.mktemp("english")).double().eval()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return speech.make_model(tmp_path_factory.mktemp("many"), ("en", "de", "zh")).double().eval()


def records(folder, **more):
    return [
        {"audio": f"{i}.wav", "text": text, "where": f"{folder}/data.csv:{i + 2}", **more}
        for i, text in enumerate(TEXTS)
    ]


def objective_of(model, **options):
    return make_objective("speech-recognition", model, {**PLAIN, **options})


def prepared(objective, given):
    return [example for record in given for example in objective.prepare(record)]


def rows(count, *seed):
    return RowRandom.of(5, *seed, rows=np.arange(count))


def test_features_equal_those_of_the_reference(folder, english):
    objective = objective_of(english)
    features = objective.collate(prepared(objective, records(folder))).inputs["input_features"]
    sounds = [speech.tone(1), np.concatenate([speech.tone(7), speech.tone(2)]), speech.tone(4)]
    stored = [np.round(sound * 2**15).clip(-(2**15), 2**15 - 1) / 2**15 for sound in sounds]
    theirs = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    expected = theirs(stored, sampling_rate=16_000, return_tensors="pt").input_features
    torch.testing.assert_close(features, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("timestamps", [0.0, 1.0])
@pytest.mark.parametrize("several", [False, True])
def test_the_loss_equals_that_of_the_reference(
    tmp_path, folder, english, many, several, timestamps
):
    model = many if several else english
    objective = objective_of(model, timestamps=timestamps)
    given = records(folder, language="de") if several else records(folder)
    batch = objective.collate(prepared(objective, given))
    batch.inputs["input_features"] = batch.inputs["input_features"].double()
    found = float(objective(model, batch)["lm"].detach()) / batch.counts["lm"]

    model.save(tmp_path / "model")
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(
        tmp_path / "model", dtype=torch.float64
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "model" / "tokenizer.json")
    )
    begin = "<|de|><|transcribe|>" if several else ""
    lengths = (0.3, 0.6, 0.3)
    texts = [
        f"{begin}<|0.00|> {text}<|{length:.2f}|>{speech.END}"
        if timestamps
        else f"{begin}{speech.NO_TIMES} {text}{speech.END}"
        for text, length in zip(TEXTS, lengths, strict=True)
    ]
    labels = [torch.tensor(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    expected = theirs(input_features=batch.inputs["input_features"], labels=padded).loss
    assert found == pytest.approx(float(expected.detach()), abs=1e-5)


def test_segments_have_their_own_times(folder, english):
    objective = objective_of(english, timestamps=1.0)
    segments = [
        {"text": "seven", "start": 0.0, "end": 0.3},
        {"text": " two ", "start": 0.31, "end": 0.6},
    ]
    record = {**records(folder)[1], "segments": segments}
    (example,) = objective.prepare(record)
    decoded = english.tokenizer.decode(example["tokens"], special=True)
    assert decoded == f"<|0.00|> seven<|0.30|><|0.32|> two<|0.60|>{speech.END}"
    for wrong in ([{"text": "a"}], [segments[1], segments[0]], "all of it"):
        with pytest.raises(gf.GlassformerError, match="the segment"):
            list(objective.prepare({**record, "segments": wrong}))


def test_a_share_of_the_rows_is_learned_with_times(folder, many):
    objective = objective_of(many, timestamps=0.25, language="de")
    stored = Rows.of(prepared(objective, records(folder))).take(np.arange(300) % 3)
    plain, timed = (
        many.tokenizer.decode(example, special=True)
        for example in (stored[0]["tokens"], stored[0]["timed"])
    )
    assert plain == f"<|de|><|transcribe|>{speech.NO_TIMES} one{speech.END}"
    assert timed == f"<|de|><|transcribe|><|0.00|> one<|0.30|>{speech.END}"
    varied = objective.augment(stored, rows(300))
    written = [many.tokenizer.decode(one["tokens"], special=True) for one in varied][::3]
    assert {*written} == {plain, timed} and 15 <= written.count(timed) <= 35
    batch = objective.collate(varied)
    assert int(batch.counts["lm"]) == sum(len(one["tokens"]) for one in varied)
    assert objective.collate_to(stored, {"tokens": 5, "timed": 7}).inputs[
        "decoder_input_ids"
    ].shape == (300, 7)
    with pytest.raises(gf.GlassformerError, match="from 0 to 1"):
        objective_of(many, timestamps=2.0)


def test_the_language_is_that_of_the_row_or_of_the_recipe(folder, many):
    record = records(folder)[0]
    languages = []
    for options, more in (
        ({"language": "german"}, {}),
        ({"language": "de"}, {"language": "zh-CN"}),
    ):
        (example,) = objective_of(many, **options).prepare({**record, **more})
        languages.append(many.tokenizer.token(int(example["tokens"][0])))
        text = many.tokenizer.decode(example["tokens"])
        assert text == ("one" if more else " one")  # Chinese has no space before a text
    assert languages == ["<|de|>", "<|zh|>"]
    with pytest.raises(gf.GlassformerError, match="no language is given"):
        list(objective_of(many).prepare(record))
    with pytest.raises(gf.GlassformerError, match="no language 'french'"):
        objective_of(many, language="french")


def test_masks_are_within_the_sound_and_as_large_as_they_may_be():
    options = Augmentation(freq_masks=3, freq_mask_param=5, time_masks=2, time_mask_ratio=0.25)
    frames = np.array([40, 80, 400] * 300)
    bands = options.masked_bands(rows(900), 16).values.reshape(900, 3, 2)
    times = options.masked_frames(rows(900), frames).values.reshape(900, 2, 2)
    assert bands.min() == 0 and bands.max() == 16
    assert {*np.diff(bands).flatten().tolist()} == set(range(6))
    widths = np.diff(times)[..., 0]
    assert (times[..., 1].max(1) <= frames).all() and times.min() == 0
    for length, most in ((40, 10), (80, 20), (400, 100)):
        assert 0.9 * most <= widths[frames == length].max() <= most


def test_augmentation_depends_on_the_seed_and_the_row_alone(folder, english):
    objective = make_objective("speech-recognition", english, {})
    stored = Rows.of(prepared(objective, records(folder)))
    together = objective.augment(stored, rows(3))
    alone = [objective.augment(stored[i : i + 1], rows(3).take(np.array([i])))[0] for i in range(3)]
    for one, other in zip(alone, together, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    features = objective.collate(together).inputs["input_features"]
    again = objective.collate(objective.augment(stored, rows(3))).inputs["input_features"]
    other = objective.collate(objective.augment(stored, rows(3, 1))).inputs["input_features"]
    assert torch.equal(features, again) and not torch.equal(features, other)
    assert (
        len({len(e["audio"]) for s in range(9) for e in objective.augment(stored, rows(3, s))}) > 3
    )


def test_masked_bins_are_zero_and_the_others_stay(folder, english):
    stored = Rows.of(prepared(objective_of(english), records(folder)))
    objective = objective_of(english, freq_masks=1, freq_mask_param=4, time_masks=1)
    whole = objective.collate(stored).inputs["input_features"]
    varied = objective.augment(stored, rows(3))
    masked = objective.collate(varied).inputs["input_features"]
    for row, example in enumerate(varied):
        expected = whole[row].clone()
        (low, high), (first, last) = example["masked_bands"], example["masked_frames"]
        expected[low:high] = 0.0
        expected[:, first:last] = 0.0
        assert torch.equal(masked[row], expected)
    assert any(high > low for low, high in (example["masked_bands"] for example in varied))


def test_speed_changes_length_pitch_and_times(folder, english):
    sound = torch.from_numpy(speech.tone(1, 0.5))
    for speed in (0.9, 1.1):
        played = at_speed(sound, speed, speech.RATE)
        assert len(played) == pytest.approx(len(sound) / speed, abs=1)
        spectrum = torch.fft.rfft(played).abs()
        pitch = int(spectrum.argmax()) * speech.RATE / len(played)
        assert pitch == pytest.approx(300 * 1.35 * speed, rel=0.01)
    objective = objective_of(english, timestamps=1.0, speed_perturbation=0.2)
    stored = Rows.of(prepared(objective, records(folder))).take(np.array([0, 1, 2] * 40))
    varied = objective.augment(stored, rows(120))
    times = {0.3: "0.30", 0.375: "0.38", 0.25: "0.24"}  # to the nearest step, or the even one
    for index in range(0, 120, 3):
        seconds = len(varied[index]["audio"]) / 2 / speech.RATE
        decoded = english.tokenizer.decode(varied[index]["tokens"], special=True)
        assert decoded == f"<|0.00|> one<|{times[round(seconds, 4)]}|>{speech.END}"
    lengths = {len(example["audio"]) / 2 / speech.RATE for example in varied}
    assert lengths == {0.25, 0.3, 0.375, 0.5, 0.6, 0.75}
    slow = objective_of(english, speed_perturbation=0.5).augment(stored, rows(120))
    lengths = {len(slow[row]["audio"]) / 2 / speech.RATE for row in range(1, 120, 3)}
    assert lengths == {0.4, 0.6}  # not 1.2, which is longer than the model hears


def test_an_evaluation_hears_the_sounds_as_they_are(folder, tmp_path, english):
    from glassformer.data import DataSettings
    from glassformer.train.batches import make_loader, prepare

    objective = make_objective("speech-recognition", english, {})
    settings = DataSettings(train=(str(folder / "data.csv"),))
    store = prepare(settings, "train", objective, tmp_path, about={})
    loader = make_loader(settings, store, objective, context=None, seed=3, batch=3, ahead=0)
    plain = objective_of(english).collate(prepared(objective, records(folder)))
    (swept,) = loader.sweep()
    assert torch.equal(swept.inputs["input_features"], plain.inputs["input_features"])
    (trained,) = loader.batches(0)
    assert not torch.equal(trained.inputs["input_features"], plain.inputs["input_features"])


def alignments(target: str, length: int) -> int:
    """All paths of outputs that mean a text."""
    found = 0
    letters = [byte + 1 for byte in target.encode()]
    for path in itertools.product((0, *sorted(set(letters))), repeat=length):
        merged = [key for key, _ in itertools.groupby(path)]
        found += [one for one in merged if one] == letters
    return found


def test_the_loss_of_ctc_sums_over_all_alignments():
    logits = torch.zeros(1, 4, 257)
    found = ctc_loss(logits, torch.tensor([4]), torch.tensor([98, 99, 99]), torch.tensor([3]))
    expected = 4 * np.log(257) - np.log(alignments("abb", 4))
    assert float(found) == pytest.approx(expected, rel=1e-6)
    too_short = ctc_loss(logits, torch.tensor([3]), torch.tensor([98, 99, 99]), torch.tensor([3]))
    assert float(too_short) == 0.0


def test_greedy_texts_of_ctc():
    path = [98, 98, 0, 98, 0, 196, 166, 200, 200, 111]  # a byte that begins nothing
    logits = torch.nn.functional.one_hot(torch.tensor([path, path]), 257).float()
    assert ctc_texts(logits, [10, 4]) == ["aaå\ufffdn", "aa"]


def test_ctc_is_a_second_head_on_the_encoder(folder, english):
    from glassformer.loading import extended
    from glassformer.train.objectives.ctc import HEAD

    with pytest.raises(gf.GlassformerError, match="needs the head 'ctc'"):
        objective_of(english, ctc_weight=0.3)
    spec = dataclasses.replace(english.spec, heads=(*english.spec.heads, HEAD))
    model = extended(english, spec, seed=2).double().eval()
    objective = objective_of(model, ctc_weight=0.3)
    assert objective.weights == {"lm": 0.7, "ctc": 0.3}
    batch = objective.collate(prepared(objective, records(folder)))
    batch.inputs["input_features"] = batch.inputs["input_features"].double()
    sums = objective(model, batch)
    features = batch.inputs["input_features"]
    logits = model.heads["ctc"](model.encode(features), None)
    asked = model(**batch.inputs, heads=("ctc",)).head_outputs["ctc"]
    torch.testing.assert_close(asked, logits)
    each = torch.nn.CTCLoss(reduction="none")
    expected = sum(
        each(
            logits[row].float().log_softmax(-1)[: round(50 * seconds), None],
            torch.tensor([[byte + 1 for byte in text.encode()]]),
            torch.tensor([round(50 * seconds)]),
            torch.tensor([len(text)]),
        )
        for row, (text, seconds) in enumerate(zip(TEXTS, (0.3, 0.6, 0.3), strict=True))
    )
    torch.testing.assert_close(sums["ctc"], expected[0])
    assert batch.counts["ctc"] == sum(map(len, TEXTS))
    sums["ctc"].backward()
    assert model.encoder.embed.near.weight.grad is not None


def test_what_is_wrong_with_a_record(folder, english):
    objective = objective_of(english, max_duration=0.5)
    long, record = records(folder)[1], records(folder)[0]
    assert list(objective.prepare(long)) == []
    assert (objective.tally.too_long, objective.tally.seconds) == (1, 0.0)
    (folder / "zip.wav").write_bytes(b"PK\x03\x04" + bytes(100))
    speech.write_wav(folder / "empty.wav", np.zeros(0, np.float32))
    for audio, message in (
        ("missing.wav", "missing.wav does not exist"),
        ("zip.wav", "zip.wav"),
        ("empty.wav", "empty.wav has no sound"),
        ("", "not the path of a file"),
        (None, "not the path of a file"),
    ):
        with pytest.raises(gf.GlassformerError, match=message):
            list(objective.prepare({**record, "audio": audio}))
    for text, message in (("", "text is empty"), (3, "not a text"), ("x" * 40, "43 tokens")):
        with pytest.raises(gf.GlassformerError, match=message):
            list(objective.prepare({**record, "text": text}))
    for options, message in (
        ({"max_duration": 2}, "hears up to 1 s"),
        ({"ctc_weight": 1.0}, "ctc_weight"),
        ({"speed_perturbation": 0.6}, "speed_perturbation"),
        ({"time_mask_ratio": 2}, "time_mask_ratio"),
        ({"time_masks": -1}, "time_masks"),
        ({"normalizer": "strict"}, "there are"),
    ):
        with pytest.raises(gf.GlassformerError, match=message):
            objective_of(english, **options)
    with pytest.raises(gf.GlassformerError, match="needs an encoder of sounds"):
        make_objective("speech-recognition", gf.load("zoo:stories"), {})


def test_the_guide_has_every_option_with_its_default():
    guide = (Path(__file__).parents[3] / "docs" / "train.md").read_text("utf-8")
    (row,) = re.findall(r"^\| `speech-recognition` \| (.*?) \|", guide, re.M)
    said = dict(re.findall(r"`(\w+)` ([^,]+)", row))
    known = options_of("speech-recognition")
    assert said == {key: str(option.default) for key, option in known.items()}


def test_a_part_of_a_mixture_is_augmented(folder, english):
    parts = [{"name": "speech-recognition"}, {"name": "speech-recognition", **PLAIN}]
    objective = make_objective("mixture", english, {"parts": parts})
    own = {"where": f"{folder}/data.csv:2", "objective": "speech-recognition"}
    plain = {**own, "objective": "speech-recognition-2"}
    given = [{**record, **kind} for record in records(folder) for kind in (own, plain)]
    stored = Rows.of(prepared(objective, given))
    before = objective.vary(stored, rows(6))
    after = objective.augment(before, rows(6))
    names = ("speech-recognition", "speech-recognition-2")
    changed, same = (
        {n: c for n, c in after.columns.items() if n.split("/")[0] == name} for name in names
    )
    assert any("masked_bands" in name for name in changed)
    assert all(np.array_equal(column.values, before.columns[n].values) for n, column in same.items()
               if "masked" not in n)  # fmt: skip
    batch = objective.collate(after)
    assert all(count > 0 for count in batch.counts.values())
