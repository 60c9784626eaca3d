"""Report on what happened to each tensor during loading."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class LoadReport:
    """What happened to each tensor during loading.

    Attributes:
        files: Names of the files that were read.
        read: Model tensor -> the file tensors it was read from.
        made: Model tensors that were initialized, because that was requested or they are computed.
        tied: Model tensor -> the tensor it shares its storage with.
        dropped: File entries that are not used -> the reason.
        renamed: Names in the file -> the published names.
        unread: Keys of config.json that nothing reads, with their values.
        notes: Sentences about anything the user should check.
        bytes: Total size of the loaded tensors.
        dtypes: The dtypes of the loaded tensors, or the kind of quantization.
        seconds: Loading time.
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
