"""Which of our readers reads the files of which."""

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
"""Class, without "Fast", to the model types whose files it reads; the first one is its own."""
GENERIC = (
    "AutoTokenizer",
    "PreTrainedTokenizer",
    "PreTrainedTokenizerBase",
    "TokenizersBackend",
    "PythonBackend",
    "SentencePieceBackend",
)
"""Classes that say nothing: the model type decides."""


def is_foreign(name: str | None) -> bool:
    """Whether a class is named whose files nobody here reads."""
    return name is not None and _plain(name) not in (*CLASSES, *GENERIC)


def model_type_by_class(name: str | None, model_type: str | None) -> str | None:
    """The type whose reader a class asks for: the model's own, if it is one of the class's."""
    known = () if name is None else CLASSES.get(_plain(name), ())
    return known[0] if known and model_type not in known else model_type


def _plain(name: str) -> str:
    return name.removesuffix("Fast")
