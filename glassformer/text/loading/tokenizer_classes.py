"""Maps published tokenizer classes to the model types whose files they read."""

CLASSES = {
    name: tuple(model_types.split())
    for name, model_types in {
        "BertTokenizer": "bert distilbert electra",
        "DistilBertTokenizer": "distilbert",
        "ElectraTokenizer": "electra",
        "MobileBertTokenizer": "bert",
        "SqueezeBertTokenizer": "bert",
        "ConvBertTokenizer": "bert",
        "DPRQuestionEncoderTokenizer": "bert",
        "DPRContextEncoderTokenizer": "bert",
        "GPT2Tokenizer": "gpt2 gpt_neo gptj phi opt",
        "CodeGenTokenizer": "phi",
        "GPTNeoXTokenizer": "gpt_neox",
        "Qwen2Tokenizer": "qwen2 qwen3",
        "RobertaTokenizer": "roberta bart longformer",
        "BartTokenizer": "bart",
        "LongformerTokenizer": "longformer",
        "DebertaTokenizer": "deberta",
        "DebertaV2Tokenizer": "deberta-v2",
        "WhisperTokenizer": "whisper",
        "OpenAIGPTTokenizer": "openai-gpt",
        "XLMRobertaTokenizer": "xlm-roberta",
        "MBartTokenizer": "mbart",
        "MBart50Tokenizer": "mbart50",
        "NllbTokenizer": "nllb",
        "T5Tokenizer": "t5 mt5",
        "MT5Tokenizer": "mt5",
        "PegasusTokenizer": "pegasus",
        "AlbertTokenizer": "albert",
        "BigBirdTokenizer": "big_bird",
        "XLNetTokenizer": "xlnet",
        "LlamaTokenizer": "llama mistral",
        "GemmaTokenizer": "gemma gemma2 gemma3 gemma3_text",
        "CTRLTokenizer": "ctrl",
        "XLMTokenizer": "xlm",
        "TransfoXLTokenizer": "transfo-xl",
        "M2M100Tokenizer": "m2m_100",
        "MarianTokenizer": "marian",
        "FSMTTokenizer": "fsmt",
    }.items()
}
"""Maps a class name, without "Fast", to the model types whose files it reads, its own type first.
"""
GENERIC = (
    "AutoTokenizer",
    "PreTrainedTokenizer",
    "PreTrainedTokenizerBase",
    "TokenizersBackend",
    "PythonBackend",
    "SentencePieceBackend",
)
"""Classes that do not determine a reader: the model type does."""


def is_foreign(name: str | None) -> bool:
    """Whether a class is named whose files cannot be read here."""
    return name is not None and _plain(name) not in (*CLASSES, *GENERIC)


def model_type_by_class(name: str | None, model_type: str | None) -> str | None:
    """Returns the model type whose reader a class needs.

    This is the model's own type if the class reads its files.
    """
    known = () if name is None else CLASSES.get(_plain(name), ())
    return known[0] if known and model_type not in known else model_type


def _plain(name: str) -> str:
    return name.removesuffix("Fast")
