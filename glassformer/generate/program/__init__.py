"""The decoder step of a model as a program: a list of operations, which back ends execute."""

from glassformer.generate.program.compile import compile_program
from glassformer.generate.program.ops import (
    AttendOp,
    EmbedOp,
    KeyValueShape,
    LinearOp,
    NormOp,
    Operation,
    Rows,
    StepProgram,
    WriteKeysOp,
)

__all__ = [
    "AttendOp",
    "EmbedOp",
    "KeyValueShape",
    "LinearOp",
    "NormOp",
    "Operation",
    "Rows",
    "StepProgram",
    "WriteKeysOp",
    "compile_program",
]
