"""The command line: inspect, check, unknown words; colors and exit codes in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import glassformer as gf


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glassformer", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120", **env},
    )


@pytest.mark.parametrize(
    ("preset", "count"),
    [("gpt2", 124_439_808), ("bert-base", 109_482_240), ("gpt2-xl", 1_557_611_200)],
)
def test_inspect_adds_up(glassformer, preset, count):
    code, shown, _ = glassformer("inspect", preset)
    assert code == 0
    assert f"{count:,} parameters" in shown
    large = f"{4 * count / 1e9:.2f} GB" if count > 250e6 else f"{4 * count / 1e6:.1f} MB"
    assert f"parameters: {large} in float32, " in shown
    listed = json.loads(glassformer("inspect", preset, "--json")[1])
    assert listed["bytes"] == {"float32": 4 * count, "bfloat16": 2 * count}
    assert listed["parameters"] == count
    assert sum(tensor["count"] for tensor in listed["tensors"]) == count


def test_inspect_needs_no_weights(glassformer, tmp_path):
    gf.create("t5-small", d_model=16, d_ff=32, d_kv=8, num_heads=2, num_layers=2).save(
        tmp_path / "t5"
    )
    (tmp_path / "t5" / "model.safetensors").unlink()
    code, shown, _ = glassformer("inspect", str(tmp_path / "t5"), "--full")
    assert code == 0 and "buckets positions" in shown
    assert "= encoder.embed.token.weight" in shown


def test_every_preset_can_be_described():
    from glassformer.families import families
    from glassformer.loading import describe

    for family in families().values():
        for preset in family.PRESETS:
            assert describe(preset)[1] in family.CLASSES, preset


def test_check_proves_the_built_in_model(glassformer):
    code, shown, _ = glassformer("check", "shakespeare", "--json")
    result = json.loads(shown)
    assert code == 0 and result["equal"] and result["same_tokens"]
    assert result["logits"] <= 1e-5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("open", "nowhere"), "no folder nowhere; the zoo has: encoder, letters"),
        (("inspect", "gtp2"), "no preset 'gtp2'"),
        (("check", "gpt2"), "no folder gpt2"),
    ],
)
def test_bad_words_get_one_sentence(glassformer, words, said):
    code, _, error = glassformer(*words)
    assert code == 1
    assert error.startswith("error: ") and said in error


def test_the_exit_code_of_a_process():
    shown = run("inspect", "gtp2")
    assert shown.returncode == 1 and shown.stderr.startswith("error: ")
    assert "Traceback" not in shown.stderr


def test_version_and_help():
    assert run("--version").stdout == f"glassformer {gf.__version__}\n"
    shown = run("--help").stdout
    for verb in ("inspect", "check", "open"):
        assert verb in shown


def test_no_color_means_no_escape_codes():
    assert "\x1b" not in run("inspect", "gpt2", NO_COLOR="1", FORCE_COLOR="").stdout
