"""The model card: README.md of the run folder, in the layout that model hubs read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.train.objectives.registry import find_objective
from glassformer.train.recipe_text import recipe_format
from glassformer.train.report.summary import RunSummary, evaluations_of, summarize
from glassformer.train.report.usage import use
from glassformer.train.reporter import Reporter

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run


class Card(Reporter):
    """Writes the model card when the run is finished."""

    def begin(self, run: Run, plan: RunEstimate) -> None:
        self._run = run

    def finish(self, how: Mapping[str, Any]) -> None:
        text = render_card(summarize(self._run), how)
        self._run.manifest.write("README.md", text)


def render_card(run: RunSummary, how: Mapping[str, Any]) -> str:
    """Returns the text of the model card."""
    return "\n".join(
        [*_yaml_header(run), *_run_tables(run, how), *_metrics(run, how), *use(run), *_recipe(run)]
    )


def _yaml_header(run: RunSummary) -> Iterator[str]:
    """Yields the YAML header, in which strings and numbers are written as in JSON."""
    best = _best_metrics(run)
    pipeline = find_objective(run.recipe.objective[0].name).pipeline_tag
    yield "---"
    yield "library_name: glassformer"
    if pipeline is not None:
        yield f"pipeline_tag: {pipeline}"
    if run.recipe.model.base is not None:
        yield f"base_model: {_quoted(Path(run.recipe.model.base).name)}"
    yield "tags:"
    tags = ["glassformer", *(one.name for one in run.recipe.objective)]
    if run.recipe.adapter is not None:
        tags.append(run.recipe.adapter.type)
    yield from (f"- {_quoted(tag)}" for tag in dict.fromkeys(tags))
    if best:
        dataset = " ".join(run.recipe.data.files("validation"))
        yield "model-index:"
        yield f"- name: {_quoted(run.run.folder.resolve().name)}"
        yield "  results:"
        yield f"  - task: {{ type: {pipeline or 'other'} }}"
        yield f"    dataset: {{ name: {_quoted(dataset)}, type: {_quoted(dataset)} }}"
        yield "    metrics:"
        for name, value in best.items():
            yield f"    - {{ type: {_quoted(name)}, value: {_quoted(value)} }}"
    yield "---"


def _run_tables(run: RunSummary, how: Mapping[str, Any]) -> Iterator[str]:
    about, settings = run.about, run.recipe.train
    assert about is not None
    trained = "" if about.trained == about.parameters else f", of which {about.trained:,} trained"
    early = " (stopped early)" if how["stopped"] else ""
    epochs = how["tokens"] / max(about.tokens_epoch, 1)
    start = "a new model" if run.recipe.model.preset else "the weights of"
    rows = {
        "architecture": f"{about.architecture} ({start} {run.model})",
        "parameters": f"{about.parameters:,}{trained}; {about.body:,} in the layers, without "
        "embeddings and heads",
        "objective": run.objective,
        "steps": f"{how['step']:,} of {run.num_steps:,}{early}",
        "tokens": f"{how['tokens']:,} ({epochs:.1f} epochs of {about.tokens_epoch:,})",
        "optimizer": f"{settings.optimizer}, learning rate {settings.learning_rate:g}, "
        f"{settings.lr_scheduler}, batch size {settings.batch_size} x "
        f"{settings.gradient_accumulation_steps}",
        "seed": str(settings.seed),
        "precision": settings.precision,
        "time": f"{run.seconds:,.0f} s of steps on {about.device}"
        + (f", {run.tokens_per_second:,.0f} tokens/s" if run.tokens_per_second else ""),
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }
    yield f"\n# {run.run.folder.resolve().name}\n"
    yield "What was trained, by `glassformer train`:\n"
    yield "| | |\n|---|---|"
    yield from (f"| {name} | {_cell(value)} |" for name, value in rows.items())
    yield "\n## Data\n"
    yield "| split | file | bytes |\n|---|---|---:|"
    for split, files in about.data.items():
        for name, size in files.first:
            yield f"| {split} | {_cell(name)} | {size:,} |"
        more = files.count - len(files.first)
        if more:
            rest = files.bytes - sum(size for _, size in files.first)
            yield f"| {split} | and {more:,} more | {rest:,} |"


def _metrics(run: RunSummary, how: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Metrics\n"
    if run.last is not None and run.last["loss"] is not None:
        yield f"The last training loss is {run.last['loss']:.4f}."
    best = run.best()
    if best is not None:
        name, last = (
            run.recipe.train.metric_for_best_model,
            evaluations_of(run.entries)[-1]["valid"],
        )
        yield f"\nThe best {name} on the validation files came after step {best[1]:,}:\n"
        yield "| metric | best | last |\n|---|---:|---:|"
        for metric, value in _best_metrics(run).items():
            yield f"| {_cell(metric)} | {_number(value)} | {_number(last.get(metric))} |"
    if how["test"]:
        which = "model of the end" if best is None else "best model"
        yield f"\nThe {which} on the test files:\n\n| metric | |\n|---|---:|"
        yield from (f"| {_cell(name)} | {_number(value)} |" for name, value in how["test"].items())
    yield "\n![Loss](plots/loss.svg)"


def _recipe(run: RunSummary) -> Iterator[str]:
    yield f"\n## Recipe\n\n```{recipe_format()}\n{run.recipe.text(run.run.folder)}```\n"


def _best_metrics(run: RunSummary) -> dict[str, float | None]:
    best, evaluations = run.best(), evaluations_of(run.entries)
    return next((e["valid"] for e in evaluations if best and e["step"] == best[1]), {})


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4f}"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")
