"""Small real tokenizers of every family, trained on the spot in the layout of published folders."""

import json
import random
from io import BytesIO
from pathlib import Path

import pytest
import sentencepiece
from tokenizers import ByteLevelBPETokenizer, CharBPETokenizer
from tokenizers.implementations import BertWordPieceTokenizer

from glassformer.text.languages import M2M

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog didn't mind at all.",
    "Time flies like an arrow; fruit flies like a banana.",
    "The animal didn't cross the street because it was too tired.",
    "A robot must obey the orders given it by human beings.",
    "Thanks for all the fish! See https://example.org/a?b=c&d=e for more (2017).",
    "Die Königin öffnete die Tür, und die Straße lag im Nebel.",
    "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg.",
    "Je suis étudiant à l'école; où est la bibliothèque française ?",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter.",
    "你好，世界！今天天气很好，我们去公园散步吧。",
    "机器学习是人工智能的一个分支，变换器改变了它。",
    "私は学生です。東京タワーはとても高いです。カメラとコーヒー。",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "Привет, мир! Как дела?",
    "Emoji: 😀 👍🏽 👩‍👩‍👧 🏳️‍🌈 and back to text.",
    "Numbers: 0 1 2 3 4 5 6 7 8 9 10 11 100 1,000 3.14159 1/2.",
]

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "The quick brown fox didn't jump: it flies (like an arrow).",
    "  odd   spaces \t tab \n newline \r\n return  ",
    "a\u00a0no-break\u2003em\u3000ideographic\u200bzero\u2028line",
    "Die Königin im Nebel, größer als die Straße.",
    "Je suis étudiant à l'école française, cœur naïf.",
    "e\u0301cole nai\u0308ve A\u030angstro\u0308m x\u0323\u0307",
    "你好，世界！机器学习是人工智能。",
    "我有iPhone手机和3.14台电脑",
    "東京タワーはカメラ。ｶﾞｷﾞ ＡＢＣ　全角",
    "مرحبا بالعالم، كيف حالكَ؟",
    "Привет, мир! हिन्दी ภาษาไทย 한국어 각",
    "😀👍🏽 👩‍👩‍👧🏳️‍🌈 family",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿 𝔊𝔩𝔞𝔰𝔰 ﬁne ½ ①",
    "control\x00\x07\x1b chars\x7f and \ufffd",
    "https://example.org/a?b=c&d=e#f user@mail.org",
    "don't I'm we've they're it's ' quoted ' . , ! ?",
    "......!!!!!======-----III aaaaaaaaaaaa",
    "x" * 300,
    "中" * 120,
    "special <s> </s> <pad> <unk> <mask> [CLS] [SEP] [MASK] <|endoftext|> <extra_id_0> text",
    "Hello<mask>[MASK]</s><|endoftext|>world </s> ",
    ">>fra<< Hello >>fra<< world",
    "▁low ▁▁ blocks __ under",
    "a glass house <tool>s  <mask> here",
]


def write_config(folder: Path, model_type: str, **settings: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def train_sentencepiece(path: Path, **options: object) -> None:
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_writer=model,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    path.write_bytes(model.getvalue())


def make_bert(folder: Path) -> None:
    trained = BertWordPieceTokenizer(lowercase="uncased" in folder.name)
    trained.train_from_iterator(CORPUS, vocab_size=700, show_progress=False)
    trained.save_model(str(folder))


def make_byte_level(folder: Path, special: list[str]) -> None:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(CORPUS, vocab_size=600, special_tokens=special, show_progress=False)
    trained.save_model(str(folder))


def make_gpt(folder: Path) -> None:
    trained = CharBPETokenizer(bert_normalizer=True, lowercase=True)
    trained.train_from_iterator(CORPUS, vocab_size=500, show_progress=False)
    trained.save_model(str(folder))


def make_words(folder: Path, special: list[str]) -> None:
    """Byte pairs inside words, whose last piece ends with `</w>`."""
    trained = CharBPETokenizer(bert_normalizer=False)
    trained.train_from_iterator(CORPUS, vocab_size=500, show_progress=False)
    trained.save_model(str(folder))
    pieces = list(json.loads((folder / "vocab.json").read_text()))
    tokens = [*special, *(piece for i, piece in enumerate(pieces) if i % 7 and piece != "<unk>")]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


def make_xlm(folder: Path) -> None:
    make_words(folder, ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))])
    merges = (folder / "merges.txt").read_text().splitlines()[1:]
    (folder / "merges.txt").write_text("".join(f"{merge} 7\n" for merge in merges))


