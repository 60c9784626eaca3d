"""recipes/zoo/stories.py and what follows it, with a small teacher: the vocabulary is cut and
nothing else changes, draws follow from the seed, and the whole way ends in a folder of the zoo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
import transformers

import glassformer as gf
from glassformer.text import Tokenizer
from glassformer.train.recipe import read_recipe
from glassformer.weights.quantization import count_parameters

ROOT = Path(__file__).parent.parent
TALE = """once upon a time there was little girl named Lily who loved to play with her red ball in
park and dog said hello happy friend tree house garden butterfly rainbow"""
WORDS = TALE.split()
SIZES = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256,
         "tie_word_embeddings": True}  # fmt: skip
PIECES, KEPT = 420, 400


def text(number: int) -> str:
    return " ".join(WORDS[(number * i + i) % len(WORDS)] for i in range(1, 9 + number % 7)) + "."


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("stories")


@pytest.fixture(scope="module")
def teacher(place):
    """Its pieces are SentencePiece's own, as Llama's are."""
    corpus = place / "corpus.txt"
    corpus.write_text("".join(text(i) + "\n" for i in range(200)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(place / "tokenizer"), vocab_size=PIECES,
        model_type="bpe", byte_fallback=True, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (place / "config.json").write_text(json.dumps({"model_type": "llama"}))
    tokenizer = Tokenizer.load(place)
    assert tokenizer.size == PIECES
    return gf.create("llama-7b", 3, tokenizer=tokenizer, vocab_size=PIECES, **SIZES)


@pytest.fixture(scope="module")
def stories():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "recipes" / "zoo"))
        import stories

        yield stories


@pytest.fixture(scope="module")
def home(place, teacher, stories):
    """Pieces are worth more the earlier they come, but for every fortieth."""
    home = place / "home"
    worth = torch.arange(PIECES, 0.0, -1)
    worth[::40] = 0
    stories.cut(teacher, home / "teacher", worth, KEPT)
    return home


def test_texts_of_kept_pieces_have_the_same_tokens_and_chances(place, home, teacher):
    small = gf.load(home / "teacher")
    pieces = sentencepiece.SentencePieceProcessor(str(place / "tokenizer.model"))
    kept = small.tokenizer.vocabulary
    assert small.tokenizer.size == KEPT == len(small.decoder.embed.token.weight)
    places = torch.tensor([pieces.piece_to_id(token) for token in sorted(kept, key=kept.get)])
    judged = 0
    for number in range(300):
        said = pieces.encode(text(number), out_type=str)
        mine = small.tokenizer.encode(text(number)).ids
        assert small.tokenizer.decode(mine) == text(number)
        if {*said} <= {*kept}:
            judged += 1
            assert [small.tokenizer.token(i) for i in mine] == ["<s>", *said]
        if judged in range(1, 4):
            theirs = torch.tensor([[pieces.piece_to_id(small.tokenizer.token(i)) for i in mine]])
            with torch.no_grad():
                found, wanted = small(torch.tensor([mine])).logits, teacher(theirs).logits
            assert torch.equal(found, wanted[..., places])
    assert 20 < judged < 280


def test_what_stays_can_be_made(home, stories):
    said = json.loads((home / "teacher" / "tokenizer.json").read_text("utf-8"))["model"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(said["merges"])}
    for piece in list(said["vocab"])[stories.RESERVED :]:
        assert stories.inside(piece, ranks) <= {*said["vocab"]}
        assert piece in stories.inside(piece, ranks)


def test_a_text_ends_with_what_it_begins_with(home):
    for config in (json.loads((home / "teacher" / "config.json").read_text()),
                   Tokenizer.load(home / "teacher").special):  # fmt: skip
        assert {value for key, value in config.items() if key.startswith(("bos", "eos"))} == {1}


def test_tokens_are_drawn_by_their_chances(teacher, stories):
    with torch.no_grad():
        teacher.decoder.embed.token.weight *= 40  # so that they differ
        probs = teacher(torch.tensor([[stories.START]])).logits[0, -1].softmax(-1)
        start = torch.full((20_000, 1), stories.START)
        drawn = stories.written(teacher, start, 2, torch.Generator().manual_seed(0))[:, 1]
        teacher.decoder.embed.token.weight /= 40
    shares = drawn.bincount(minlength=PIECES) / len(drawn)
    error = (probs * (1 - probs) / len(drawn)).sqrt()
    assert probs.max() > 5 * probs.min()
    assert ((shares - probs).abs() <= 5 * error + 1e-4).all()


def test_windows_go_on_from_each_other(teacher, stories, monkeypatch):
    """Greedy, so that what a token follows from can be seen."""
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, generator: self.fill_(1.0))
    first, second = (next(w) for w in [stories.windows(teacher, 2, 0)] * 2)
    assert first.shape == (2, 256) and second.shape == (2, 128)
    with torch.no_grad():
        before = torch.cat((first[:, -128:], second[:, :60]), 1)
        assert torch.equal(teacher(before).logits[:, -1].argmax(-1), second[:, 60])


@pytest.fixture(scope="module")
def sampled(home, stories):
    stories.sample(home, 40_000, 600, 96, 1, "cpu")
    return home


def test_samples_follow_from_the_seed(sampled, stories, place):
    train, valid = np.load(sampled / "train.npy"), np.load(sampled / "valid.npy")
    about = json.loads((sampled / "samples.json").read_text())
    assert train.dtype == np.uint16 and train[0] == stories.START
    assert (train == stories.START).sum() == about["stories"]
    learned = {story.tobytes() for story in np.split(train, np.flatnonzero(train == 1))}
    assert not learned & {
        story.tobytes() for story in np.split(valid, np.flatnonzero(valid == 1))[1:]
    }
    for seed, same in ((1, True), (2, False)):
        other = place / f"again-{seed}"
        other.mkdir()
        (other / "teacher").symlink_to(sampled / "teacher")
        stories.sample(other, 40_000, 600, 96, seed, "cpu")
        assert np.array_equal(np.load(other / "train.npy"), train) is same


def test_stories_are_taken_whole_and_once(stories):
    lane = np.array([1, 5, 6, 1, 7, 1, 1, 8, 9], np.uint16)
    assert [story.tolist() for story in stories.stories_in(lane)] == [[5, 6], [7], []]
    many = [np.array([i % 40 + 2], np.uint16) for i in range(50)] + [np.zeros(0, np.uint16)]
    held_out, learned = stories.apart(many)
    assert [story.tolist() for story in held_out] == [[2], [3], [4], [5]]
    assert [int(story[0]) for story in learned] == list(range(6, 42))
    assert stories.stream_of(held_out[:2]).tolist() == [1, 2, 1, 3]


def recipe(samples: Path, run: Path, *changes: str):
    """The recipe itself, with a smaller model and fewer steps."""
    folder = str(samples / "teacher")
    tiny = [
        f"model.config.{key}={json.dumps(value)}"
        for key, value in SIZES.items()
        if key not in ("num_hidden_layers", "max_position_embeddings")
    ]
    said = [
        *tiny, "model.num_layers=2", f"tokenizer.folder={folder}", f"objective.teacher={folder}",
        f"data.train={samples / 'train.npy'}", f"data.validation={samples / 'valid.npy'}",
        "train.max_steps=6", "train.batch_size=2", "train.warmup_steps=1", "train.compile=false",
        "train.precision=float32", "train.save_steps=2", "run.logging_steps=1", f"run.out={run}",
    ]  # fmt: skip
    return read_recipe(ROOT / "recipes" / "zoo" / "stories.toml", [*said, *changes])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_same_is_learned_compiled(home, place, stories):
    """All of stories.py's way to the last step, as the real one goes it."""
    stories.sample(home, 40_000, 60, 512, 1, "cuda")
    losses = []
    for compiled in ("false", "true"):
        settings = ["train.precision=bfloat16", f"train.compile={compiled}", "train.batch_size=64"]
        run = gf.train(recipe(home, place / f"gpu-{compiled}", *settings), device="cuda")
        losses.append([entry["loss"] for entry in run.entries() if "loss" in entry])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0][-1] < losses[0][0]


