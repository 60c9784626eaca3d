"""The `Recipe` dataclasses, and reading a recipe from TOML with validation.

Each table of the file is a dataclass, each key a field with a default. Missing keys are filled in,
and the complete recipe is saved with the run.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from glassformer.data.data_config import DataSettings
from glassformer.errors import ConfigError, LoadError
from glassformer.storage.parsing import parse_json
from glassformer.train import recipe_text
from glassformer.train.coerce import fill, number, unknown
from glassformer.train.optimizers import optimizer_options
from glassformer.train.recipe_paths import absolute_paths, relative_paths, resolve_paths
from glassformer.train.renamed_keys import renamed_key

Table = Mapping[str, Any]
DEFAULT_MAX_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The [model] table: a preset to create with the given sizes, or a base to start from.

    The sizes apply to every model family. The settings from `attention` to `block_sparse` are those
    of `spec.variants.Variant`. `config` are keys of the family's config.json. The other settings
    are those of `gf.load`.
    """

    preset: str | None = None
    base: str | None = None
    num_layers: int | None = number(None, least=1)
    num_heads: int | None = number(None, least=1)
    hidden_size: int | None = number(None, least=1)
    intermediate_size: int | None = number(None, least=1)
    context_length: int | None = number(None, least=1)
    dropout: float | None = number(None, least=0.0, below=1.0)
    attention: str | None = None
    norm: str | None = None
    norm_placement: str | None = None
    positions: str | None = None
    window: int | None = number(None, least=1)
    dilation: int | None = number(None, least=1)
    block_sparse: int | None = number(None, least=1)
    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    init_missing: tuple[str, ...] = ()
    ignore_unexpected: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    word_vectors: str | None = None  # a file to initialize token embeddings from


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """The [tokenizer] table: a type to train on the data, or a folder to load.

    If neither is given, a base model provides its own tokenizer, and a new model gets a byte-level
    BPE tokenizer. `special_tokens` adds special tokens to those of the type, as in
    `special_tokens.mask = "[MASK]"`. `languages` are target languages, each of which gets a token
    that is put before a source. `control_codes` are kinds of texts, each of which gets a token that
    a text can begin with: `<|story|>`.
    """

    type: (
        Literal["char", "byte", "word", "space", "bpe", "byte-bpe", "wordpiece", "unigram"] | None
    ) = None
    folder: str | None = None
    vocab_size: int = number(8000, least=2)
    min_frequency: int = number(1, least=1)
    lowercase: bool = False
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    control_codes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """An [objective] table; `options` are the other keys of the table."""

    name: str = "causal-lm"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The [train] table.

    A run has `max_steps` steps, or those of `epochs` passes over the data; 1000 steps if neither is
    given. `batch_size` is the number of rows of a micro-batch over all processes; a step has
    `gradient_accumulation_steps` micro-batches. `save_steps` and `eval_steps` below 1 are shares of
    the run. `options` are the other keys of the table, which the optimizer defines.
    """

    max_steps: int | None = number(None, least=1)
    epochs: float | None = number(None, above=0.0)
    batch_size: int = number(32, least=1)
    gradient_accumulation_steps: int = number(1, least=1)
    seed: int = number(0, least=0)
    optimizer: str = "adamw"
    learning_rate: float = number(3e-4, above=0.0)
    weight_decay: float = number(0.1, least=0.0)
    lr_scheduler: str = "cosine"
    warmup_steps: int | None = number(None, least=0)  # takes precedence over the ratio
    warmup_ratio: float = number(0.1, least=0.0, most=1.0)
    min_lr_ratio: float = number(0.1, least=0.0, most=1.0)
    cut_fraction: float = number(0.1, above=0.0, below=1.0)
    ratio: float = number(32.0, least=1.0)
    max_grad_norm: float = number(1.0, least=0.0)
    layerwise_lr_decay: float = number(1.0, above=0.0, most=1.0)
    gradual_unfreezing_steps: int = number(0, least=0)
    freeze_base: bool = False
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    compile: bool = False
    gradient_checkpointing: bool = False
    deterministic: bool = False
    ema_decay: float = number(0.0, least=0.0, below=1.0)
    averaging_patience: int = number(0, least=0)
    bptt: int = number(0, least=0)
    save_steps: int | float = number(200, least=0)
    eval_steps: int | float = number(200, least=0)
    max_eval_batches: int = number(0, least=0)
    metric_for_best_model: str = "loss"
    metric_tolerance: float = number(0.0, least=0.0)  # values that differ by less are equal
    load_best_model_at_end: bool = False
    early_stopping_patience: int = number(0, least=0)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.epochs is not None:
            raise ConfigError("Give one of train.max_steps and train.epochs.")
        if self.max_steps is None and self.epochs is None:
            object.__setattr__(self, "max_steps", DEFAULT_MAX_STEPS)

    @property
    def num_training_steps(self) -> int:
        """The number of steps of the run; `with_num_steps` computes it from `epochs`."""
        assert self.max_steps is not None, "the epochs have not been converted to steps"
        return self.max_steps

    @property
    def num_warmup_steps(self) -> int:
        """The number of warmup steps: `warmup_steps`, or else `warmup_ratio` of all steps."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return math.ceil(self.warmup_ratio * self.num_training_steps)

    def with_num_steps(self, steps_per_epoch: float) -> TrainSettings:
        """Returns the settings with `max_steps` in place of `epochs`, and no shares of the run."""
        steps = self.max_steps
        if steps is None:
            assert self.epochs is not None
            steps = max(1, math.ceil(round(self.epochs * steps_per_epoch, 6)))
        return replace(
            self,
            max_steps=steps,
            epochs=None,
            save_steps=_steps_of(self.save_steps, steps),
            eval_steps=_steps_of(self.eval_steps, steps),
        )


