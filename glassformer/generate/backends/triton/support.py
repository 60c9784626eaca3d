"""Which models the Triton back end executes, and why it does not execute the others."""

from __future__ import annotations

import torch

from glassformer.core import Transformer
from glassformer.errors import UnsupportedError
from glassformer.generate.backends.support import accepts, program_of
from glassformer.generate.program import AttendOp, StepProgram

WIDEST_HEAD = 256
DTYPES = torch.float32, torch.bfloat16, torch.float16


def supported_program(net: Transformer) -> StepProgram:
    """Returns the step program of a model that the back end executes in its current state.

    Raises:
        UnsupportedError: It does not; the message says why.
    """
    program = program_of(net, quantized=False)
    strange = next((w.dtype for w in net.parameters() if w.dtype not in DTYPES), None)
    if strange is not None:
        raise UnsupportedError(f"The compiled step has no weights of {strange}.", field="dtype")
    for operation in program.operations:
        if isinstance(operation, AttendOp) and operation.shape.head_dim > WIDEST_HEAD:
            raise UnsupportedError(
                f"The compiled step has no heads of {operation.shape.head_dim} numbers.",
                field="head_dim",
            )
    return program


def is_supported(net: Transformer) -> bool:
    """Returns whether the back end executes the model in its current state."""
    return accepts(supported_program, net)
