"""Room 5, weights: a folder becomes a net, tensor by tensor, and nothing is dropped in silence."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import Net, first_values
from glassformer.core.linear import Linear
from glassformer.errors import GlassformerError
from glassformer.families import Family, classes_of, find_family, translate
from glassformer.families.rules import Match, Rule, match
from glassformer.spec import ModelSpec
from glassformer.weights.files import TensorFiles
from glassformer.weights.report import Report


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to load, and which differences between config and file are intended.

    `architecture`: another class than the config names. `make`: tensors, by the beginning of
    their published names, that the file lacks and that start fresh, drawn from `seed`. `drop`:
    tensors of the file to leave out.
    """

    device: str | torch.device = "cpu"
    dtype: torch.dtype | None = None
    architecture: str | None = None
    make: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    seed: int = 0


@dataclass
class Loaded:
    net: Net
    architecture: str
    report: Report


@dataclass
class Plan:
    """Where one of our tensors comes from: the file's names, or nothing, and it is made."""

    name: str
    followers: list[str]
    found: Match | None
    copies: list[Match]  # other places where the file holds the same tensor


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not folder.is_dir():
        raise GlassformerError(f"There is no folder {folder}; give one with a config.json in it.")
    if not path.is_file():
        raise GlassformerError(f"{folder} has no config.json, so it is not a model's folder.")
    try:
        config = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise GlassformerError(f"{path} is not JSON ({error}); get it again.") from None
    if not isinstance(config, dict):
        raise GlassformerError(f"{path} is not a JSON object; get it again.")
    return config


def load_net(folder: Path, config: Mapping[str, Any], request: Request) -> Loaded:
    begin = time.perf_counter()
    family = find_family(config)
    files = TensorFiles(folder)
    architecture = request.architecture or named_class(config) or fitting_class(config, files)
    if architecture is None:
        raise GlassformerError(
            f"config.json names no class and the tensors fit none of {', '.join(family.CLASSES)}; "
            "give one as `architecture`."
        )
    spec = translate(config, architecture)
    net = make_net(spec)
    base = find_base(family, architecture, net, files)
    plans = list(make_plans(net, family, files, base))
    loose = loosened(plans, net.spec, files)
    if loose:
        spec = replace(spec, tie=tuple(pair for pair in spec.tie if pair[1] not in loose))
        net = make_net(spec)
        plans = list(make_plans(net, family, files, base))
    report = Report(files=tuple(path.name for path in files.paths))
    check(config, family, plans, files, net, base, request, report)
    fill(net, plans, files, request, report)
    report.seconds = time.perf_counter() - begin
    return Loaded(net, architecture, report)


def make_net(spec: ModelSpec) -> Net:
    """Without storage: the tensors are put in one by one."""
    with torch.device("meta"):
        return Net(spec).eval()


def named_class(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names else None


def fitting_class(config: Mapping[str, Any], files: TensorFiles) -> str | None:
    """The class whose tensors are exactly those of the file."""
    family = find_family(config)
    for architecture in classes_of(family, config["model_type"]):
        net = make_net(translate(config, architecture))
        base = find_base(family, architecture, net, files)
        plans = list(make_plans(net, family, files, base))
        whole = all(p.found is not None or _rule_of(p, net, family).optional for p in plans)
        if whole and not left_over(family, plans, files, base):
            return architecture
    return None


def find_base(family: Family, architecture: str, net: Net, files: TensorFiles) -> str:
    """A body may stand in the file under another prefix than its class writes."""
    own = family.CLASSES[architecture]
    name = next(iter(net.state_dict()))
    for base in dict.fromkeys((own, *family.CLASSES.values(), "")):
        found = match(family.rules(net.spec), name, base)
        assert found is not None
        if any(their in files for their in (*found.theirs, *found.also)):
            return base
    return own


def make_plans(net: Net, family: Family, files: TensorFiles, base: str) -> Iterator[Plan]:
    rules = family.rules(net.spec)
    for names in tied_names(net):
        matches = [_matched(rules, name, base) for name in names]
        places = [
            option
            for found in matches
            for option in (found, *(replace(found, theirs=(also,)) for also in found.also))
        ]
        present = [place for place in places if all(their in files for their in place.theirs)]
        distinct = list({place.theirs: place for place in present}.values())
        yield Plan(names[0], names[1:], distinct[0] if distinct else None, distinct[1:])


def tied_names(net: Net) -> list[list[str]]:
    """Our tensors, each with all the names it has, the one that is kept first."""
    kept = {name for name, _ in net.spec.tie}
    groups: dict[int, list[str]] = {}
    for name, tensor in net.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), []).append(name)
    return [sorted(names, key=lambda name: name not in kept) for names in groups.values()]


def loosened(plans: list[Plan], spec: ModelSpec, files: TensorFiles) -> set[str]:
    """Followers that a family lets go, and for which the file has values of their own."""
    return {
        follower
        for plan in plans
        for follower in plan.followers
        if follower in spec.loose and any(not _equal(plan, copy, files) for copy in plan.copies)
    }


def left_over(family: Family, plans: list[Plan], files: TensorFiles, base: str) -> list[str]:
    used = {their for p in plans for m in (p.found, *p.copies) if m is not None for their in m.theirs}
    known = [_name_pattern(name.replace("{base}", base)) for name in family.DROPPED]
    return [
        name for name in files if name not in used and not any(k.fullmatch(name) for k in known)
    ]


