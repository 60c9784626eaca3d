"""Recordings with their texts: LibriSpeech folders, Common Voice tables, and audio paths."""

from __future__ import annotations

import pytest

import glassformer as gf
from glassformer.data import DataSettings, RecordError, Records
from glassformer.data.speech import audio_path
from glassformer.tasks.registry import TASKS
from glassformer.train.task_columns import choose_columns


def read(*patterns, **settings):
    return list(Records(DataSettings(train=tuple(map(str, patterns)), **settings), "train"))


def test_folders_as_librispeech(tmp_path):
    chapter = tmp_path / "dev-clean" / "84" / "121123"
    chapter.mkdir(parents=True)
    for name in ("84-121123-0000.flac", "84-121123-0001.wav"):
        (chapter / name).touch()
    lines = (
        "84-121123-0000 GO DO YOU HEAR",
        "84-121123-0001 BUT IN LESS THAN FIVE MINUTES",
        "",
        "84-121123-0002 THERE IS NO SOUND",
        "84-121123-0000",
        "../121123/84-121123-0000 ELSEWHERE",
        f"{'9' * 400} TOO LONG",
    )
    (chapter / "84-121123.trans.txt").write_text("\n".join(lines))
    first, second, *wrong = read(tmp_path / "dev-clean" / "**" / "*.trans.txt")
    assert (first["text"], first["speaker"]) == ("GO DO YOU HEAR", "84")
    assert audio_path(first) == chapter / "84-121123-0000.flac"
    assert audio_path(second) == chapter / "84-121123-0001.wav"
    assert all(isinstance(one, RecordError) for one in wrong)
    assert "there is no 84-121123-0002.flac" in str(wrong[0])
    assert "84-121123-0000 has no text" in str(wrong[1])
    assert "is not the name of a file beside it" in str(wrong[2])
    assert "there is no 999" in str(wrong[3])


def test_tables_of_common_voice(tmp_path):
    header = "client_id\tpath\tsentence\tup_votes\tlocale"
    row = 'ab12\tcommon_voice_en_1.wav\tHe said "no".\t2\ten'
    (tmp_path / "train.tsv").write_text(f"{header}\n{row}\n")
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "common_voice_en_1.wav").touch()
    records = read(tmp_path / "train.tsv")
    columns = choose_columns("train.tsv", records, TASKS.find("transcribe").training, {})
    assert columns == {
        "audio": "path",
        "text": "sentence",
        "speaker": "client_id",
        "language": "locale",
    }
    (record,) = read(tmp_path / "train.tsv", columns=columns)
    assert record["text"] == 'He said "no".' and record["speaker"] == "ab12"
    assert audio_path(record) == tmp_path / "clips" / "common_voice_en_1.wav"


def test_where_the_audio_is(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("a.wav", "data/b.wav"):
        (tmp_path / name).touch()
    where = f"{tmp_path}/data/rows.csv:2"
    monkeypatch.chdir(tmp_path)
    assert audio_path({"audio": "b.wav", "where": where}) == tmp_path / "data" / "b.wav"
    assert audio_path({"audio": "../a.wav", "where": where}).samefile(tmp_path / "a.wav")
    assert audio_path({"audio": str(tmp_path / "a.wav"), "where": where}) == tmp_path / "a.wav"
    assert audio_path({"audio": "a.wav", "where": "record 0"}).samefile(tmp_path / "a.wav")
    for record, message in (
        ({"audio": "c.wav", "where": where}, f"{tmp_path}/data/c.wav does not exist"),
        ({"file": "a.wav", "where": where}, "no column 'audio', only file"),
        ({"audio": 3, "where": where}, "the audio is 3"),
        ({"audio": "a" * 400, "where": where}, "does not exist"),
        ({"audio": "a\0b.wav", "where": where}, "does not exist"),
    ):
        with pytest.raises(gf.DataError, match=message):
            audio_path(record)
