"""Makes transfo_xl.json: what the last transformers release with Transformer-XL gives.

    pip install transformers==4.35.2 torch sacremoses
    python make_transfo_xl.py

Run in this folder. Later releases have no TransfoXLTokenizer, so its results are kept.
"""

import json
import tempfile
from pathlib import Path

import transformers

LINES = """
<eos> <unk> the , . of and in to a 's was The @-@ @,@ @.@ " ( ) dog fox quick brown it didn 't mind
1 000 3 14159 2017 ' : ; ! ? die Nebel Königin étudiant école à l je suis 你好 世界 мир well known
U.S. $ % & * / - -- flies like an arrow <formula> 😀
"""
WORDS = LINES.split()
TEXTS = [
    "",
    "  ",
    "The quick brown fox didn't mind: it flies (like an arrow).",
    "  odd   spaces \t tab \n newline  ",
    "1,000 and 3.14159 in 2017, 1/2 of $ 5,000.00!",
    "a well-known -- dash - and the dog's U.S. \"quote\" 'quote'",
    "Die Königin im Nebel; je suis étudiant à l'école ?",
    "你好，世界！ Привет, мир 😀",
    "the <unk> dog <eos> and <formula> here<eos>",
    "“curly” ‘quotes’ … & ampersand <tag> a@b.org https://example.org/a?b=c",
]


def main() -> None:
    results = []
    for lower_case in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vocab.txt"
            path.write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
            tokenizer = transformers.TransfoXLTokenizer(vocab_file=str(path), lower_case=lower_case)
            ids = [tokenizer(text)["input_ids"] for text in TEXTS]
            decoded = [tokenizer.decode(row, clean_up_tokenization_spaces=False) for row in ids]
            results.append({"lower_case": lower_case, "ids": ids, "decoded": decoded})
    made = {
        "transformers": transformers.__version__,
        "words": WORDS,
        "texts": TEXTS,
        "results": results,
    }
    Path("transfo_xl.json").write_text(
        json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
