"""Loading of a checkpoint folder into a `Transformer`.

Tensors are loaded one at a time, and none is dropped silently.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.errors import ConfigError, LoadError, UnsupportedError
from glassformer.families import find_family, read, remarks_on
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.parsing import read_json
from glassformer.weights.architecture import find_class, fitting_class, named_class
from glassformer.weights.dtypes import DTYPES, is_float8
from glassformer.weights.formats.consolidated import PARAMS, ConsolidatedFiles
from glassformer.weights.hub_cache import download_hint
from glassformer.weights.initialize import initial_value
from glassformer.weights.load_report import LoadReport
from glassformer.weights.mapping import (
    LoadPlan,
    build_transformer,
    check_copies,
    check_shapes,
    make_load_plan,
    tied_names,
)
from glassformer.weights.quantization import KINDS, QuantizedLinear, quantize
from glassformer.weights.tensor_files import SINGLE, TensorFiles, folder_beside, is_single
from glassformer.weights.unused_tensors import unused_reasons
from glassformer.weights.weight_files import weights_among

CONFIGS = ("config.json", "bert_config.json")  # the second is the name Google used in 2018


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How to load a checkpoint, and which differences between config and files are intended.

    Attributes:
        device: The device to load to.
        dtype: Converts floating-point tensors to this dtype; None keeps the stored dtype.
        architecture: Loads this class instead of the one that config.json names.
        init_missing: Prefixes of published tensor names. Tensors with such names that the files
            lack are initialized randomly.
        ignore_unexpected: Prefixes of published tensor names. Unused tensors with such names are
            ignored.
        seed: The seed for the tensors in `init_missing`.
    """

    device: str | torch.device = "cpu"
    dtype: torch.dtype | None = None
    architecture: str | None = None
    init_missing: tuple[str, ...] = ()
    ignore_unexpected: tuple[str, ...] = ()
    seed: int = 0


@dataclass
class LoadResult:
    """A loaded model, its class name, and the report on its tensors."""

    transformer: Transformer
    architecture: str
    report: LoadReport


def read_config(folder: Path) -> dict[str, Any]:
    """Reads the config of a checkpoint folder, or of a checkpoint in a single file."""
    if is_single(folder):
        return SINGLE[folder.suffix](folder).config
    folder = folder_beside(folder)
    complete_pending_save(folder)
    path = next((p for name in CONFIGS if (p := folder / name).is_file()), None)
    if path is None and (folder / PARAMS).is_file():
        names = weights_among([path.name for path in folder.iterdir()], folder)
        return ConsolidatedFiles(folder, names).config()
    if path is None:
        raise LoadError(
            f"{folder} has no config.json, so it is not a model's folder.{download_hint(folder)}"
        )
    config: dict[str, Any] = read_json(path)
    return config


def load_transformer(folder: Path, config: Mapping[str, Any], request: LoadOptions) -> LoadResult:
    """Loads a model from a checkpoint.

    Args:
        folder: The checkpoint folder, or a checkpoint in a single file.
        config: Its config, as returned by `read_config`.
        request: How to load.

    Returns:
        The model, its class, and the report on every tensor.

    Raises:
        GlassformerError: Config and files differ in a way that `request` does not allow.
    """
    begin = time.perf_counter()
    check_readable(config, request)
    files = TensorFiles(folder)
    if config.get("quantization") is not None:
        return load_quantized(files, config, request)
    architecture = request.architecture or find_class(config, files)
    plan = make_load_plan(config, architecture, files)
    replace_tensors(plan, request)
    check_shapes(plan)
    reasons = unused_reasons(plan)
    check_difference(plan, reasons, request)
    check_dtypes(plan, request)
    check_copies(plan)
    report = make_report(plan.files, config, architecture)
    request = with_one_dtype(plan, request, report)
    fill(plan, request, report)
    report.dropped |= dict.fromkeys(plan.unused(), "asked for") | reasons
    named = named_class(config)
    if request.architecture is None and named not in (None, architecture):
        report.notes.append(f"config.json names the class {named}; the tensors fit {architecture}")
    report.seconds = time.perf_counter() - begin
    return LoadResult(plan.transformer, architecture, report)


def replace_tensors(plan: LoadPlan, request: LoadOptions) -> None:
    """Leaves out what is both to be ignored and to be initialized: the tensors of an old head."""
    if not (request.init_missing and request.ignore_unexpected):
        return
    for source in plan.sources:
        hf = () if source.found is None else source.found.hf
        if hf and all(
            name.startswith(request.init_missing) and name.startswith(request.ignore_unexpected)
            for name in hf
        ):
            source.found, source.copies = None, []


