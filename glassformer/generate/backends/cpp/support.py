"""Which models the C++ back end executes, and why it does not execute the others."""

from __future__ import annotations

from glassformer.core import Transformer
from glassformer.errors import UnsupportedError
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.cpp.structures import FORMS
from glassformer.generate.backends.support import accepts, program_of
from glassformer.generate.program import StepProgram


def supported_program(net: Transformer) -> StepProgram:
    """Returns the step program of a model that the back end executes in its current state.

    Raises:
        UnsupportedError: It does not; the message says why.
    """
    weight = next(net.parameters())
    if weight.device.type != "cpu":
        raise UnsupportedError(f"The model is on {weight.device}, not on the CPU.", field="device")
    program = program_of(net, quantized=True)
    strange = next((w.dtype for w in net.parameters() if w.dtype not in FORMS), None)
    if strange is not None:
        raise UnsupportedError(f"The compiled step has no weights of {strange}.", field="dtype")
    if library() is None:
        raise UnsupportedError("There is no working C++ compiler on this machine.", field="CXX")
    return program


def is_supported(net: Transformer) -> bool:
    """Returns whether the back end executes the model in its current state."""
    return accepts(supported_program, net)