def check(
    config: Mapping[str, Any],
    family: Family,
    plans: list[Plan],
    files: TensorFiles,
    net: Net,
    base: str,
    request: Request,
    report: Report,
) -> None:
    """Every difference between the config and the file that was not asked for is an error."""
    missing: list[str] = []
    for plan in plans:
        if plan.found is None:
            expected = _matched(family.rules(net.spec), plan.name, base)
            if not expected.rule.optional and not _begins(expected.theirs, request.make):
                missing += expected.theirs
            report.made.append(plan.name)
            continue
        tensor, parts = _tensor_and_parts(net, plan.name)
        for place in (plan.found, *plan.copies):
            shapes = place.rule.op.shapes(tuple(tensor.shape), parts)
            for their, shape in zip(place.theirs, shapes, strict=True):
                if files.shape(their) != shape:
                    raise GlassformerError(
                        f"{their} has the shape {list(files.shape(their))} in the file and "
                        f"{list(shape)} by config.json; one of the two is not this model's."
                    )
        for copy in plan.copies:
            if not _equal(plan, copy, files):
                raise GlassformerError(
                    f"{plan.found.theirs[0]} and {copy.theirs[0]} differ in the file, and by "
                    "config.json they are one; set tie_word_embeddings to false if they are not."
                )
    extra = [name for name in left_over(family, plans, files, base) if not _begins((name,), request.drop)]
    if missing or extra:
        raise GlassformerError(_difference(config, files, missing, extra))
    used = {their for plan in plans if plan.found for their in plan.found.theirs}
    for name in files:
        if name not in used:
            report.dropped[name] = _reason(family, name, base, request)


def fill(net: Net, plans: list[Plan], files: TensorFiles, request: Request, report: Report) -> None:
    dtypes: set[str] = set()
    for plan in plans:
        if plan.found is None:
            tensor = first_values(net, plan.name, request.seed)
        else:
            casts = request.dtype is not None or torch.device(request.device).type != "cpu"
            op = plan.found.rule.op
            mapped = not (casts or op.copies)
            tensor = op.read([files.read(their, mapped) for their in plan.found.theirs])
            report.read[plan.name] = plan.found.theirs
        dtype = request.dtype if tensor.is_floating_point() else None
        tensor = tensor.to(device=request.device, dtype=dtype)
        for name in (plan.name, *plan.followers):
            put(net, name, tensor)
        report.tied |= dict.fromkeys(plan.followers, plan.name)
        report.bytes += tensor.nbytes
        dtypes.add(str(tensor.dtype).removeprefix("torch."))
    retie(net)
    report.dtypes = tuple(sorted(dtypes))


def put(net: nn.Module, name: str, tensor: Tensor) -> None:
    """Gives a parameter or buffer its storage."""
    owner, _, leaf = name.rpartition(".")
    module = net.get_submodule(owner)
    if leaf in module._parameters:
        module._parameters[leaf] = nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
    else:
        module._buffers[leaf] = tensor


def retie(net: Net) -> None:
    for kept, follower in net.spec.tie:
        owner, _, leaf = follower.rpartition(".")
        net.get_submodule(owner)._parameters[leaf] = net.get_parameter(kept)


def _matched(rules: Any, name: str, base: str) -> Match:
    found = match(rules, name, base)
    assert found is not None, f"no rule for {name}"
    return found


def _rule_of(plan: Plan, net: Net, family: Family) -> Rule:
    return _matched(family.rules(net.spec), plan.name, "").rule


def _tensor_and_parts(net: Net, name: str) -> tuple[Tensor, tuple[int, ...]]:
    owner, _, leaf = name.rpartition(".")
    module = net.get_submodule(owner)
    return getattr(module, leaf), module.parts if isinstance(module, Linear) else ()


def _equal(plan: Plan, copy: Match, files: TensorFiles) -> bool:
    assert plan.found is not None
    mine, other = (
        place.rule.op.read([files.read(their, mapped=True) for their in place.theirs])
        for place in (plan.found, copy)
    )
    return mine.shape == other.shape and torch.equal(mine, other)


def _begins(names: tuple[str, ...], prefixes: tuple[str, ...]) -> bool:
    return all(any(name.startswith(prefix) for prefix in prefixes) for name in names)


def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\{i\}", r"\d+"))


def _reason(family: Family, name: str, base: str, request: Request) -> str:
    for pattern, reason in family.DROPPED.items():
        if _name_pattern(pattern.replace("{base}", base)).fullmatch(name):
            return reason
    return "asked for" if _begins((name,), request.drop) else "the same tensor under another name"


def _difference(
    config: Mapping[str, Any], files: TensorFiles, missing: list[str], extra: list[str]
) -> str:
    said = []
    if missing:
        said.append(f"lacks {_listed(missing)}")
    if extra:
        said.append(f"has {_listed(extra)}, which this model does not have")
    where = files.paths[0].name if len(files.paths) == 1 else f"the {len(files.paths)} shards"
    text = f"By config.json {where} {' and '.join(said)}"
    other = fitting_class(config, files)
    if other is not None:
        return f"{text}; the tensors are those of {other}: load it with architecture={other!r}."
    asks = [f"make={_prefixes(missing)!r}"] * bool(missing) + [f"drop={_prefixes(extra)!r}"] * bool(extra)
    return f"{text}; if that is intended, load it with {', '.join(asks)}."


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest


def _prefixes(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rpartition(".")[0] or name for name in names))[:8]
