"""Published checkpoints, where tools/real_weights.py puts them (see `make test-real`)."""

from pathlib import Path

import pytest
import transformers

PLACE = Path(__file__).parent.parent.parent / "build" / "real"
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


@pytest.fixture(scope="session")
def real():
    """The folder of a package's checkpoint, by the package's name."""

    def find(package: str) -> Path:
        folder = PLACE / package
        if not folder.is_dir():
            pytest.skip(f"{package} is not there; fetch it with: python tools/real_weights.py")
        return folder

    return find
