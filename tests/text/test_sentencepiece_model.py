"""The reader of `.model` files agrees with the protocol buffer library."""

import random
import shutil
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.loading.sentencepiece_model import SentencePieceModel

FILES = [
    ("xlm-roberta", "sentencepiece.bpe.model"),
    ("t5", "spiece.model"),
    ("llama", "tokenizer.model"),
    ("marian", "source.spm"),
]


@pytest.mark.parametrize(("family", "name"), FILES)
def test_reads_what_protobuf_reads(family: str, name: str, folders: dict[str, Path]) -> None:
    content = (folders[family] / name).read_bytes()
    ours = SentencePieceModel.parse(content)
    theirs = sentencepiece_model_pb2.ModelProto()
    theirs.ParseFromString(content)
    expected = [(piece.piece, piece.score, piece.type) for piece in theirs.pieces]
    assert [(piece.text, piece.score, piece.kind) for piece in ours.pieces] == expected
    assert ours.algorithm == theirs.trainer_spec.model_type
    assert ours.unknown == theirs.trainer_spec.unk_id
    assert ours.charsmap == theirs.normalizer_spec.precompiled_charsmap
    assert ours.dummy_prefix == theirs.normalizer_spec.add_dummy_prefix
    assert ours.collapse_spaces == theirs.normalizer_spec.remove_extra_whitespaces


def test_a_cut_off_file_is_one_clear_sentence(folders: dict[str, Path], tmp_path: Path) -> None:
    content = (folders["t5"] / "spiece.model").read_bytes()
    generator = random.Random(0)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    for length in [0, 1, 5, *(generator.randrange(1000, len(content) // 2) for _ in range(20))]:
        (tmp_path / "spiece.model").write_bytes(content[:length])
        try:
            model = SentencePieceModel.read(tmp_path / "spiece.model")
        except GlassformerError as error:
            assert "spiece.model is not a SentencePiece model, or it is cut off" in str(error)
        else:  # cut exactly between two pieces: still a message, only a shorter one
            assert content.startswith(b"\x0a") and len(model.pieces) > 0


@pytest.mark.parametrize(
    "content", [b"{}", b"IQ== 0\nIg== 1\n", b"\x00" * 64, b"\xff" * 64, b"plain text, no model"]
)
def test_a_foreign_file_is_one_clear_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(GlassformerError, match="is not a SentencePiece model"):
        Tokenizer.load(tmp_path)


def test_byte_pairs_merge_in_the_order_of_their_scores(
    folders: dict[str, Path], texts: list[str], tmp_path: Path
) -> None:
    """Mostly that is the order of the ids, but not in Llama's own file."""
    folder = shutil.copytree(folders["llama"], tmp_path / "llama")
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "tokenizer.model").read_bytes())
    longer = [piece for piece in model.pieces if piece.type == 1 and len(piece.piece) > 1]
    for piece in longer[::3]:
        piece.score -= 1e5
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    theirs = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    ours = Tokenizer.load(folder)
    for text in texts:
        if not text.startswith((" ", "▁")) and "<s>" not in text and "</s>" not in text:
            assert ours.encode(text, special=False).ids == theirs.encode(text), text
