"""How pytest-xdist deals tests to its workers: a file, or all tests of a model, at a time.

Fixtures of a module, which train models and start servers, and the models of the family harness are
then made in one worker only.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

CASE = re.compile(r"(?<=[\[-])[A-Z]\w+-\d+(?=[\]-])")  # BertModel-0


class FileOrCaseScheduling(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        case = CASE.search(test)
        return path if case is None else str(PurePosixPath(path).parent / case[0])