def _steps_of(value: float, steps: int) -> int:
    """Returns a number of steps, of which a value between 0 and 1 is a share."""
    return max(1, round(value * steps)) if 0 < value < 1 else int(value)


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """The [adapter] table: the adapter that is trained instead of all weights, with its options."""

    type: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """The [scale] table: the device and how the processes of `torchrun` share the work.

    These settings do not affect what is learned.
    """

    device: str = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    tensor_parallel_size: int = number(1, least=1)
    timeout_minutes: float = number(10.0, above=0.0)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The [run] table: what is written, where and how often.

    These settings do not affect what is learned. The model is saved every `snapshot_steps` steps
    and after the steps in `snapshots` (0 is before the first step), for later inspection.
    `tensorboard` defaults to true if TensorBoard is installed; `wandb` is the name of a project.
    """

    out: str = "run"
    logging_steps: int = number(10, least=1)
    snapshot_steps: int = number(0, least=0)
    snapshots: tuple[int, ...] = ()
    tensorboard: bool | None = None
    wandb: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of a run, one field per table of the TOML file."""

    model: ModelSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    data: DataSettings
    objective: tuple[ObjectiveSettings, ...] = (ObjectiveSettings(),)
    train: TrainSettings = TrainSettings()
    adapter: AdapterSettings | None = None
    scale: ScaleSettings = ScaleSettings()
    run: RunSettings = RunSettings()

    def __post_init__(self) -> None:
        if (self.model.preset is None) == (self.model.base is None):
            raise ConfigError(
                "Give one of model.preset (a new model) and model.base (a model to start from)."
            )
        if self.tokenizer.type is not None and self.tokenizer.folder is not None:
            raise ConfigError("Give one of tokenizer.type and tokenizer.folder.")
        if not self.data.train:
            raise ConfigError("data.train names no file to train on.")
        if (
            self.train.warmup_steps is not None
            and self.train.warmup_ratio != TrainSettings.warmup_ratio
        ):
            raise ConfigError("Give one of train.warmup_steps and train.warmup_ratio.")
        if self.train.ema_decay and self.train.averaging_patience:
            raise ConfigError("Give one of train.ema_decay and train.averaging_patience.")
        if self.train.averaging_patience and not (self.data.validation and self.train.eval_steps):
            raise ConfigError(
                "train.averaging_patience counts evaluations: set data.validation and "
                "train.eval_steps."
            )

    def tables(self) -> dict[str, Any]:
        """Returns the settings as nested dicts with the structure of the TOML file."""
        return {
            table.name: _plain(value)
            for table in fields(self)
            if (value := getattr(self, table.name)) is not None
        }

    def text(self, folder: Path | None = None) -> str:
        """Returns the recipe as TOML, or as JSON if tomli-w is not installed.

        Its paths are relative to the folder, if one is given.
        """
        tables = self.tables()
        return recipe_text.write_recipe(
            tables if folder is None else relative_paths(tables, folder)
        )


