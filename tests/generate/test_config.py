"""Options: what is wrong with them is said in one sentence before anything is computed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.generate.config import DEFAULT_NEW_TOKENS, RANGES, make_generation_config

OUT_OF_RANGE = {
    "prefix_cache_bytes": -1,
    "task": "sing",
    "max_new_tokens": 0,
    "max_length": -1,
    "min_new_tokens": -1,
    "min_length": -1,
    "max_time": 0.0,
    "temperature": -0.5,
    "top_k": -1,
    "top_p": 1.5,
    "min_p": -0.1,
    "typical_p": 0.0,
    "seed": -1,
    "num_return_sequences": 0,
    "num_beams": 0,
    "num_beam_groups": 0,
    "diversity_penalty": -1.0,
    "early_stopping": "always",
    "penalty_alpha": 2.0,
    "prompt_lookup_num_tokens": -1,
    "num_assistant_tokens": 0,
    "repetition_penalty": 0.0,
    "no_repeat_ngram_size": -1,
    "batch_size": 0,
    "prefill_chunk": 0,
    "truncate": "middle",
    "max_initial_timestamp_index": -1,
}


@pytest.mark.parametrize("option", ["temperature", "repetition_penalty"])
def test_a_number_with_which_scores_are_not_finite(option):
    with pytest.raises(GlassformerError, match=f"{option} must be"):
        gf.GenerationConfig(do_sample=True, **{option: 1e-300})


def test_every_range_has_a_value_outside():
    assert set(OUT_OF_RANGE) == set(RANGES)


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_value_out_of_range_is_named(name):
    with pytest.raises(GlassformerError, match=rf"^{name} must be .*, not {OUT_OF_RANGE[name]!r}"):
        make_generation_config({}, {name: OUT_OF_RANGE[name]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_new_tokens": 1.5}, "max_new_tokens must be a whole number, not 1.5."),
        ({"max_new_tokens": float("inf")}, "max_new_tokens must be a whole number, not inf."),
        ({"num_beams": True}, "num_beams must be a whole number, not True."),
        ({"temperature": "hot"}, "temperature must be a number, not 'hot'."),
        ({"length_penalty": float("nan")}, "length_penalty must be a number, not nan."),
        ({"do_sample": 1}, "do_sample must be True or False, not 1."),
        ({"regex": 5}, "regex must be a text, not 5."),
        ({"stop_strings": ["a", 2]}, "stop_strings must be a text or a list of texts"),
        ({"eos_token_id": "12"}, "eos_token_id must be a token id or a list of them, not '12'."),
        ({"bad_words_ids": [5]}, "bad_words_ids must be a list of lists of token ids"),
        ({"force_words_ids": 5}, "force_words_ids must be a list of phrases"),
        ({"prefix_allowed_tokens_fn": [1]}, "prefix_allowed_tokens_fn must be a function"),
    ],
)
def test_a_value_of_another_type_is_named(given, said):
    with pytest.raises(GlassformerError) as caught:
        make_generation_config({}, given)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_new_tokens": 9, "max_new_tokens": 5}, "min_new_tokens (9) is above"),
        ({"min_length": 9, "max_length": 5}, "min_length (9) is above max_length (5)"),
        ({"num_beams": 4, "num_beam_groups": 3}, "multiple of num_beam_groups"),
        ({"num_beams": 4, "num_beam_groups": 2, "do_sample": True}, "not sampled"),
        ({"num_beams": 4, "diversity_penalty": 1.0}, "set num_beam_groups"),
        ({"num_beams": 2, "num_return_sequences": 3}, "2 beams cannot return 3 sequences"),
        ({"num_return_sequences": 3}, "Greedy search has one result, not 3"),
        ({"force_words_ids": [[1]]}, "set num_beams above 1"),
        ({"force_words_ids": [[]], "num_beams": 2}, "none of them empty"),
        ({"bad_words_ids": [[]]}, "none of them empty"),
        ({"stop_strings": ["a", ""]}, "A stop string is empty"),
        ({"tree": True}, "Only a beam search has a tree"),
        ({"penalty_alpha": 0.6}, "needs top_k"),
        ({"penalty_alpha": 0.6, "top_k": 4, "do_sample": True}, "neither do_sample nor"),
        ({"temperature": 0.7, "do_sample": False}, "temperature only shapes sampling; set do_"),
        ({"top_k": 40, "do_sample": False, "num_beams": 2}, "top_k only shapes sampling"),
        ({"temperature": 0, "do_sample": True}, "temperature 0 takes the most probable token"),
        ({"num_beams": 4, "num_beam_groups": 2, "top_p": 0.9}, "not sampled"),
    ],
)
def test_contradictions(given, said):
    with pytest.raises(GlassformerError) as caught:
        make_generation_config({}, given)
    assert said in str(caught.value)


@pytest.mark.parametrize("saved", [{}, {"do_sample": False}, {"do_sample": True}])
@pytest.mark.parametrize(
    ("given", "sampled"),
    [
        ({"temperature": 0.8}, True),
        ({"temperature": 1.0}, True),
        ({"top_k": 5}, True),
        ({"top_p": 0.9}, True),
        ({"min_p": 0.1}, True),
        ({"typical_p": 0.9}, True),
        ({"temperature": 0.8, "do_sample": None}, True),
        ({"temperature": 0}, False),
        ({"temperature": 0.0, "top_p": 0.9}, False),
        ({"temperature": 0.0, "do_sample": False}, False),
        ({"do_sample": False}, False),
        ({"penalty_alpha": 0.6, "top_k": 4, "do_sample": False}, False),
        ({"temperature": None, "seed": 3}, None),  # as the file says
    ],
)
def test_a_knob_that_shapes_sampling_asks_for_it(saved, given, sampled):
    options = make_generation_config(saved, given)
    assert options.do_sample is (saved.get("do_sample", False) if sampled is None else sampled)
    if sampled is False:
        assert (options.temperature, options.top_p) == (1.0, 1.0)


def test_contrastive_search_is_not_sampled():
    assert not make_generation_config({}, {"penalty_alpha": 0.6, "top_k": 4}).do_sample
    assert (
        make_generation_config({}, {"penalty_alpha": 0.6, "top_k": 4, "temperature": 0}).top_k == 4
    )


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(GlassformerError, match="no option 'temprature'; did you mean temperature"):
        make_generation_config({}, {"temprature": 1.0})
    with pytest.raises(GlassformerError, match="no option 'xyzzy'; there are max_new_tokens, "):
        make_generation_config({}, {"xyzzy": 1.0})


def test_a_file_may_hold_what_others_use_and_what_is_idle():
    saved = {"transformers_version": "4.2", "temperature": 0.6, "top_k": 50, "max_length": None}
    options = make_generation_config(saved, {})
    assert (options.temperature, options.do_sample) == (1.0, False)
    assert make_generation_config(saved, {"do_sample": True}).temperature == 0.6
    assert make_generation_config({**saved, "penalty_alpha": 0.6}, {}).top_k == 50


def test_the_users_word_on_length_is_the_last():
    assert make_generation_config({"max_length": 20}, {}).new_tokens(5, None) == 15
    assert (
        make_generation_config({"max_length": 20}, {"max_new_tokens": 30}).new_tokens(5, None) == 30
    )
    assert (
        make_generation_config({"max_new_tokens": 30}, {"max_length": 20}).new_tokens(5, None) == 15
    )
    assert (
        make_generation_config({}, {"max_new_tokens": 30, "max_length": 9}).new_tokens(5, None)
        == 30
    )
    assert make_generation_config({}, {}).new_tokens(5, None) == DEFAULT_NEW_TOKENS
    assert make_generation_config({}, {"max_new_tokens": 30}).new_tokens(5, context=12) == 7


def test_none_sets_a_knob_back_to_its_default():
    saved = {"num_beams": 4, "eos_token_id": 7}
    assert make_generation_config(saved, {}).num_beams == 4
    options = make_generation_config(saved, {"num_beams": None, "eos_token_id": None})
    assert (options.num_beams, options.eos_token_id) == (1, ())


def test_values_of_numpy_and_single_tokens_are_as_good():
    options = make_generation_config(
        {},
        {
            "max_new_tokens": np.int64(3),
            "do_sample": True,
            "temperature": np.float32(0.5),
            "eos_token_id": np.int64(4),
            "stop_strings": "x",
            "force_words_ids": None,
        },
    )
    assert (options.max_new_tokens, options.temperature) == (3, 0.5)
    assert (options.eos_token_id, options.stop_strings) == ((4,), ("x",))


def test_phrases_are_single_or_of_several_ways():
    options = make_generation_config(
        {}, {"num_beams": 2, "force_words_ids": [[1, 2], [[3], [4, 5]]]}
    )
    assert options.force_words_ids == (((1, 2),), ((3,), (4, 5)))


def test_generation_config_is_read_kept_and_turned(tmp_path):
    bard = gf.load("shakespeare")
    bard.generation_config = {"max_new_tokens": 4, "bad_words_ids": [[199]], "other": 1}
    bard.save(tmp_path / "bard")
    again = gf.load(tmp_path / "bard")
    assert again.generation_config == bard.generation_config
    quiet = again.generate("ROMEO:\n")
    assert len(quiet.tokens) == 4
    assert len(again.generate("ROMEO:\n", max_new_tokens=6).tokens) == 6
    assert 199 not in again.generate("ROMEO:", max_new_tokens=4).tokens
    assert 199 in again.generate("ROMEO:", max_new_tokens=4, bad_words_ids=None).tokens


@pytest.mark.parametrize(
    ("content", "said"), [("[1]", "must hold a JSON object"), ("{", "is not JSON")]
)
def test_a_broken_generation_config_is_named(tmp_path, content, said):
    gf.load("shakespeare").save(tmp_path / "bard")
    (tmp_path / "bard" / "generation_config.json").write_text(content)
    with pytest.raises(GlassformerError, match=rf"generation_config\.json {said}"):
        gf.load(tmp_path / "bard")


def test_a_broken_value_in_generation_config_is_named(tmp_path):
    gf.load("shakespeare").save(tmp_path / "bard")
    path = tmp_path / "bard" / "generation_config.json"
    path.write_text(json.dumps({"num_beams": "four"}))
    with pytest.raises(GlassformerError, match="num_beams must be a whole number, not 'four'"):
        gf.load(tmp_path / "bard").generate("a")


def test_an_old_folder_has_its_knobs_in_its_config(tmp_path):
    sizes = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 60}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    options = {"num_beams": 3, "max_length": 9, "forced_bos_token_id": 7, "no_repeat_ngram_size": 2}
    tokens = {"decoder_start_token_id": 2, "eos_token_id": 2, "bos_token_id": 0}
    gf.create("bart-base", seed=3, encoder_layers=1, decoder_layers=1, **sizes, **heads).save(
        tmp_path / "bart"
    )
    path = tmp_path / "bart" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options, **tokens}))
    theirs = transformers.BartForConditionalGeneration.from_pretrained(tmp_path / "bart")
    wanted = theirs.generate(torch.tensor([[5, 6, 8, 2]]), pad_token_id=1)[0, 1:].tolist()
    found = gf.load(tmp_path / "bart").generate([5, 6, 8, 2])
    assert found.tokens[0] == 7 and found.score is not None
    assert found.tokens == [token for token in wanted if token != 1]
