"""Reads llama2.c's tokenizer.bin into the tokenizer metadata of a GGUF file.

    the longest token's length, then for every token: score, length, bytes

The tokens are SentencePiece's pieces with spaces in place of its space mark, in the order of its
BPE models: unknown, start, end, then the 256 bytes, which older files write as characters.
"""

import struct
from pathlib import Path
from typing import Any

from glassformer.errors import LoadError
from glassformer.text.loading.files import read_bytes
from glassformer.text.loading.gguf import PREFIX
from glassformer.text.loading.sentencepiece_model import SPACE, PieceType

FIRST = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
KINDS = [PieceType.UNKNOWN, PieceType.CONTROL, PieceType.CONTROL, *[PieceType.BYTE] * 256]


def is_llama2c(path: Path) -> bool:
    return path.suffix == ".bin" and path.is_file()


def metadata_beside(model: Path) -> dict[str, Any]:
    """Returns the metadata of the tokenizer.bin in the model's folder, or {} if there is none."""
    path = model.with_name("tokenizer.bin")
    if not path.is_file() or path == model:
        return {}
    tokens, scores = read_tokens(path)
    said = {
        "model": "llama",
        "tokens": [*FIRST, *(token.replace(" ", SPACE) for token in tokens[len(FIRST) :])],
        "scores": scores,
        "token_type": KINDS + [PieceType.NORMAL] * (len(tokens) - len(KINDS)),
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {"general.architecture": "llama", **{PREFIX + key: said[key] for key in said}}


def read_tokens(path: Path) -> tuple[list[str], list[float]]:
    """Returns the tokens and their scores."""
    data, at = read_bytes(path), 4
    tokens, scores = [], []
    try:
        while at < len(data):
            score, length = struct.unpack_from("<fi", data, at)
            at += 8 + length
            if length < 0 or at > len(data):
                raise struct.error
            tokens.append(data[at - length : at].decode("utf-8"))
            scores.append(score)
    except (struct.error, UnicodeDecodeError):
        raise LoadError(
            f"{path} is not a complete tokenizer of llama2.c: it ends in token {len(tokens):,}; "
            "get it again."
        ) from None
    if len(tokens) < len(FIRST):
        raise LoadError(f"{path} has {len(tokens)} tokens, fewer than there are byte values.")
    return tokens, scores
