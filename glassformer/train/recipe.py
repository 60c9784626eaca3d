"""The `Recipe` dataclasses, and reading a recipe from TOML with validation.

Each table of the file is a dataclass, each key a field with a default. Missing keys are filled in,
and the complete recipe is saved with the run.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from glassformer.data.data_config import DataSettings
from glassformer.errors import ConfigError, LoadError
from glassformer.train import recipe_text
from glassformer.train.coerce import fill, number, unknown
from glassformer.train.optimizers import optimizer_options

Table = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The [model] table: a preset to create with the given sizes, or a folder to start from.

    The size settings apply to every model family; `settings` are keys of the family's config.json.
    The other settings are those of `gf.load`.
    """

    preset: str | None = None
    folder: str | None = None
    layers: int | None = number(None, least=1)
    heads: int | None = number(None, least=1)
    width: int | None = number(None, least=1)
    ffn: int | None = number(None, least=1)
    context: int | None = number(None, least=1)
    dropout: float | None = number(None, least=0.0, below=1.0)
    settings: Mapping[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    make: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    vectors: str | None = None  # a file of word vectors to initialize token embeddings from


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """The [tokenizer] table: a kind to train on the data, or a folder to load.

    If neither is given, a model folder provides its own tokenizer, and a new model gets a
    byte-level BPE tokenizer. `special` adds special tokens to those of the kind, as in
    `special.mask = "[MASK]"`. `languages` are target languages, each of which gets a token that is
    put before a source.
    """

    kind: (
        Literal["char", "byte", "word", "space", "bpe", "byte-bpe", "wordpiece", "unigram"] | None
    ) = None
    folder: str | None = None
    size: int = number(8000, least=2)
    min_frequency: int = number(1, least=1)
    lowercase: bool = False
    special: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """An [objective] table; `options` are the other keys of the table."""

    name: str = "causal-lm"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The [train] table.

    `batch` is the number of rows of a micro-batch over all processes; a step has `accumulate`
    micro-batches. `options` are the other keys of the table, which the optimizer defines.
    """

    steps: int = number(1000, least=1)
    batch: int = number(32, least=1)
    accumulate: int = number(1, least=1)
    seed: int = number(0, least=0)
    optimizer: str = "adamw"
    learning_rate: float = number(3e-4, above=0.0)
    weight_decay: float = number(0.1, least=0.0)
    schedule: str = "cosine"
    warmup: int | None = number(None, least=0)  # steps; takes precedence over the ratio
    warmup_ratio: float = number(0.1, least=0.0, most=1.0)
    floor: float = number(0.1, least=0.0, most=1.0)
    cut: float = number(0.1, above=0.0, below=1.0)
    ratio: float = number(32.0, least=1.0)
    clip: float = number(1.0, least=0.0)
    layer_decay: float = number(1.0, above=0.0, most=1.0)
    unfreeze_every: int = number(0, least=0)
    freeze_body: bool = False
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    compile: bool = False
    checkpoint: bool = False
    deterministic: bool = False
    average: float = number(0.0, least=0.0, below=1.0)
    average_after: int = number(0, least=0)
    bptt: int = number(0, least=0)
    save_every: int = number(200, least=0)
    evaluate_every: int = number(200, least=0)
    evaluate_batches: int = number(0, least=0)
    best: str = "loss"
    patience: int = number(0, least=0)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def warmup_steps(self) -> int:
        """The number of warmup steps: `warmup`, or else `warmup_ratio` of all steps."""
        if self.warmup is not None:
            return self.warmup
        return math.ceil(self.warmup_ratio * self.steps)


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """The [adapter] table: the adapter that is trained instead of all weights, with its options."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """The [scale] table: the device and how the processes of `torchrun` share the work.

    These settings do not affect what is learned.
    """

    device: str = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    tensor: int = number(1, least=1)
    timeout: float = number(10.0, above=0.0)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The [run] table: what is written, where and how often.

    These settings do not affect what is learned. The model is saved every `keep_every` steps and
    after the steps in `keep` (0 is before the first step), for later inspection. `tensorboard`
    defaults to true if TensorBoard is installed; `wandb` is the name of a project.
    """

    folder: str = "run"
    log_every: int = number(10, least=1)
    keep_every: int = number(0, least=0)
    keep: tuple[int, ...] = ()
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
        if (self.model.preset is None) == (self.model.folder is None):
            raise ConfigError(
                "model.preset (a fresh model) or model.folder (one to start from): give one."
            )
        if self.tokenizer.kind is not None and self.tokenizer.folder is not None:
            raise ConfigError("tokenizer.kind or tokenizer.folder: give one.")
        if not self.data.train:
            raise ConfigError("data.train names no file to learn from.")
        if self.train.warmup is not None and self.train.warmup_ratio != TrainSettings.warmup_ratio:
            raise ConfigError("train.warmup (steps) or train.warmup_ratio: give one.")
        if self.train.average and self.train.average_after:
            raise ConfigError("train.average or train.average_after: give one.")
        if self.train.average_after and not (self.data.valid and self.train.evaluate_every):
            raise ConfigError(
                "train.average_after goes by evaluations: name data.valid, and say how often in "
                "train.evaluate_every."
            )

    def tables(self) -> dict[str, Any]:
        """Returns the settings as nested dicts with the structure of the TOML file."""
        return {
            table.name: _plain(value)
            for table in fields(self)
            if (value := getattr(self, table.name)) is not None
        }

    def text(self) -> str:
        """Returns the recipe as TOML, or as JSON if tomli-w is not installed."""
        return recipe_text.write_recipe(self.tables())


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
FREE_KEYS = ("data.processes", "data.cache")


def read_recipe(source: str | Path | Table | Recipe, overrides: Sequence[str] = ()) -> Recipe:
    """Reads and validates a recipe.

    Args:
        source: Path of a TOML or JSON file, its tables as a mapping, or a `Recipe`.
        overrides: Settings that replace those of the source, each as `section.key=value`.

    Returns:
        The recipe with all defaults filled in, except the options of the objectives.

    >>> read_recipe("recipe.toml", ["train.steps=100"])
    """
    if isinstance(source, Recipe):
        source = source.tables()
    tables = _copied(source if isinstance(source, Mapping) else parse_recipe(Path(source)))
    for word in overrides:
        recipe_text.override(tables, word)
    for name in tables:
        if name not in TABLES:
            raise unknown("The recipe has no table", name, TABLES)
    made: dict[str, Any] = {"model": ModelSettings(), "data": DataSettings()}
    for name, value in tables.items():
        several = name == "objective" and isinstance(value, list | tuple)
        listed: list[Any] = [
            fill(TABLES[name], name, one) for one in (value if several else [value])
        ]
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
    one, other = flat(old.tables()), flat(new.tables())
    return [
        f"{key}: {one.get(key)!r} there, {other.get(key)!r} here"
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key) and key.split(".")[0] not in FREE and key not in FREE_KEYS
    ]


def flat(value: Any, path: str = "") -> dict[str, Any]:
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
        for key, leaf in flat(one, f"{path}.{name}" if path else str(name)).items()
    }


def parse_recipe(path: Path) -> dict[str, Any]:
    """Returns the tables of a recipe file as they are written."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return _object(json.loads(text), path)
        return tomllib.loads(text)
    except OSError as error:
        raise LoadError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The recipe {path} is not UTF-8 text; convert it.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The recipe {path} is not TOML: {error}.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"The recipe {path} is not JSON: {error}.") from None


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
