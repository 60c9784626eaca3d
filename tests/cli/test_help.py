"""Help texts and usage errors: unknown words, pipes and narrow terminals."""

from __future__ import annotations

import ast
import os
import pty
import re
import shlex
import subprocess
import sys

import pytest
import typer

from glassformer.cli import app
from glassformer.cli.help_layout import first_sentence, split_help
from glassformer.cli.verbs import GROUPS, declared_verbs
from glassformer.zoo import names

GROUP = typer.main.get_command(app)
NO_TORCH = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise AssertionError("torch is not needed for this")

sys.meta_path.insert(0, Refused())
from glassformer.__main__ import main
main()
"""


def every_verb() -> dict[str, object]:
    found = {}
    for name, verb in GROUP.commands.items():
        found[name] = verb
        inner = getattr(verb, "commands", {})
        found |= {f"{name} {one}": command for one, command in inner.items()}
    return found


EVERY = every_verb()
NO_FILE = ("check", "classify", "embed", "fill", "generate")
NO_FILE += ("inspect", "score", "tag", "translate", "zoo")


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which may not import torch."""
    return subprocess.run(
        [sys.executable, "-c", NO_TORCH, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **env},
    )


@pytest.fixture
def helped(monkeypatch, capsys):
    """Help in this process, at a width."""

    def call(words: str, width: int) -> str:
        from glassformer.cli import main

        monkeypatch.setattr(sys, "argv", ["glassformer", *words.split(), "--help"])
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("verb", ["", *EVERY])
def test_help_fits(helped, verb, width):
    command = EVERY.get(verb, GROUP)
    shown = helped(verb, width)
    examples = [f"  {example}" for example in split_help(command.help)[1]]
    names = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    for line in shown.splitlines():
        if line not in examples and not re.match(r"  -{1,2}\w", line):  # those are never cut
            assert len(line) <= width, line
    assert names - {one.name for one in command.params} <= set(re.findall(r"-[-\w]+", shown))
    assert not re.search(r"[…<]", shown)


@pytest.mark.parametrize("verb", EVERY)
def test_an_example_of_every_verb_is_understood(helped, verb):
    shown = helped(verb, 120)
    examples = [line.strip() for line in shown.splitlines() if line.startswith("  glassformer ")]
    assert examples
    for example in examples:
        program, *words = shlex.split(example)
        assert program == "glassformer" and words[: len(verb.split())] == verb.split()
        command = GROUP
        while hasattr(command, "commands"):  # `vectors TEXT` is `vectors train TEXT`
            name = words.pop(0) if words[0] in command.commands else "train"
            command = command.commands[name]
        command.make_context(None, words)


