"""One-hot vectors of token ids.

A token has three representations. *Integer*: its row in the vocabulary, as a tokenizer returns
it. *One-hot*: a vector as long as the vocabulary with a single 1. *Embedded*: a row of a learned
matrix. One multiplication turns the second into the third:
`one_hot(ids, size) @ table == table[ids]`.
"""

import torch
from torch import Tensor

from glassformer.errors import InputError


def one_hot(ids: Tensor | list[int], size: int) -> Tensor:
    """Returns float vectors with a 1 at each id.

    Args:
        ids: The ids, with any number of axes.
        size: The number of different ids.

    Returns:
        The vectors, [..., size].
    """
    ids = torch.as_tensor(ids, dtype=torch.long)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise InputError(
            f"one_hot needs ids from 0 to {size - 1}, got {int(ids.min())} to {int(ids.max())}."
        )
    return torch.nn.functional.one_hot(ids, size).to(torch.get_default_dtype())