def test_from_the_recipe_to_the_zoo(sampled, place):
    import stories_card

    gf.train(recipe(sampled, place / "run"), device="cpu")
    real = place / "real.txt"
    real.write_text("".join(f"{text(i)}\n<|endoftext|>\n" for i in range(4)) + "half a")
    zoo = place / "zoo" / "stories"
    stories_card.take(place / "run", sampled, zoo)
    measured = stories_card.measure(zoo, sampled / "teacher", real, count=6)

    model = gf.load(zoo)
    assert count_parameters(model) == measured["model"]["parameters"]
    assert model.config["dtype"] == "bfloat16"
    again = gf.evaluate(
        gf.load(zoo, dtype=torch.float32), zoo / "eval" / "stories.jsonl", "perplexity"
    )
    assert again["bits_per_byte"] == pytest.approx(
        measured["texts"]["eval/stories.jsonl"]["ours"]["bits_per_byte"], rel=1e-5
    )
    assert measured["texts"]["TinyStories"]["stories"] == 4
    theirs = transformers.LlamaForCausalLM.from_pretrained(zoo, dtype=torch.float32).eval()
    tokens = torch.tensor([transformers.AutoTokenizer.from_pretrained(zoo)(text(5)).input_ids])
    assert tokens[0].tolist() == model.tokenizer.encode(text(5)).ids
    with torch.no_grad():
        found = gf.load(zoo, dtype=torch.float32)(tokens).logits
        assert (theirs(tokens).logits - found).abs().max() <= 1e-5
    card = (zoo / "README.md").read_text("utf-8")
    assert f"{measured['model']['parameters']:,} parameters" in card
    assert stories_card.card(measured) == card
