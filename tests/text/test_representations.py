import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.text import one_hot


def test_one_hot_times_a_table_is_the_embedding() -> None:
    table = torch.randn(7, 3)
    ids = torch.tensor([[1, 6], [0, 3]])
    assert one_hot(ids, 7).shape == (2, 2, 7)
    assert torch.equal(one_hot(ids, 7) @ table, table[ids])
    assert one_hot([], 7).shape == (0, 7)


@pytest.mark.parametrize("ids", [[7], [-1]])
def test_ids_outside_the_vocabulary(ids: list[int]) -> None:
    with pytest.raises(GlassformerError, match="needs ids from 0 to 6"):
        one_hot(ids, 7)