def check_readable(config: Mapping[str, Any], request: LoadOptions) -> None:
    """Rejects weights quantized by other programs, and models that need their own code to run."""
    for key in ("quantization_config", "compression_config", "quantization"):
        local = key == "quantization" and config.get(key) in tuple(KINDS)
        if config.get(key) is not None and not local:
            raise UnsupportedError(
                f"Another program has quantized these weights ({key} in config.json); get the "
                "model's full weights and load them with quantize='int8' or 'int4'.",
                field=key,
            )
    family = find_family(config)
    code = config.get("auto_map") or {}
    if not isinstance(code, dict):
        raise ConfigError(f"config.json has auto_map = {code!r}; it must be an object.")
    names = [str(name) for kind, name in code.items() if kind.startswith("AutoModel")]
    foreign = [name for name in names if name.rpartition(".")[2] not in family.CLASSES]
    if foreign and request.architecture is None:
        raise UnsupportedError(
            f"config.json says that code of its own computes this model (auto_map: {foreign[0]}), "
            f"and that code is not run; if it computes the same as a class of {family.NAME}, give "
            "that as `architecture`.",
            field="auto_map",
        )


def make_report(files: TensorFiles, config: Mapping[str, Any], architecture: str) -> LoadReport:
    """Creates a report with the files and the config keys, but no tensors yet."""
    parsed = read(config, architecture)
    return LoadReport(
        files=tuple(path.name for path in files.paths),
        renamed=files.renamed,
        dropped=dict.fromkeys(files.others, "is not a tensor"),
        unread=dict(parsed.unread),
        notes=remarks_on(config, parsed),
    )


def load_quantized(
    files: TensorFiles, config: Mapping[str, Any], request: LoadOptions
) -> LoadResult:
    """Loads a quantized checkpoint, whose tensors are stored under Glassformer's own names."""
    begin, architecture = time.perf_counter(), named_class(config)
    if architecture is None or request != LoadOptions(device=request.device):
        raise UnsupportedError(
            "Quantized weights are loaded as they were saved; load the model's full weights for "
            "another class, dtype or head."
        )
    model = build_transformer(read(config, architecture).spec)
    quantize(model, config["quantization"])
    state, names = model.state_dict(), [name for name, *_ in tied_names(model)]
    odd = [n for n in names if n not in files or files.shape(n) != tuple(state[n].shape)]
    extra = [name for name in files if name not in names]
    if odd or extra:
        raise LoadError(
            f"By config.json the files lack or should not have {_listed(odd + extra)}.",
            missing=[name for name in odd if name not in files],
            unexpected=extra,
            mismatched=[name for name in odd if name in files],
        )
    report = make_report(files, config, architecture)
    for name in names:
        tensor = files.read(name, mapped=True).to(request.device)
        assign_tensor(model, name, tensor)
        report.read[name] = (name,)
        report.bytes += tensor.nbytes
    tie_weights(model)
    report.dtypes = (config["quantization"],)
    report.seconds = time.perf_counter() - begin
    return LoadResult(model, architecture, report)


def check_difference(plan: LoadPlan, reasons: Mapping[str, str], request: LoadOptions) -> None:
    """Raises an error for missing or unexpected tensors that `request` does not allow.

    Args:
        plan: The load plan.
        reasons: The unused tensors with a known reason, as returned by `unused_reasons`.
        request: Its `init_missing` and `ignore_unexpected` name the differences that are allowed.
    """
    lacking = {
        their: source.name
        for source in plan.missing()
        for their in source.expected.hf
        if not their.startswith(request.init_missing)
    }
    rest = [name for name in plan.unused() if name not in reasons]
    extra = [name for name in rest if not name.startswith(request.ignore_unexpected)]
    if not lacking and not extra:
        return
    said = [f"lacks {_listed(list(lacking))}"] if lacking else []
    if extra:
        said.append(f"has {_listed(extra)}, which this model does not have")
    paths = plan.files.paths
    where = paths[0].name if len(paths) == 1 else f"the folder's {len(paths)} shards"
    by = "its metadata" if plan.files.single else "config.json"
    text = f"By {by} {where} {' and '.join(said)}"
    if not all(local.startswith("heads.") for local in lacking.values()):
        raise LoadError(
            f"{text}; without the whole body there is no model: get the file again, or the "
            "config.json that belongs to it.",
            missing=tuple(lacking),
            unexpected=extra,
        )
    choose = lacking and request.architecture is None
    other = fitting_class(plan.config, plan.files) if choose else None
    if other is not None:
        raise LoadError(
            f"{text}; the tensors are those of {other}: load it with architecture={other!r}.",
            missing=tuple(lacking),
            unexpected=extra,
        )
    ways = {"init_missing": _prefixes(list(lacking)), "ignore_unexpected": _prefixes(extra)}
    options = ", ".join(f"{key}={names!r}" for key, names in ways.items() if names)
    raise LoadError(
        f"{text}; if that is intended, load it with {options}.",
        missing=tuple(lacking),
        unexpected=extra,
    )


