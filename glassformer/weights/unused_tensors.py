"""Known reasons for tensors in a file that the model does not use.

A file contains more tensors than its class reads if it was saved by another class of the family,
by an older version, or with parts that config.json disables. Each such tensor is dropped with a
reason; any other unused tensor is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from glassformer.errors import GlassformerError
from glassformer.families import classes_of, spec_from_config
from glassformer.weights.mapping import LoadPlan, build_transformer, matched, tied_names

BUFFERS = {  # in any family, by the end of the name
    re.compile(rf"(.*\.)?({names})"): why
    for names, why in {
        r"position_ids": "counts from 0, which is computed",
        r"token_type_ids": "zeros, which are computed",
        r"inv_freq|rotary_emb\..+": "the frequencies, which are computed",
        r"masked_bias|attn\.bias": "the causal mask, which is computed",
        r"version|_float_tensor": "a mark of the library that wrote the file",
        r"num_batches_tracked": "a count from training",
    }.items()
}
FURTHER = "predicts further tokens for faster generation; the class does not read it"


def unused_reasons(plan: LoadPlan) -> dict[str, str]:
    """Returns the unused tensors that have a known reason, with the reason."""
    named = [
        (_name_pattern(name.replace("{base}", plan.base)), why)
        for name, why in plan.family.UNUSED_TENSORS.items()
    ]
    reasons = {}
    for name in plan.unused():
        known = [why for pattern, why in (*named, *BUFFERS.items()) if pattern.fullmatch(name)]
        if known:
            reasons[name] = known[0]
        elif _is_further(plan, name):
            reasons[name] = FURTHER
    rest = [name for name in plan.unused() if name not in reasons]
    return reasons | _owned(plan, rest) if rest else reasons


def _owned(plan: LoadPlan, names: Iterable[str]) -> dict[str, str]:
    """Returns those tensors that belong to another class of the family, with the reason."""
    owners: dict[str, str] = {}
    for architecture in classes_of(plan.family, plan.config["model_type"]):
        try:
            model = build_transformer(spec_from_config(plan.config, architecture))
        except GlassformerError:  # config.json is invalid for that class
            continue
        rules = plan.family.weight_rules(model.spec)
        for group in tied_names(model):
            for local in group:
                found = matched(rules, local, plan.base)
                for hf in (*found.hf, *found.also):
                    owners.setdefault(hf, architecture)
    return {
        name: f"belongs to {owners[name]}; this class does not read it"
        for name in names
        if name in owners
    }


def _is_further(plan: LoadPlan, name: str) -> bool:
    """Whether the tensor belongs to a layer that predicts several tokens ahead.

    Such layers have a distinctive name, or come after the last layer of the model.
    """
    if re.match(r"(model\.)?mtp\.", name):
        return True
    found = re.match(rf"{re.escape(plan.base)}layers\.(\d+)\.", name)
    ahead = plan.config.get("num_nextn_predict_layers") or 0
    layers = len(plan.transformer.spec.last_stack.blocks)
    return found is not None and layers <= int(found[1]) < layers + ahead


def _name_pattern(name: str) -> re.Pattern[str]:
    """Compiles a name pattern: `{i}` matches a layer number, `{any}` the rest of a name."""
    return re.compile(re.escape(name).replace(r"\{i\}", r"\d+").replace(r"\{any\}", ".+"))
