"""What is to be said of the zoo's models, and how each is made and judged. Nothing that is measured
stands here: figures are found by build.py, and card.py writes both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One evaluation: `title` says of what, `options` are those of `glassformer evaluate`, whose
    file is one of the model's `eval`. `model` is another one to compare with, a run's folder, and
    `of` is then whose file it is."""

    title: str
    file: str
    options: str = ""
    model: str | None = None
    of: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`recipes` are run one after the other; the last but those `beside` it makes the model, which
    is the one in its run's folder `kept`. `shown` are the figures that the card has of each trial,
    with how they are written. `place` is that in the page's menu, `samples` what it opens with."""

    about: str
    language: str
    license: str
    pipeline: str
    place: int
    samples: tuple[dict[str, str], ...]
    recipes: tuple[str, ...]
    beside: tuple[str, ...] = ()
    kept: str = "model"
    settings: tuple[str, dict[str, Any]] | None = None  # of a task, that travel with the model
    trials: tuple[Trial, ...]
    shown: dict[str, str]
    data: tuple[tuple[str, str, str], ...]  # what, its license, whose it is
    compared: str
    examples: tuple[str, ...]
    notes: str = ""


WIKITEXT = ("WikiText-2", "CC BY-SA 3.0",
            "Merity et al. (2016), from Wikipedia's authors; pytorch/examples")  # fmt: skip
TATOEBA = ("Tatoeba's sentence pairs", "CC BY 2.0 FR",
           "tatoeba.org and its contributors, by way of www.manythings.org/anki")  # fmt: skip
CLINC = ("CLINC150", "CC BY 3.0", "Larson et al. (2019); clinc/oos-eval")
POLARITY = ("Sentence polarity dataset 1.0", "CC BY 4.0",
            "Bo Pang and Lillian Lee (2005); nltk/nltk_data")  # fmt: skip
REVIEWS = ("Movie reviews 2.0, subjectivity 1.0", "CC BY 4.0",
           "Bo Pang and Lillian Lee (2004); nltk/nltk_data")  # fmt: skip
SPEECHES = ("Addresses of presidents of the United States", "public domain", "nltk/nltk_data")
SQUAD = ("Paragraphs of SQuAD 1.1 and XQuAD", "CC BY-SA 4.0",
         "Rajpurkar et al. (2016), Artetxe et al. (2019), from Wikipedia's authors")  # fmt: skip