def check_dtypes(plan: LoadPlan, request: LoadOptions) -> None:
    """Checks that each tensor has a dtype to compute with, as stored or as requested."""
    local = plan.transformer.state_dict()
    for source in plan.sources:
        for their in () if source.found is None else source.found.hf:
            dtype = plan.files.dtype(their)
            stored = f"{their} is stored as {str(dtype).removeprefix('torch.')}"
            if local[source.name].is_floating_point() and not dtype.is_floating_point:
                raise UnsupportedError(
                    f"{stored}, in codes of which config.json does not say how they are read; get "
                    "the model's full weights."
                )
            if is_float8(dtype) and request.dtype is None:
                raise UnsupportedError(
                    f"{stored}, with which nothing can be computed, and config.json names no "
                    "scales; if the numbers stand for themselves, load them with a dtype, as "
                    "dtype='bfloat16'."
                )


def with_one_dtype(plan: LoadPlan, request: LoadOptions, report: LoadReport) -> LoadOptions:
    """Returns the request with a dtype, if the files hold numbers of several.

    Layers of different dtypes cannot be computed together. As in the reference, config.json names
    the dtype; otherwise it is the widest one.
    """
    used = (name for one in plan.sources if one.found is not None for name in one.found.hf)
    stored = {dtype for dtype in map(plan.files.dtype, used) if dtype.is_floating_point}
    if request.dtype is not None or len(stored) < 2:
        return request
    named = plan.config.get("dtype") or plan.config.get("torch_dtype")
    widest = max(stored, key=lambda dtype: torch.finfo(dtype).bits)
    dtype = DTYPES.get(str(named).removeprefix("torch."), widest)
    several = ", ".join(sorted(str(one).removeprefix("torch.") for one in stored))
    report.notes.append(f"the files hold {several}; all of it is loaded as {str(dtype)[6:]}")
    return replace(request, dtype=dtype)


def fill(plan: LoadPlan, request: LoadOptions, report: LoadReport) -> None:
    """Loads every tensor of the plan into the model and records it in the report.

    Each tensor is read, or left memory-mapped, and converted to the requested dtype and device.
    Newly initialized tensors come last and take the dtype of the tensors that were read.
    """
    casts = request.dtype is not None or torch.device(request.device).type != "cpu"
    dtypes: set[str] = set()
    newest = request.dtype
    for source in sorted(plan.sources, key=lambda source: source.found is None):
        if source.found is None:
            tensor = initial_value(plan.transformer, source.name, request.seed)
            report.made.append(source.name)
        else:
            op = source.found.rule.op
            mapped = not (casts or op.copies)
            tensor = op.read([plan.files.read(their, mapped) for their in source.found.hf])
            report.read[source.name] = source.found.hf
        if tensor.is_floating_point():
            newest = request.dtype or (tensor.dtype if source.found is not None else newest)
            tensor = tensor.to(newest)
        tensor = tensor.to(request.device)
        assign_tensor(plan.transformer, source.name, tensor)
        report.tied |= dict.fromkeys(source.followers, source.name)
        report.bytes += tensor.nbytes
        dtypes.add(str(tensor.dtype).removeprefix("torch."))
    tie_weights(plan.transformer)
    report.dtypes = tuple(sorted(dtypes))


def assign_tensor(model: Transformer, name: str, tensor: Tensor) -> None:
    """Replaces the storage of the parameter or buffer `name`."""
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner)
    if leaf in module._parameters:
        module._parameters[leaf] = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
    else:
        module._buffers[leaf] = tensor


def tie_weights(model: Transformer) -> None:
    """Makes tied parameters the same object, as `model.spec.tied_weights` lists them."""
    for kept, follower in model.spec.tied_weights:
        owner, _, leaf = follower.rpartition(".")
        module = model.get_submodule(owner)
        if not isinstance(module, QuantizedLinear):  # a quantized layer keeps its own codes
            module._parameters[leaf] = model.get_parameter(kept)


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest


def _prefixes(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rpartition(".")[0] or name for name in names))[:8]