def make_ctrl(folder: Path) -> None:
    make_words(folder, ["Links", "Wikipedia"])
    pieces = json.loads((folder / "vocab.json").read_text())
    plain = [p.removesuffix("</w>") if p.endswith("</w>") else p + "@@" for p in pieces]
    tokens = dict.fromkeys([*plain, "a", "the\n", "<unk>"])
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


def make_m2m(folder: Path) -> None:
    train_sentencepiece(folder / "sentencepiece.bpe.model", vocab_size=420)
    path = str(folder / "sentencepiece.bpe.model")
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size()) if i % 9]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


def make_whisper(folder: Path) -> None:
    make_byte_level(folder, ["<|endoftext|>"])
    size = len(json.loads((folder / "vocab.json").read_text()))
    special = ["<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|translate|>"]
    special += ["<|transcribe|>", "<|startofprev|>", "<|notimestamps|>"]
    times = [f"<|{step / 50:.2f}|>" for step in range(5)]
    added = {
        str(size + i): {"content": token, "special": token in special, "normalized": False}
        for i, token in enumerate([*special, *times])
    }
    write_config(folder, "whisper", added_tokens_decoder=added, additional_special_tokens=special)


def make_marian(folder: Path) -> None:
    for name, size in (("source.spm", 420), ("target.spm", 400)):
        train_sentencepiece(folder / name, vocab_size=size, character_coverage=0.99)
    pieces = []
    for name in ("source.spm", "target.spm"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
        pieces += [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    pieces = sorted(set(pieces))
    random.Random(0).shuffle(pieces)
    # Published vocabularies lack some pieces: those become unknown.
    tokens = ["</s>", "<unk>", ">>fra<<", *pieces[30:], "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


def make_fsmt(folder: Path) -> None:
    trained = CharBPETokenizer(bert_normalizer=False)
    trained.train_from_iterator(CORPUS, vocab_size=500, show_progress=False)
    trained.save_model(str(folder))
    merges = (folder / "merges.txt").read_text().splitlines()[1:]
    (folder / "merges.txt").write_text(
        "".join(f"{merge} {9999 - i}\n" for i, merge in enumerate(merges))
    )
    pieces = list(json.loads((folder / "vocab.json").read_text()))
    (folder / "vocab.json").unlink()
    for name, skip in (("vocab-src.json", 7), ("vocab-tgt.json", 11)):
        kept = [piece for i, piece in enumerate(pieces) if i % skip and piece != "<unk>"]
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *kept]
        (folder / name).write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name to folder; the name begins with the model type."""
    root = tmp_path_factory.mktemp("tokenizers")
    roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = {}

    def folder(name: str, model_type: str, **settings: object) -> Path:
        made[name] = root / name
        write_config(made[name], model_type, **settings)
        return made[name]

    make_bert(folder("bert-uncased", "bert"))
    make_bert(folder("bert-cased", "bert", do_lower_case=False, model_max_length=512))
    make_bert(
        folder(
            "bert-odd",
            "bert",
            do_lower_case=True,
            strip_accents=False,
            tokenize_chinese_chars=False,
            clean_up_tokenization_spaces=True,
        )
    )
    make_bert(folder("distilbert-uncased", "distilbert"))
    make_byte_level(folder("gpt2", "gpt2"), ["<|endoftext|>"])
    make_byte_level(
        folder(
            "gpt2-options", "gpt2", add_prefix_space=True, add_bos_token=True, pad_token="<pad>"
        ),
        ["<|endoftext|>"],
    )
    make_byte_level(folder("roberta", "roberta"), roberta)
    make_byte_level(folder("roberta-described", "roberta"), roberta)
    size = len(json.loads((made["roberta-described"] / "vocab.json").read_text()))
    added = {
        "4": {"content": "<mask>", "lstrip": True, "normalized": False, "special": True},
        str(size): {"content": "glass house", "normalized": True, "special": False},
    }
    write_config(
        made["roberta-described"], "roberta", added_tokens_decoder=added, mask_token="<mask>"
    )
    make_byte_level(folder("bart", "bart", add_prefix_space=True, trim_offsets=False), roberta)
    make_gpt(folder("openai-gpt", "openai-gpt"))
    train_sentencepiece(
        folder("xlm-roberta", "xlm-roberta") / "sentencepiece.bpe.model", vocab_size=450
    )
    train_sentencepiece(
        folder("t5", "t5") / "spiece.model",
        vocab_size=450,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    for name, legacy in (("llama", False), ("llama-legacy", True)):
        train_sentencepiece(
            folder(
                name,
                "llama",
                tokenizer_class="LlamaTokenizer",
                add_bos_token=True,
                add_eos_token=legacy,
                legacy=legacy,
            )
            / "tokenizer.model",
            vocab_size=700,
            model_type="bpe",
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            user_defined_symbols=["<tool>"],
        )
    train_sentencepiece(
        folder("gemma", "gemma", tokenizer_class="GemmaTokenizer", add_bos_token=True)
        / "tokenizer.model",
        vocab_size=700,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        eos_piece="<eos>",
        bos_piece="<bos>",
        control_symbols=["<mask>"],
        user_defined_symbols=["<start_of_turn>"],
    )
    opt = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    make_byte_level(folder("opt", "opt", add_bos_token=True, **opt), roberta)
    make_byte_level(folder("gpt_neox", "gpt_neox"), ["<|endoftext|>", "<|padding|>"])
    make_byte_level(folder("qwen2", "qwen2"), ["<|endoftext|>"])
    make_whisper(folder("whisper", "whisper"))
    make_byte_level(folder("deberta", "deberta"), ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    made_of = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "vocab_size": 450}
    bert = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "vocab_size": 450}
    train_sentencepiece(
        folder("albert", "albert") / "spiece.model",
        **bert,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", "-", ".", "£"],
    )
    train_sentencepiece(
        folder("xlnet", "xlnet") / "spiece.model",
        vocab_size=450,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        user_defined_symbols=["<eop>", ".", "(", ")"],
    )
    train_sentencepiece(folder("pegasus", "pegasus") / "spiece.model", **made_of)
    train_sentencepiece(
        folder("big_bird", "big_bird") / "spiece.model",
        **{**made_of, "bos_id": 3},
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]", "<sep_0>"],
        normalization_rule_name="identity",
    )
    train_sentencepiece(
        folder("deberta-v2", "deberta-v2") / "spm.model",
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
        byte_fallback=True,
        vocab_size=700,
    )
    for name in ("mbart", "mbart50"):
        settings = {"tokenizer_class": "MBart50Tokenizer"} if name == "mbart50" else {}
        train_sentencepiece(
            folder(name, "mbart", **settings) / "sentencepiece.bpe.model", vocab_size=450
        )
    make_ctrl(folder("ctrl", "ctrl"))
    make_xlm(folder("xlm", "xlm"))
    codes = [f"__{code}__" for code in M2M]
    make_m2m(folder("m2m_100", "m2m_100", additional_special_tokens=codes, tgt_lang="de"))
    make_marian(folder("marian", "marian", source_lang="en", target_lang="fr"))
    make_fsmt(folder("fsmt", "fsmt", langs=["en", "de"]))
    return made


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return TEXTS


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return CORPUS