FACTS = {
    "translator": Facts(
        about="Translates short everyday sentences between English and French or Chinese, in all "
        "four directions. It is an encoder-decoder of Marian's class that is told the language to "
        "write by a token before the source.",
        language="[en, fr, zh]",
        license="cc-by-4.0",
        pipeline="translation",
        place=3,
        samples=(
            {"text": ">>en<< Où est la gare ?", "target": "Where is the train station?"},
            {"text": ">>zh<< I drink tea.", "target": "我喝茶。"},
        ),
        recipes=("translator",),
        kept="best",
        settings=("translation", {
            "split": "sentences",  # it has learned from single ones
            "directions": ["fr to en", "en to fr", "zh to en", "en to zh"],
        }),
        trials=(
            Trial(title="French to English", file="fr-en.tsv",
                  options="--to en --column source=fr --column target=en"),
            Trial(title="English to French", file="fr-en.tsv",
                  options="--to fr --column source=en --column target=fr"),
            Trial(title="Chinese to English", file="zh-en.tsv",
                  options="--to en --column source=zh --column target=en"),
            Trial(title="English to Chinese", file="zh-en.tsv",
                  options="--to zh --column source=en --column target=zh"),
        ),
        shown={"bleu": ".1f", "chrf": ".1f"},
        data=(TATOEBA,),
        compared="Of the same size and data there is no published model. OPUS-MT's, each of one "
        "direction and thirteen times the parameters, trained on all of OPUS, report a BLEU of "
        "57.5 (fr-en), 50.5 (en-fr), 36.1 (zh-en) and 31.4 (en-zh) on other sentences of "
        "Tatoeba's: near these, and not the same.",
        examples=(
            'glassformer translate zoo:translator "Où est la gare ?" --to en',
            'glassformer translate zoo:translator "I would like a cup of tea." '
            "--to zh",
        ),
        notes="1,000 pairs of each language pair are held out to test and 1,000 to validate. No "
        "sentence of theirs, in either language, is in the training pairs, case and punctuation "
        "not counted. One reference a sentence; BLEU by sacrebleu, 13a, for Chinese its zh "
        "tokenizer. Tatoeba mixes traditional and simplified characters: all were made simplified "
        "(OpenCC, t2s), the test sentences, too. Sentences like Tatoeba's, of about ten words, are "
        "all it knows.",
    ),
    "encoder": Facts(
        about="Fills gaps in English text, and is a body to fine-tune. It is a BERT of 6 layers, "
        "192 wide, with a masked-LM head, which learned whole words hidden anew each time, as "
        "RoBERTa did.",
        language="en",
        license="cc-by-sa-4.0",
        pipeline="fill-mask",
        place=4,
        samples=(
            {"text": "She drank a glass of [MASK]."},
            {"text": "He scored two [MASK] in the match against England."},
        ),
        recipes=("encoder",),
        beside=("encoder-tuned", "encoder-scratch"),
        trials=(
            Trial(title="hidden words of WikiText-2's test text", file="wikitext2-test.txt.gz"),
            Trial(title="reviews, fine-tuned", file="sentiment.tsv", of="reader",
                  model="runs/zoo/encoder-tuned/best"),
            Trial(title="reviews, the same shape from fresh weights", file="sentiment.tsv",
                  of="reader", model="runs/zoo/encoder-scratch/best"),
        ),
        shown={"perplexity": ".2f", "accuracy": ".3f", "word_perplexity": ".1f",
               "word_accuracy": ".3f"},
        data=(
            WIKITEXT, SQUAD, TATOEBA, REVIEWS,
            ("Pros and cons", "CC BY 4.0", "Bing Liu (2008); nltk/nltk_data"),
            SPEECHES, CLINC,
            ("Banking77", "CC BY 4.0", "Casanueva et al. (2020); PolyAI-LDN"),
        ),
        compared="BERT-Tiny (4.4 million parameters) and BERT-Mini (11.2 million) report an "
        "accuracy of 83.2 and 85.9 on SST-2, behind pre-training on 3.3 billion words and "
        "fine-tuning on 67,000 phrases. The reviews here are those that SST was made of, with a "
        "label a sentence, 8,500 to learn from; so the figures are near each other and not the "
        "same.",
        examples=(
            'glassformer fill zoo:encoder "She drank a glass of ___."',
            'glassformer train recipes/zoo/encoder-tuned.toml model.base=zoo:encoder',
        ),
        notes="Letters keep their case. A record is a line of text; a word counts as told if all "
        "its pieces are. Words that WikiText-2 has as unknown are never asked for. It knows how "
        "sentences go and few facts: the capital of France is, first of all, Japan.",
    ),
    "reader": Facts(
        about="Says of an English text what it is about, whether it is kind, and whom it names, by "
        "three heads on one small body: topic, sentiment, entities. The body began as zoo:encoder; "
        "a larger model (MiniLM, fine-tuned on the same labels) taught it what it thinks of 90,000 "
        "sentences without labels.",
        language="en",
        license="cc-by-sa-4.0",
        pipeline="text-classification",
        place=5,
        samples=(
            {"text": "book me a table for two"},
            {"text": "how much money is in my account"},
        ),
        recipes=("reader-teacher", "reader"),
        trials=(
            Trial(title="topic", file="topic.tsv", options="--head topic"),
            Trial(title="sentiment", file="sentiment.tsv", options="--head sentiment"),
            Trial(title="entities", file="entities.conll", options="--head entities"),
            *(
                Trial(title=f"{head}, its teacher", file=file, options=f"--head {head}",
                      of="reader", model="runs/zoo/reader-teacher/model")
                for head, file in (("topic", "topic.tsv"), ("sentiment", "sentiment.tsv"),
                                   ("entities", "entities.conll"))
            ),
        ),
        shown={"accuracy": ".3f", "macro_f1": ".3f", "f1": ".3f", "precision": ".3f",
               "recall": ".3f"},
        data=(
            CLINC, POLARITY,
            ("WNUT 2017", "CC BY 4.0", "Derczynski et al. (2017); leondz/emerging_entities_17"),
            ("Broad Twitter Corpus", "CC BY 4.0", "Derczynski et al. (2016)"),
            ("WikiGold", "CC BY 4.0", "Balasuriya et al. (2009)"),
            *((f"{what} (without labels)", *rest) for what, *rest in (REVIEWS, SQUAD, SPEECHES)),
            ("by way of zoo:encoder, all that it learned from", "see its card", ""),
        ),
        compared="Its teacher, with six times the parameters, stands in the table. On all of the "
        "sentiment sentences, in ten folds, Kim's CNN (2014) reports an accuracy of 76.1 from "
        "random word vectors and 81.5 from those of 100 billion words. Topics are CLINC150's ten "
        "domains, for which nobody reports figures. Names are those of WNUT 2017, rare on purpose, "
        "in three types, for which nobody reports figures either; MiniLM fine-tuned for its six "
        "types has an F1 of 42.5 (docs/recipes.md).",
        examples=(
            'glassformer classify zoo:reader "book me a table for two" --head topic',
            'glassformer classify zoo:reader "A dull film with a fine ending." --head sentiment',
            'glassformer tag zoo:reader "Ada Lovelace was born in London." --head entities',
        ),
        notes="Three heads on one body are no published class: config.json is Glassformer's own "
        "description. Topics are what people ask an assistant about: banking, travel, work, small "
        "talk and six more.",
    ),
    "letters": Facts(
        about="Writes Shakespeare letter by letter, and shows how it learned to: seven earlier "
        "steps of its training are kept beside it. It is a GPT-2 of 4 layers, 64 wide.",
        language="en",
        license="apache-2.0",
        pipeline="text-generation",
        place=6,
        samples=(
            {"text": "ROMEO:\nWhat light"},
            {"text": "KING RICHARD:\nMy lord,"},
        ),
        recipes=("letters",),
        trials=(
            Trial(title="the last tenth of the text", file="valid.txt"),
        ),
        shown={"perplexity": ".3f"},
        data=(("tiny Shakespeare", "public domain; MIT as a collection",
               "William Shakespeare; karpathy/char-rnn"),),
        compared="nanoGPT's README reports a validation loss of 1.88 for its small configuration "
        "(0.8 million parameters, 2,000 steps of 768 letters on a CPU) and 1.4697 for its large "
        "one (10.65 million, on a GPU). Beside them stands the validation loss above, of "
        "windows of 256 letters, each read by itself; with half a window of text before every "
        "letter the loss, which is the logarithm of the perplexity, is that of the table.",
        examples=(
            "glassformer open zoo:letters --text \"ROMEO:\"",
            "glassformer generate zoo:letters \"ROMEO:\" --do-sample --max-new-tokens 200",
        ),
        notes="`open` has a slider for the steps: the panel that compares two models.",
    ),
}  # fmt: skip
