"""Text room, Whisper's codec and the tokens by which its decoder is told what to do.

A folder comes in with `vocab.json` and `merges.txt`, or with OpenAI's own `multilingual.tiktoken`
or `gpt2.tiktoken` (English), after whose tokens the special ones follow in a fixed order.
"""

from pathlib import Path

from tokenizers.models import BPE

from glassformer.errors import GlassformerError
from glassformer.text.bytelevel import byte_level, files_of
from glassformer.text.codec import Codec, LibraryCodec, surround
from glassformer.text.files import read_json_if_there
from glassformer.text.settings import Settings
from glassformer.text.tiktoken import read_tiktoken

TABLES = ("multilingual.tiktoken", "gpt2.tiktoken")
NAMES = """
    en:english zh:chinese de:german es:spanish ru:russian ko:korean fr:french ja:japanese
    pt:portuguese tr:turkish pl:polish ca:catalan nl:dutch ar:arabic sv:swedish it:italian
    id:indonesian hi:hindi fi:finnish vi:vietnamese he:hebrew uk:ukrainian el:greek ms:malay
    cs:czech ro:romanian da:danish hu:hungarian ta:tamil no:norwegian th:thai ur:urdu
    hr:croatian bg:bulgarian lt:lithuanian la:latin mi:maori ml:malayalam cy:welsh sk:slovak
    te:telugu fa:persian lv:latvian bn:bengali sr:serbian az:azerbaijani sl:slovenian kn:kannada
    et:estonian mk:macedonian br:breton eu:basque is:icelandic hy:armenian ne:nepali
    mn:mongolian bs:bosnian kk:kazakh sq:albanian sw:swahili gl:galician mr:marathi pa:punjabi
    si:sinhala km:khmer sn:shona yo:yoruba so:somali af:afrikaans oc:occitan ka:georgian
    be:belarusian tg:tajik sd:sindhi gu:gujarati am:amharic yi:yiddish lo:lao uz:uzbek
    fo:faroese ht:haitian_creole ps:pashto tk:turkmen nn:nynorsk mt:maltese sa:sanskrit
    lb:luxembourgish my:myanmar bo:tibetan tl:tagalog mg:malagasy as:assamese tt:tatar
    haw:hawaiian ln:lingala ha:hausa ba:bashkir jw:javanese su:sundanese yue:cantonese
"""
LANGUAGES = dict(entry.split(":") for entry in NAMES.split())
"""Code to English name, in the order of their ids."""
TASKS = ("translate", "transcribe")
TIMES = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
"""Up to 30 seconds, the length of audio that the model hears at once."""


def start_tokens(
    language: str | None = None, task: str | None = None, timestamps: bool = False
) -> list[str]:
    """What the decoder is given first: the language that is spoken, as "de" or "german", whether to
    "transcribe" or to "translate" it into English, and whether to say when each part is spoken.

    >>> ids = [tokenizer.id(token) for token in start_tokens("de", "transcribe")]
    """
    tokens = ["<|startoftranscript|>"]
    if language is not None:
        tokens.append(f"<|{language_code(language)}|>")
    if task is not None:
        if task not in TASKS:
            raise GlassformerError(f"The task is one of {', '.join(TASKS)}, not {task!r}.")
        tokens.append(f"<|{task}|>")
    return tokens if timestamps else [*tokens, "<|notimestamps|>"]


def language_code(language: str) -> str:
    name = language.lower().replace(" ", "_")
    code = next((code for code in LANGUAGES if name in (code, LANGUAGES[code])), None)
    if code is None:
        raise GlassformerError(
            f"Whisper has no language {language!r}; it has {', '.join(LANGUAGES)}."
        )
    return code


def load_whisper(folder: Path, settings: Settings) -> Codec:
    table = next((folder / name for name in TABLES if (folder / name).is_file()), None)
    if table is not None and not (folder / "vocab.json").is_file():
        vocabulary, merges = read_tiktoken(table)
        size = read_json_if_there(folder / "config.json").get("vocab_size")
        special = special_tokens(len(vocabulary), size)
        numbers = {token: len(vocabulary) + i for i, token in enumerate(special)}
        added = {str(id): {"content": t, "special": True} for t, id in numbers.items()}
        settings = Settings({**settings.values, "added_tokens_decoder": added})
        backend = byte_level(BPE(vocabulary, merges), settings)
    else:
        backend = byte_level(files_of(folder), settings)
    language, task = settings.values.get("language"), settings.values.get("task")
    start = start_tokens(language, task, settings.flag("predict_timestamps", False))
    end = settings.roles["eos"]
    surround(backend, [*start, "$A", end], [*start, "$A", "$B:1", f"{end}:1"])
    return LibraryCodec(backend)


def special_tokens(known: int, size: int | None) -> list[str]:
    """Those that follow the `known` tokens of a table, in a model of `size` tokens in all."""
    others = ["<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    fixed = 2 + len(TASKS) + len(others) + len(TIMES)
    languages = 99 if size is None else size - known - fixed
    if languages not in (99, 100):
        raise GlassformerError(
            f"config.json says that the vocabulary has {size} tokens; with a table of {known} it "
            f"has {known + fixed + 99} or {known + fixed + 100}, of 99 or 100 languages."
        )
    return [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in list(LANGUAGES)[:languages]),
        *(f"<|{task}|>" for task in TASKS),
        *others,
        *TIMES,
    ]
