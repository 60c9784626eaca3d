"""What happened to every tensor when a model was loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class LoadReport:
    """`read`: our tensor from these of the file. `made`: fresh, because it was asked for or is
    computed. `tied`: one with another. `dropped`: entries of the file that are not used, and why.
    `renamed`: names in the file -> the published names. `unread`: keys of config.json that nothing
    reads, with their values; `notes` are sentences on what deserves a look.
    """

    files: tuple[str, ...] = ()
    read: dict[str, tuple[str, ...]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    tied: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    unread: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bytes: int = 0
    dtypes: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = [f"{len(self.read)} tensors read from {', '.join(self.files) or 'no file'}"]
        for name in ("made", "tied", "dropped", "renamed"):
            group = list(getattr(self, name))
            if group:
                parts.append(f"{len(group)} {name} ({_some(group)})")
        if self.unread:
            parts.append(f"keys of config.json that nothing reads: {', '.join(self.unread)}")
        parts += self.notes
        size = f"{self.bytes / 1e6:,.1f} MB of {', '.join(self.dtypes)}"
        return f"{'; '.join(parts)}; {size} in {self.seconds:.2f} s"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