@pytest.mark.parametrize("verb", NO_FILE)
def test_an_example_without_files_works_as_pasted(glassformer, verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ("--max-new-tokens", "8") if verb == "generate" else ()
    for example in split_help(EVERY[verb].help)[1]:
        code, shown, said = glassformer(*shlex.split(example)[1:], *short)
        assert code == 0 and (shown or list(tmp_path.iterdir())), said


def test_without_arguments_the_verbs_in_groups(glassformer):
    shown = run()
    assert shown.returncode == 2 and not shown.stderr
    assert "One Transformer, made of glass" in shown.stdout
    for verb, declared in declared_verbs().items():
        assert declared.group in GROUPS and f"\n{declared.group}\n" in shown.stdout
        assert len(re.findall(rf"^  {verb} +[A-Z].*\.$", shown.stdout, re.M)) == 1, verb
    assert run("--help").stdout == shown.stdout + "\n" or run("--help").stdout == shown.stdout
    assert glassformer("--version")[1].startswith("glassformer 0.")
    assert glassformer("-V") == glassformer("--version")


@pytest.mark.parametrize("verb", declared_verbs())
def test_what_the_source_declares_is_what_the_command_says(verb):
    declared = declared_verbs()[verb]
    assert declared.summary == first_sentence(GROUP.commands[verb].help)
    assert declared.group == GROUP.commands[verb].rich_help_panel


@pytest.mark.parametrize(("words", "needed"), [(["--help"], set()), (["zoo"], {"zoo"})])
def test_only_the_verb_that_runs_is_imported(words, needed):
    code = (
        "import sys; from glassformer.cli import ended; from glassformer.cli.verbs import *\n"
        f"sys.argv[1:] = {words}; ended()\n"
        "modules = {verb.module for verb in declared_verbs().values()}\n"
        "print([one for one in modules if f'glassformer.cli.{one}' in sys.modules])\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, imported, torch = found.stdout.splitlines()
    assert {*ast.literal_eval(imported)} == needed and torch == "False"


@pytest.mark.parametrize("verb", ["", "zoo", "vectors train"])
def test_help_is_a_verb_too(helped, glassformer, verb):
    assert glassformer("help", *verb.split())[1] == helped(verb, 120)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trian recipe.toml", "There is no verb 'trian'; did you mean train?"),
        ("xyz", "There is no verb 'xyz'; glassformer --help lists them."),
        (
            "generate zoo:shakespeare --max-tokens 3",
            "There is no option --max-tokens; did you mean --max-new-tokens?",
        ),
        ("train classify a.csv --lr 1", "There is no option --lr; did you mean --learning-rate?"),
        (
            "train classify a.csv --num_train_epochs 1",
            "There is no option --num_train_epochs; did you mean --epochs?",
        ),
        ("train classify a.csv --xora 1", "There is no option --xora; did you mean --lora?"),
        ("inspect gpt2 -q", "There is no option -q; glassformer inspect --help says more."),
        ("inspect", "Missing argument MODEL; glassformer inspect --help says more."),
        ("inspect a b", "Got unexpected extra argument (b); glassformer inspect --help says more."),
        (
            "summarize m t --long cutt",
            "Invalid value for '--long': 'cutt' is not one of 'cut', 'split'; "
            "glassformer summarize --help says more.",
        ),
        (
            "open --port x",
            "Invalid value for '--port': it must be a valid integer; "
            "glassformer open --help says more.",
        ),
        ("vectors nearest", "Missing argument FILE; glassformer vectors nearest --help says more."),
    ],
)
def test_a_mistake_is_one_sentence(glassformer, words, said):
    assert glassformer(*words.split()) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("glassformer tra", ["translate", "transcribe", "train"]),
        ("glassformer generate --max", ["--max-new-tokens", "--max-time"]),
        ("glassformer summarize m --long ", ["cut", "split"]),
        ("glassformer generate sh", ["shakespeare"]),
        ("glassformer generate zoo:sh", ["zoo:shakespeare"]),
        ("glassformer generate real:mi", ["real:minilm", "real:microformer"]),
        ("glassformer fetch rx", ["rxnfp"]),
        ("glassformer generate zoo : sh", ["shakespeare"]),  # as bash takes words apart
        ("glassformer generate zoo :", names()),
        ("glassformer generate real : mi", ["minilm", "microformer"]),
        ("glassformer generate zoo : shakespeare --max", ["--max-new-tokens", "--max-time"]),
        ("glassformer zoo x", []),
    ],
)
def test_completion_without_torch(line, wanted):
    words = line.split(" ")
    shell = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    shown = run(_GLASSFORMER_COMPLETE="complete_bash", **shell)
    assert (shown.stdout.split(), shown.stderr) == (wanted, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells(shell):
    env = {"_TYPER_COMPLETE_ARGS": "glassformer tra", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    shown = run(_GLASSFORMER_COMPLETE=f"complete_{shell}", **env).stdout
    assert "translate" in shown and "Train a model on a file" in shown
    source = run(_GLASSFORMER_COMPLETE=f"source_{shell}").stdout
    assert "_GLASSFORMER_COMPLETE=complete_" + shell in source


@pytest.mark.parametrize("words", ["zoo --json", "--version"])
@pytest.mark.parametrize(
    ("redirected", "said"),
    [
        ("| true", "was closed before everything was written"),
        ("> /dev/full", "cannot be written: No space left on device; the results are incomplete"),
        (">&-", "cannot be written: Bad file descriptor; the results are incomplete"),
        ("> /dev/full 2>&1", None),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(words, redirected, said):
    """To the end of the process, when Python writes what is buffered."""
    command = f"{sys.executable} -m glassformer {words} {redirected}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == ("" if said is None else f"error: Standard output {said}.\n")


def in_terminal(*words: str, **env: str) -> str:
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-c", NO_TORCH, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm-256color", **env},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # its end, on Linux
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    process.wait()
    return shown.decode()


def test_colors_where_they_are_wanted():
    color = re.compile(r"\x1b\[(\d+;)*3[0-7]m")
    assert color.search(in_terminal("--help"))
    assert not color.search(in_terminal("--help", NO_COLOR="1"))
    assert "\x1b" not in in_terminal("--help", TERM="dumb")
    assert "\x1b" not in run("--help", NO_COLOR="").stdout
    assert color.search(in_terminal("trian")) and not color.search(
        in_terminal("trian", NO_COLOR="1")
    )


def test_the_tasks_of_evaluate_are_all_named():
    from glassformer.evaluate.evaluate import TASKS

    (task,) = (one for one in EVERY["evaluate"].params if one.name == "task")
    assert task.help.partition(";")[0].split(", ") == list(TASKS)
