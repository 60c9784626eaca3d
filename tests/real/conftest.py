"""Published checkpoints, as `glassformer fetch` brings them (see `make test-real`)."""

import sys
from pathlib import Path

import pytest
import transformers

from glassformer.zoo.published import PREFIX, where

sys.path.insert(0, str(Path(__file__).parent.parent / "weights"))

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def real():
    """The folder or file of published weights, by their name."""

    def find(name: str) -> Path:
        path = where(name)
        if path is None:
            pytest.skip(f"{PREFIX}{name} is not here; `glassformer fetch {name}` brings it")
        return path

    return find
