"""glassformer generate: streams, pipes, files, interactive mode, batches and errors."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest

import glassformer as gf

PROMPT = "ROMEO:\n"
SHORT = ("--max-new-tokens", "8")


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


@pytest.fixture
def typed(monkeypatch):
    """What a pipe brings."""
    return lambda text: monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    )


def test_a_prompt_is_gone_on_with(glassformer, bard):
    wanted = bard.generate(PROMPT, max_new_tokens=8).text
    assert glassformer("generate", "shakespeare", PROMPT, *SHORT) == (0, wanted + "\n", "")


def test_a_prompt_from_a_pipe_or_a_file(glassformer, bard, typed, tmp_path):
    wanted = (0, bard.generate(PROMPT, max_new_tokens=8).text + "\n", "")
    typed(PROMPT + "\n")  # the last new line is the pipe's
    assert glassformer("generate", "shakespeare", "-", *SHORT) == wanted
    typed(PROMPT + "\n")
    assert glassformer("generate", "shakespeare", *SHORT) == wanted
    (tmp_path / "prompt.txt").write_text(PROMPT + "\n")
    file = str(tmp_path / "prompt.txt")
    assert glassformer("generate", "shakespeare", "--file", file, *SHORT) == wanted


def test_without_a_prompt_from_the_start_token(glassformer, bard):
    wanted = bard.generate(max_new_tokens=8).text
    assert glassformer("generate", "shakespeare", "--from-start", *SHORT)[1] == wanted + "\n"


def test_knobs_are_turned(glassformer, bard):
    words = ("--do-sample", "--temperature", "0.9", "--top-k", "30", "--top-p", "0.95")
    more = ("--seed", "7", "--repetition-penalty", "1.2", "--stop", ",", "--stop", ".")
    rest = ("--set", "min-p=0.01", "--set", "bad_words_ids=[[41]]", "--set", "typical_p=0.99")
    wanted = bard.generate(
        PROMPT,
        do_sample=True,
        temperature=0.9,
        top_k=30,
        top_p=0.95,
        seed=7,
        repetition_penalty=1.2,
        stop_strings=[",", "."],
        min_p=0.01,
        bad_words_ids=[[41]],
        typical_p=0.99,
    )
    assert glassformer("generate", "shakespeare", PROMPT, *words, *more, *rest)[1] == (
        wanted.text + "\n"
    )


def test_a_temperature_alone_samples(glassformer, bard):
    wanted = bard.generate(PROMPT, do_sample=True, temperature=0.8, max_new_tokens=8)
    greedy = bard.generate(PROMPT, max_new_tokens=8)
    words = ("generate", "shakespeare", PROMPT, *SHORT, "--temperature")
    assert glassformer(*words, "0.8") == (0, wanted.text + "\n", "")
    assert glassformer(*words, "0") == (0, greedy.text + "\n", "")
    assert wanted.text != greedy.text


def test_a_prompt_beyond_the_context_of_rotary_positions(glassformer):
    prompt = "Once upon a time there was a little cat. " * 40  # stories has 256 positions
    code, shown, error = glassformer("generate", "stories", prompt, *SHORT)
    assert (code, shown) == (1, "") and "more than the model's 256 positions" in error
    code, shown, error = glassformer("generate", "stories", prompt, *SHORT, "--truncate", "left")
    stories = gf.load("stories")
    kept = stories.tokenizer.encode(prompt).ids[-248:]
    assert (code, error) == (0, "")
    assert shown == stories.generate(kept, max_new_tokens=8).text + "\n"


def test_several_texts_are_numbered(glassformer, bard):
    beams = ("--num-beams", "3", "--num-return-sequences", "2")
    result = bard.generate(PROMPT, num_beams=3, num_return_sequences=2, max_new_tokens=8)
    shown = glassformer("generate", "shakespeare", PROMPT, *beams, *SHORT)[1]
    assert shown == f"[1] {result.text}\n[2] {result.alternatives[0].text}\n"


def test_json_has_it_all(glassformer, bard):
    beams = ("--num-beams", "3", "--num-return-sequences", "2", "--tree", "--json")
    code, shown, _ = glassformer("generate", "shakespeare", PROMPT, *beams, *SHORT)
    options = {"num_beams": 3, "num_return_sequences": 2, "tree": True, "max_new_tokens": 8}
    assert code == 0
    assert json.loads(shown) == json.loads(json.dumps(bard.generate(PROMPT, **options).record()))


def test_an_assistant_and_a_dtype_leave_the_text_alone(glassformer, bard):
    wanted = bard.generate(PROMPT, max_new_tokens=8).text + "\n"
    more = ("--assistant", "shakespeare", "--dtype", "float32", "--device", "cpu")
    assert glassformer("generate", "shakespeare", PROMPT, *SHORT, *more)[1] == wanted


def test_quantized(glassformer, tmp_path):
    wanted = gf.load("shakespeare", quantize="int8").generate(PROMPT, max_new_tokens=8).text
    words = ("generate", "shakespeare", "--quantize", "int8", *SHORT)
    assert glassformer(*words, PROMPT) == (0, f"{wanted}\n", "")
    (tmp_path / "in").write_text(json.dumps(PROMPT))
    files = ("--batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert glassformer(*words, *files)[0] == 0
    assert json.loads((tmp_path / "out").read_text())["text"] == wanted
    code, _, error = glassformer("generate", "shakespeare", *SHORT, *files)
    assert code == 1 and "not a result of this input" in error


def test_a_model_without_a_tokenizer_shows_ids(glassformer, tmp_path):
    tiny = gf.create("gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=50, bos_token_id=1)
    tiny.save(tmp_path / "tiny")
    tokens = tiny.generate(max_new_tokens=3).tokens
    words = ("generate", str(tmp_path / "tiny"), "--from-start", "--max-new-tokens", "3")
    assert glassformer(*words)[1].split() == [str(token) for token in tokens]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hi", "--set", "temprature=1"), "no option 'temprature'; did you mean temperature?"),
        (("hi", "--set", "temperature"), "set by name=value, not by 'temperature'"),
        (
            ("hi", "--temperature", "0.5", "--no-sample"),
            "temperature only shapes sampling; set do_sample",
        ),
        (("hi", "--top-p", "2", "--do-sample"), "top_p must be above 0 and at most 1, not 2.0"),
        (("hi", "--set", "eos_token_id=[1,"), "eos_token_id must be a token id or a list"),
        (("hi", "--set", "prefix_allowed_tokens_fn=f"), "must be a function"),
        (("hi", "--num-return-sequences", "2"), "Greedy search has one result, not 2"),
        (("hi", "--num-beams", "2", "--tree"), "--tree needs --json"),
        (("hi", "--regex", "(["), "is no regular expression"),
        (("",), "The prompt is empty; --from-start generates without one."),
        (("x " * 300,), "more than the model's 256 positions leave room for"),
        (("hi", "--from-start"), "Give one of PROMPT, --file, --from-start and --batch."),
        (("--file", "/nowhere/prompt"), "/nowhere/prompt cannot be read: No such file"),
        (("hi", "--device", "tpu9"), "There is no device 'tpu9' here"),
        (("hi", "--dtype", "int3"), "There is no dtype 'int3'"),
        (("hi", "--quantize", "int3"), "There is no quantization 'int3'; choose one of int8, int4"),
        (("hi", "--assistant", "nobody"), "There is no folder nobody"),
        (("--batch", "/nowhere/in"), "--batch names the input and --out the output"),
        (("--batch", "/nowhere/in", "--out", "out"), "/nowhere/in cannot be read"),
    ],
)
def test_bad_words_get_one_sentence(glassformer, words, said):
    code, shown, error = glassformer("generate", "shakespeare", *words)
    assert (code, shown) == (1, "")
    assert error.startswith("error: ") and said in error and error.count("\n") == 1


def test_a_model_that_cannot_write(glassformer, tmp_path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    gf.create("bert-base", **sizes, intermediate_size=16, vocab_size=50).save(tmp_path / "bert")
    code, _, error = glassformer("generate", str(tmp_path / "bert"), "hi")
    assert code == 1 and "This model cannot write: it needs a decoder" in error


# --- batches -----------------------------------------------------------------------------------


def test_a_batch(glassformer, bard, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('"ROMEO:\\n"\n{"prompt": "KING:\\n", "id": 7, "max_new_tokens": 5}\n')
    words = ("--batch", str(source), "--out", str(target), *SHORT)
    code, shown, error = glassformer("generate", "shakespeare", *words)
    assert (code, shown) == (0, "") and "2/2" in error and "tokens/s" in error
    first, second = map(json.loads, target.read_text().splitlines())
    assert first["text"] == bard.generate(PROMPT, max_new_tokens=8).text
    assert (second["id"], second["text"]) == (7, bard.generate("KING:\n", max_new_tokens=5).text)
    again = glassformer("generate", "shakespeare", *words, "--seed", "3")
    assert again[0] == 1 and "this is not a result of this input" in again[2]


def test_ctrl_c_in_a_batch_keeps_what_is_whole_and_the_same_command_goes_on(glassformer, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(f'"SPEAKER {i}:\\n"\n' for i in range(40)))
    words = ["generate", "shakespeare", "--batch", str(source), "--out", str(target)]
    words += ["--max-new-tokens", "60", "--set", "batch_size=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", *words], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (target.exists() and b"\n" in target.read_bytes()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    error = process.communicate()[1]
    kept = target.read_bytes()
    count = kept.count(b"\n")
    assert process.returncode == 130 and 0 < count < 40
    assert f"interrupted; {count} of 40 results are in" in error and "Traceback" not in error
    assert glassformer(*words)[0] == 0
    whole = target.read_bytes()
    assert whole.startswith(kept[: kept.rfind(b"\n") + 1]) and whole.count(b"\n") == 40


def test_ctrl_c_in_a_text(monkeypatch, glassformer):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.generate.stops.StoppingCriteria.of", press)
    code, _, error = glassformer("generate", "shakespeare", PROMPT)
    assert (code, error) == (130, "\ninterrupted before the text was complete.\n")


# --- the dialog --------------------------------------------------------------------------------


def test_a_dialog_in_a_terminal(bard, tmp_path):
    import pty

    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "glassformer", "generate", "shakespeare", *SHORT]
    plain = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=plain)
    lines = [
        "ROMEO:\\n\n",
        "/set temprature=3\n",
        "+\\nJULIET:\\n\n",
        "/set num_beams=2\n",
        "KING:\\n\n",
        "/reset\n",
        "/jump\n",
        "[bold]\n",
        "\x04",
    ]
    shown = b""
    while process.poll() is None or select.select([outer], [], [], 0)[0]:
        if select.select([outer], [], [], 0.1)[0]:
            shown += os.read(outer, 65536)
        if lines and shown.endswith(b"> "):  # it waits
            os.write(outer, lines.pop(0).encode())
            shown += b"\n"
    os.close(inner)
    os.close(outer)
    text = shown.decode().replace("\r\n", "\n")
    assert process.returncode == 0 and "Traceback" not in text
    assert bard.generate(PROMPT, max_new_tokens=8).text in text
    said = PROMPT + bard.generate(PROMPT, max_new_tokens=8).text + "\nJULIET:\n"
    assert bard.generate(said, max_new_tokens=8).text in text  # of all that was said
    assert bard.generate("KING:\n", max_new_tokens=8, num_beams=2).text in text
    for said in ("did you mean temperature", "max_new_tokens=8, num_beams=2", "There is no /jump"):
        assert said in text
    remembered = (tmp_path / "glassformer" / "history").read_text()
    assert "KING:\\n" in remembered and "/set num_beams=2" in remembered
