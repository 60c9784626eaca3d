"""Writing about sound: what the prompt may be."""

from __future__ import annotations

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.families import families


@pytest.fixture(scope="module")
def model():
    config = {**families()["whisper"].TINY[0], "begin_suppress_tokens": None}
    return gf.create("whisper-tiny", seed=1, **config)


def sound(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_one_sound_or_several(model):
    several = sound(3, 8, 48)
    results = model.generate(several, max_new_tokens=5)
    alone = [model.generate(one, max_new_tokens=5) for one in several]
    assert [r.tokens for r in results] == [r.tokens for r in alone]
    assert [p.token for p in model.stream(several[0], max_new_tokens=5)] == alone[0].tokens


def test_every_strategy_reads_sound(model):
    heard, options = sound(8, 48), {"max_new_tokens": 5}
    greedy = model.generate(heard, **options).tokens
    assert model.generate(heard, **options, prompt_lookup_num_tokens=2).tokens == greedy
    assert model.generate(heard, **options, assistant_model=model).tokens == greedy
    assert model.generate(heard, **options, penalty_alpha=1e-9, top_k=4).tokens == greedy


def test_sounds_of_different_lengths_one_after_the_other(model):
    long, short = sound(8, 48), sound(8, 30)
    with pytest.raises(gf.GlassformerError, match=r"let model\.processor pad them"):
        model.generate([long, short], max_new_tokens=5)
    results = model.generate([long, short], max_new_tokens=5, batch_size=1)
    assert results[1].tokens == model.generate(short, max_new_tokens=5).tokens


def test_a_text_is_scored_by_how_well_it_fits_the_sound(model):
    heard = sound(8, 48)
    target = model.generate(heard, max_new_tokens=6)
    found = model.score(heard, target.tokens)
    assert found.tokens == target.tokens
    assert found.logprobs == pytest.approx(target.logprobs, abs=1e-4)


def test_a_text_is_no_sound(model):
    with pytest.raises(
        gf.GlassformerError, match=r"give it a spectrogram, as model\.processor makes"
    ):
        model.generate("hello")
    with pytest.raises(gf.GlassformerError, match="give it a spectrogram"):
        model.generate()


LANGUAGES = {"<|en|>": 40, "<|de|>": 41, "<|yue|>": 42}
TASKS = {"translate": 45, "transcribe": 46}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The reference and ours, of several languages and tasks."""
    torch.manual_seed(3)
    config = transformers.WhisperConfig(**families()["whisper"].TINY[0])
    theirs = transformers.WhisperForConditionalGeneration(config).eval()
    for parameter in theirs.parameters():
        parameter.data.mul_(4)  # so that one token does not win whatever is heard
    told = {
        "lang_to_id": LANGUAGES,
        "task_to_id": TASKS,
        "no_timestamps_token_id": 97,  # what comes behind it are times
        "is_multilingual": True,
        "begin_suppress_tokens": [7, 2],
        "decoder_start_token_id": 3,
        "return_timestamps": False,
    }
    vars(theirs.generation_config).update(told)
    folder = tmp_path_factory.mktemp("whisper")
    theirs.save_pretrained(folder)
    return theirs, gf.load(folder)


SPOKEN = {
    "a language": {"language": "de"},
    "by its name": {"language": "cantonese"},
    "translated": {"language": "german", "task": "translate"},
    "transcribed": {"language": "en", "task": "transcribe"},
    "heard": {"task": "translate"},
    "searched": {"language": "de", "task": "translate", "num_beams": 3},
}


@pytest.mark.parametrize("options", SPOKEN.values(), ids=SPOKEN)
def test_the_decoder_is_told_language_and_task_as_by_the_reference(both, options):
    theirs, model = both
    for heard in sound(3, 8, 48):
        wanted = theirs.generate(heard[None], max_new_tokens=8, **options)[0].tolist()
        found = model.generate(heard, max_new_tokens=8, **options).tokens
        assert found == wanted


@pytest.mark.parametrize(
    "forced",
    [[[1, 41], [2, 45], [3, 97]], [[1, None], [2, 45]], [[1, 42]], [[1, 40], [2, 46]]],
    ids=str,
)
def test_tokens_that_older_files_force(both, forced, monkeypatch):
    theirs, model = both
    monkeypatch.setitem(model.generation_config, "forced_decoder_ids", forced)
    monkeypatch.setattr(theirs.generation_config, "forced_decoder_ids", forced, raising=False)
    for heard in sound(2, 8, 48):
        wanted = theirs.generate(heard[None], max_new_tokens=8)[0].tolist()
        assert model.generate(heard, max_new_tokens=8).tokens == wanted
        wanted = theirs.generate(heard[None], max_new_tokens=8, language="en")[0].tolist()
        assert model.generate(heard, max_new_tokens=8, language="en").tokens == wanted
    monkeypatch.setitem(model.generation_config, "forced_decoder_ids", [[2, 45]])
    with pytest.raises(gf.GlassformerError, match="places must be 1, 2 and so on"):
        model.generate(heard)


def test_the_first_tokens(both):
    _, model = both
    generator, heard = model.generator, sound(8, 48)

    def begun(**given):
        return list(generator.request(0, heard, generator.resolve_config(given)).prompt)

    assert begun(language="de", task="translate") == [3, 41, 45, 97]
    assert begun(language="<|yue|>") == begun(target_language="yue") == [3, 42, 46, 97]
    logits = model(decoder_input_ids=torch.tensor([[3]]), input_features=heard[None]).logits[0, -1]
    assert begun() == [3, max(LANGUAGES.values(), key=lambda id: logits[id]), 46, 97]


def test_a_score_is_of_the_text_behind_the_first_tokens(both):
    _, model = both
    heard = sound(8, 48)
    said = model.generate(heard, max_new_tokens=6, begin_suppress_tokens=None)
    assert model.score(heard, said.tokens).logprobs == pytest.approx(said.logprobs, abs=1e-4)


def test_what_is_not_spoken(both, model):
    heard = sound(8, 48)
    with pytest.raises(gf.GlassformerError, match="no language 'fr'; it knows de, en, yue"):
        both[1].generate(heard, language="fr")
    with pytest.raises(gf.GlassformerError, match="Whisper has no language 'klingon'"):
        both[1].generate(heard, language="klingon")
    with pytest.raises(gf.GlassformerError, match="knows one language and one task"):
        model.generate(heard, language="de")
    with pytest.raises(gf.GlassformerError, match="are options of speech models"):
        gf.load("shakespeare").generate("hi", language="de")
