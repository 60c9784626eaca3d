"""Whisper's tokenizer and the control tokens of its decoder.

It is read from `vocab.json` and `merges.txt`, or from OpenAI's own `multilingual.tiktoken` or
`gpt2.tiktoken` (English), whose tokens are followed by the special ones in a fixed order.
"""

from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from glassformer.errors import ConfigError, LoadError
from glassformer.text.backend import LibraryBackend, TokenizerBackend, set_template
from glassformer.text.loading.byte_bpe import byte_level, files_of
from glassformer.text.loading.files import read_json_if_there, read_lines
from glassformer.text.loading.tiktoken import read_tiktoken
from glassformer.text.loading.tokenizer_config import TokenizerConfig

ENGLISH, MANY = "gpt2.tiktoken", "multilingual.tiktoken"
TABLES = {MANY: (99, 100), ENGLISH: (99,)}
"""OpenAI's tables and how many languages a model with each table may have."""
ORIGIN = "from whisper/assets of OpenAI's repository or package openai-whisper"
MULTILINGUAL = 51865  # the vocabularies of English models have one token less
START = "<|startoftranscript|>"
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
"""Maps codes to English names, in the order of their ids."""
TASKS = ("translate", "transcribe")
TIMES = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
"""Up to 30 seconds, the length of audio that the model processes at once."""


def start_tokens(
    language: str | None = None, task: str | None = None, timestamps: bool = False
) -> list[str]:
    """Returns the control tokens that the decoder starts with.

    Args:
        language: The spoken language, as "de" or "german".
        task: "transcribe", or "translate" for a translation into English.
        timestamps: Whether to generate the times of the segments.

    >>> ids = [tokenizer.id(token) for token in start_tokens("de", "transcribe")]
    """
    tokens = [START]
    if language is not None:
        tokens.append(f"<|{language_code(language)}|>")
    if task is not None:
        if task not in TASKS:
            raise ConfigError(f"The task is one of {', '.join(TASKS)}, not {task!r}.")
        tokens.append(f"<|{task}|>")
    return tokens if timestamps else [*tokens, "<|notimestamps|>"]


def language_code(language: str) -> str:
    name = language.lower().replace(" ", "_")
    code = next((code for code in LANGUAGES if name in (code, LANGUAGES[code])), None)
    if code is None:
        raise ConfigError(f"Whisper has no language {language!r}; it has {', '.join(LANGUAGES)}.")
    return code


def load_whisper(folder: Path, settings: TokenizerConfig) -> TokenizerBackend:
    if (folder / "vocab.json").is_file():
        return transcribing(byte_level(files_of(folder), settings), settings)
    size = read_json_if_there(folder / "config.json").get("vocab_size")
    return load_table(folder, settings, size)


def holds_table(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TABLES)


def load_table(folder: Path, settings: TokenizerConfig, size: int | None) -> TokenizerBackend:
    """Loads OpenAI's table for a model with `size` tokens."""
    path = find_table(folder, size)
    vocabulary, merges = read_tiktoken(path)
    special = special_tokens(languages_of(path, size))
    numbers = {token: len(vocabulary) + i for i, token in enumerate(special)}
    added = {str(id): {"content": t, "special": True} for t, id in numbers.items()}
    settings = TokenizerConfig({**settings.values, "added_tokens_decoder": added})
    return transcribing(byte_level(BPE(vocabulary, merges), settings), settings)


def transcribing(backend: Backend, settings: TokenizerConfig) -> TokenizerBackend:
    """Sets the template with the start and end tokens of a transcript."""
    language, task = settings.values.get("language"), settings.values.get("task")
    start = start_tokens(language, task, settings.flag("predict_timestamps", False))
    end = settings.roles["eos"]
    set_template(backend, [*start, "$A", end], [*start, "$A", "$B:1", f"{end}:1"])
    return LibraryBackend(backend)


def find_table(folder: Path, size: int | None) -> Path:
    """Returns the path of the table for a model with `size` tokens."""
    there = [folder / name for name in TABLES if (folder / name).is_file()]
    if size is None:
        if len(there) > 1:
            raise LoadError(
                f"{folder} has both {MANY} and {ENGLISH}, and no config.json whose vocab_size "
                "tells which of them applies; load them with their model."
            )
        return there[0]
    fitting = [path for path in there if languages_of(path, size) in TABLES[path.name]]
    if not fitting:
        raise LoadError(
            f"A model of {size} tokens was not made with {' or '.join(p.name for p in there)}: it "
            f"would not be of 99 or 100 languages; put {table_for(size)} in {folder}, {ORIGIN}."
        )
    return fitting[0]


def languages_of(table: Path, size: int | None) -> int:
    """Returns how many languages a model with `size` tokens has."""
    return 99 if size is None else size - len(read_lines(table)) - len(special_tokens(0))


def table_for(size: int) -> str:
    return MANY if size >= MULTILINGUAL else ENGLISH


def start_id(size: int) -> int:
    """Returns the id of the start token in a published model with `size` tokens."""
    return 50258 if size >= MULTILINGUAL else 50257


def without_words(path: Path, size: int | None) -> str:
    """Returns the message that names the table a .pt file needs to decode text."""
    table = f"{ENGLISH} (English models) or {MANY}" if size is None else table_for(size)
    return f"to write text, {path} needs {table} beside it, {ORIGIN}."


def special_tokens(languages: int) -> list[str]:
    """Returns the special tokens that follow the tokens of a table."""
    return [
        "<|endoftext|>",
        START,
        *(f"<|{code}|>" for code in list(LANGUAGES)[:languages]),
        *(f"<|{task}|>" for task in TASKS),
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
        *TIMES,
    ]
