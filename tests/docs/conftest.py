"""Makes what lies beside the tests, and in tools/, importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
