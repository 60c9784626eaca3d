"""Headers that name files: nothing outside of their folder is written, removed or read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from faults import attempt

import glassformer as gf
from glassformer import adapters
from glassformer.inside.lens.tuned_lens import TunedLens, TunedLensFacts
from glassformer.storage.names import is_plain
from glassformer.tasks.pooling import read_pooling
from glassformer.tasks.search.index import Added, IndexRows
from glassformer.tasks.search.passages import Passage
from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.objectives.tally import Tally

NAMES = ("../x", "..", ".", "", "/tmp/x", "rows-1/../../x", "rows-1/", "a\\..\\x", "C:x", "x\0", 5,
         None, ["rows-1"])  # fmt: skip


def added(file: str, count: int) -> Added:
    own = [Passage(i, i + 5, f"{file} {i}") for i in range(count)]
    return Added(file, f"of {count}", own, np.ones((count, 4), np.float32), True)


@pytest.fixture
def index(tmp_path):
    """An index that is compacted at the next chance, and beside it files of the user's."""
    rows = IndexRows.create(tmp_path / "index", {"width": 4, "kept": "float32"})
    for count in (3, 4, 1):
        rows.add([added("a", count)])
    (tmp_path / "x").mkdir()
    for name in ("vectors.bin", "places.bin", "texts.bin", "journal.jsonl", "mine.txt"):
        (tmp_path / "x" / name).write_text("mine")
    return tmp_path / "index"


def use(folder):
    rows = IndexRows.open(folder)
    with rows.writing():
        rows.add([added("b", 1)])
        rows.compact()
        rows.write_header()
    rows.passage(0)
    rows.nearest(np.ones((1, 4), np.float32), 1)


def refused(folder) -> str:
    """What is said of the index, which is used; the user's files are as they were."""
    ended = attempt(lambda: use(folder), folder)
    mine = folder.parent / "x"
    assert ended.outside == [] and not ended.finished
    assert {path.read_text() for path in mine.iterdir()} == {"mine"}
    assert len(list(mine.iterdir())) == 5
    assert {path.name for path in folder.parent.iterdir()} == {"x", "index"}
    assert ended.message is not None
    return ended.message


def change(folder, **said):
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps({**header, **said}))


@pytest.mark.parametrize("name", [*NAMES, "header.json", "rows-0", "rows-x"], ids=repr)
def test_an_index_whose_rows_are_elsewhere(index, name):
    change(index, rows=name)
    assert "header.json names" in refused(index)


@pytest.mark.parametrize("said", [{"width": "4"}, {"width": 0}, {"width": -4}, {"width": True},
                                  {"width": None}, {"kept": "object"}, {"kept": "V9"},
                                  {"kept": None}], ids=repr)  # fmt: skip
def test_an_index_of_other_numbers(index, said):
    change(index, **said)
    assert "does not say the width and the precision" in refused(index)


@pytest.mark.parametrize("width", [5, 10**15])
def test_an_index_of_a_width_that_its_files_do_not_have(index, width):
    change(index, width=width)
    assert "vectors.bin is truncated" in refused(index)


@pytest.mark.parametrize("name", ["rows-1", ".lock"])
def test_an_index_with_a_link_out_of_it(index, name):
    if name == "rows-1":
        for path in (index / "rows-1").iterdir():
            path.unlink()
        (index / "rows-1").rmdir()
        (index / "rows-1").symlink_to(index.parent / "x")
        assert "rows-1 is a link" in refused(index)
    else:
        (index / name).unlink(missing_ok=True)
        (index / name).symlink_to(index.parent / "x" / "mine.txt")
        assert ".lock is a link, which is not written through" in refused(index)


@pytest.mark.parametrize("name", ["vectors.bin", "places.bin", "texts.bin", "journal.jsonl"])
def test_an_index_with_a_file_that_is_a_link(index, name):
    (index / "rows-1" / name).unlink()
    (index / "rows-1" / name).symlink_to(index.parent / "x" / name)
    assert f"{name} is a link" in refused(index)


@pytest.mark.parametrize("line", ['{"file": "a"}', "[1]", "7", "nonsense", -2, 1.5, '"2"'])
def test_a_journal_that_was_changed(index, line):
    """A number is a count of rows."""
    path = index / "rows-1" / "journal.jsonl"
    if not isinstance(line, str):
        line = json.dumps({"file": "a", "digest": "d", "count": line, "whole": True})
    path.write_text(f"{line}\n{path.read_text()}")
    assert "journal.jsonl is damaged in line 1" in refused(index)


