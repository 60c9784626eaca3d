"""Machines without AVX-512, VNNI, AVX2 or a compiler compute what this one does.

The variables are read when torch is imported, so every kind is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from glassformer.generate.backends.cpp.build import library

PROGRAM = Path(__file__).with_name("machine.py")
OLDER = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "GLASSFORMER_CPU": "avx2"}
OLDEST = {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"} | {
    "GLASSFORMER_CPU": "baseline"
}
MACHINES = {
    "without AVX-512": OLDER,
    "without AVX-512 and a compiler": {**OLDER, "CXX": "none"},
    "without AVX2": OLDEST,
    "without AVX2 and a compiler": {**OLDEST, "CXX": "none"},
}
ABOUT = {"avx2": ("AVX2", "x86-64-v3"), "baseline": ("DEFAULT", "x86-64")}

pytestmark = pytest.mark.skipif(
    not torch.cpu._is_avx2_supported(), reason="this machine is no newer than the others"
)


def results(path: Path, **variables: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """What was computed, and with what."""
    command = [sys.executable, str(PROGRAM), str(path)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return results(tmp_path_factory.mktemp("here") / "results.safetensors")[0]


@pytest.mark.parametrize("variables", MACHINES.values(), ids=MACHINES)
def test_an_older_machine_computes_the_same(variables, here, tmp_path):
    found, about = results(tmp_path / "results.safetensors", **variables)
    compiles = "CXX" not in variables and library() is not None
    capability, march = ABOUT[variables["GLASSFORMER_CPU"]]
    assert about == {
        "torch": capability,
        "oneDNN": "(torch.float32,)",
        "march": march,
        "compiler": str(compiles),
    }
    kept = {name for name in here if compiles or not name.startswith("step")}
    assert found.keys() == kept
    for name in kept:
        what, kind = name.split()
        if kind in ("bfloat16", "float16"):  # their products are rounded after other sums
            near = 0.03
        elif kind == "float32" or what == "layer":  # sums of codes are exact; scales are float32
            near = 1e-5
        else:  # what a layer reads may lie at the border between two codes
            near = 0.005
        off = (found[name] - here[name]).abs().max()
        assert off <= near * here[name].abs().max(), name