TABLES: dict[str, type] = {
    "model": ModelSettings,
    "tokenizer": TokenizerSettings,
    "data": DataSettings,
    "objective": ObjectiveSettings,
    "train": TrainSettings,
    "adapter": AdapterSettings,
    "scale": ScaleSettings,
    "run": RunSettings,
}
FREE = ("scale", "run")
"""Tables that may differ when a run is resumed."""
FREE_KEYS = ("data.num_workers", "data.cache")


def read_recipe(source: str | Path | Table | Recipe, overrides: Sequence[str] = ()) -> Recipe:
    """Reads and validates a recipe.

    Args:
        source: Path of a TOML or JSON file, its tables as a mapping, or a `Recipe`. Relative paths
            in a file are relative to its folder, and others to the working directory.
        overrides: Settings that replace those of the source, each as `section.key=value`.

    Returns:
        The recipe with all defaults filled in, except the options of the objectives.

    >>> read_recipe("recipe.toml", ["train.max_steps=100"])
    """
    if isinstance(source, Recipe):
        source = source.tables()
    tables = _copied(source if isinstance(source, Mapping) else _from_file(Path(source)))
    for word in overrides:
        recipe_text.override(tables, word)
    for name in tables:
        if name not in TABLES:
            raise unknown("The recipe has no table", name, TABLES)
    made: dict[str, Any] = {"model": ModelSettings(), "data": DataSettings()}
    for name, value in tables.items():
        _refuse_renamed(name, value)
        several = name == "objective" and isinstance(value, list | tuple)
        given = value if several else [value]
        listed: list[Any] = [fill(TABLES[name], name, one) for one in given]
        made[name] = tuple(listed) if name == "objective" else listed[0]
    made["train"] = _with_optimizer_options(made.get("train", TrainSettings()))
    return Recipe(**made)


def _with_optimizer_options(settings: TrainSettings) -> TrainSettings:
    """Checks the options of the optimizer and fills in those that are not given."""
    keys = [each.name for each in fields(TrainSettings)]
    options = optimizer_options(settings.optimizer, settings.options, table_keys=keys)
    return replace(settings, options=asdict(options))


def differences(old: Recipe, new: Recipe) -> list[str]:
    """Returns the settings that make two recipes different runs, one line per setting."""
    one, other = (flatten(absolute_paths(recipe.tables())) for recipe in (old, new))
    return [
        f"{key}: {one.get(key)!r} there, {other.get(key)!r} here"
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key) and key.split(".")[0] not in FREE and key not in FREE_KEYS
    ]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Flattens nested tables into one dict with keys as used in overrides."""
    if isinstance(value, Mapping):
        parts: Any = value.items()
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        parts = enumerate(value)
    else:
        return {path: list(value) if isinstance(value, tuple) else value}
    return {
        key: leaf
        for name, one in parts
        for key, leaf in flatten(one, f"{path}.{name}" if path else str(name)).items()
    }


def _refuse_renamed(name: str, table: Any) -> None:
    for key in table if isinstance(table, Mapping) else ():
        new = renamed_key(name, key)
        if new is not None:
            raise ConfigError(f"{name}.{key} is now {name}.{new}.")


def _from_file(path: Path) -> dict[str, Any]:
    tables = parse_recipe(path)
    if isinstance(tables.get("run", {}), dict):
        tables.setdefault("run", {}).setdefault("out", RunSettings.out)
    return resolve_paths(tables, path.parent)


def parse_recipe(path: Path) -> dict[str, Any]:
    """Returns the tables of a recipe file as they are written."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return _object(parse_json(text), path)
        return tomllib.loads(text)
    except OSError as error:
        raise LoadError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The recipe {path} is not UTF-8 text; convert it.") from None
    except RecursionError:
        raise ConfigError(f"The recipe {path} is nested too deeply.") from None
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"The recipe {path} is not {kind}: {error}.") from None


def _object(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"The recipe {path} is not a JSON object; give one table per key.")
    return value


def _plain(value: Any) -> Any:
    """Converts settings to a table, or to a list of tables if there are several.

    Options are placed next to the other keys.
    """
    if isinstance(value, tuple):
        tables = [_plain(one) for one in value]
        return tables[0] if len(tables) == 1 else tables
    own = {each.name: getattr(value, each.name) for each in fields(value)}
    options = own.pop("options", {})
    return {k: v for k, v in (own | dict(options)).items() if v is not None}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list | tuple) else value