def test_a_users_folder_among_the_rows_stays(index):
    (index / "rows-7").mkdir()
    (index / "rows-7" / "mine.txt").write_text("mine")
    (index / "rows-2").symlink_to(index.parent / "x")
    assert attempt(lambda: use(index), index).outside == []
    assert IndexRows.open(index).header["rows"] == "rows-8"
    assert (index / "rows-7" / "mine.txt").read_text() == "mine"
    assert (index / "rows-2").is_symlink() and len(list((index.parent / "x").iterdir())) == 5
    assert IndexRows.open(index).live == 2


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_shards_that_are_elsewhere(tmp_path, name):
    gf.create("gpt2", n_embd=8, n_head=2, n_layer=1, vocab_size=9).save(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").rename(tmp_path / "x")
    told = json.dumps({"weight_map": {"wte.weight": name}})
    (tmp_path / "m" / "model.safetensors.index.json").write_text(told)
    with pytest.raises(gf.GlassformerError, match=r"is not a(n index| plain name)"):
        gf.load(tmp_path / "m")


@pytest.mark.parametrize("name", [name for name in NAMES if name], ids=repr)
def test_modules_that_are_elsewhere(tmp_path, name):
    (tmp_path / "m").mkdir()
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    told = json.dumps([{"path": name, "type": "sentence_transformers.models.Pooling"}])
    (tmp_path / "m" / "modules.json").write_text(told)
    with pytest.raises(gf.GlassformerError, match=r"modules\.json names"):
        read_pooling(tmp_path / "m")


@pytest.mark.parametrize(("kind", "field"), [("object", "x"), ("V8", "x"), ("int64", "../x")])
def test_prepared_data_of_other_numbers(tmp_path, kind, field):
    """An array of objects would take the bytes of a file for addresses."""
    folder = tmp_path / "store"
    folder.mkdir()
    said = {"examples": 1, "parallel": True, "documents": 1, "skipped": 0, "reasons": []}
    said["tally"] = Tally().to_dict()
    (folder / "header.json").write_text(json.dumps({**said, "fields": {field: kind}}))
    for name in ("x.bin", "x.offsets", "../x.bin", "../x.offsets", "begins"):
        (folder / name).write_bytes(b"mine" * 4)
    with pytest.raises((gf.GlassformerError, FileNotFoundError)) as raised:
        MemmapDataset(folder)
    assert field == "../x" or "does not hold" in str(raised.value)


def test_plain_names():
    assert all(is_plain(name) for name in ("model.safetensors", "1_Pooling", "..x", "模型"))
    assert not any(map(is_plain, (*NAMES, "x" * 256, "模" * 86)))


def adapter_in(place):
    model = gf.create("gpt2", seed=1, n_embd=8, n_head=2, n_layer=1, vocab_size=9)
    model.save(place)
    model.adapters.add(adapters.LoRA(rank=2, target_modules=("c_attn",)))
    model.adapters.save(place)


def lens_in(place):
    facts = TunedLensFacts("GPT2LMHeadModel", "lm", 3, 7, ("a", "b"), 1, 9, (0.5, 0.25))
    TunedLens(facts, torch.zeros(2, 3, 3), torch.zeros(2, 3)).save(place)


READERS = {  # what makes a folder, its header, and what reads it
    "adapter": (adapter_in, "adapter_config.json", gf.load),
    "adapter's model": (adapter_in, "glassformer.json", gf.load),
    "lens": (lens_in, "lens.json", TunedLens.load),
    "model": (adapter_in, "config.json", gf.load),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_header_of_other_names_writes_nothing(tmp_path, reader):
    """Every text and every list of texts in the header, by a path out of the folder."""
    make, name, read = READERS[reader]
    make(tmp_path / "made")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "config.json").write_text("mine")
    header = json.loads((tmp_path / "made" / name).read_text())
    texts = [key for key, value in header.items() if isinstance(value, str | list)]
    assert texts
    for key in texts:
        for name_of in ("../x", str(tmp_path / "x"), "..", "\0"):
            odd = [name_of] if isinstance(header[key], list) else name_of
            (tmp_path / "made" / name).write_text(json.dumps({**header, key: odd}))
            ended = attempt(lambda: read(tmp_path / "made"), tmp_path / "made")
            assert (ended.operations, ended.outside) == ([], []), f"{key}: {odd}"
            assert ended.finished or ended.message is not None
    assert (tmp_path / "x" / "config.json").read_text() == "mine"


def test_a_passage_that_announces_a_terabyte(index):
    path = index / "rows-1" / "places.bin"
    places = np.fromfile(path, "<i8").reshape(-1, 4)
    places[0, 3] = 2**40
    places.tofile(path)
    assert IndexRows.open(index).passage(0).text.startswith("a 0")
