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
    with how they are written. `place` is that in the page's menu, `samples` what it opens with.
    `replaces` lists versions that shipped before."""

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
    version: str = "0.1"
    replaces: tuple[str, ...] = ()
    home: str = "glassformer/zoo"


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
        "four directions. It is an encoder-decoder of Marian's class with a token before the "
        "source that selects the target language.",
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
        compared="There is no published model of this size on this data. The OPUS-MT models, each "
        "for one direction, with thirteen times the parameters and trained on all of OPUS, report "
        "a BLEU of 57.5 (fr-en), 50.5 (en-fr), 36.1 (zh-en) and 31.4 (en-zh) on other sentences "
        "of Tatoeba, so the figures are not directly comparable.",
        examples=(
            'glassformer translate zoo:translator "Où est la gare ?" --to en',
            'glassformer translate zoo:translator "I would like a cup of tea." '
            "--to zh",
        ),
        notes="1,000 pairs of each language pair are held out for testing and 1,000 for "
        "validation. None of their sentences, in either language, is in the training pairs, "
        "ignoring case and punctuation. There is one reference per sentence. BLEU is computed by "
        "sacrebleu with the tokenizer 13a, for Chinese with its tokenizer zh. Tatoeba mixes "
        "traditional and simplified characters; all sentences, including the test sentences, were "
        "converted to simplified ones (OpenCC, t2s). Use the model only for short sentences like "
        "those of Tatoeba, of about ten words.",
    ),
    "encoder": Facts(
        about="Fills gaps in English text, and is a base for fine-tuning. It is a BERT of 6 "
        "layers, 192 wide, with a masked-LM head, trained with dynamic whole-word masking, as in "
        "RoBERTa.",
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
        "accuracy of 83.2 and 85.9 on SST-2, after pre-training on 3.3 billion words and "
        "fine-tuning on 67,000 phrases. The reviews here are those from which SST was made, with "
        "one label per sentence and 8,500 training sentences, so the figures are not directly "
        "comparable.",
        examples=(
            'glassformer fill zoo:encoder "She drank a glass of ___."',
            'glassformer train recipes/zoo/encoder-tuned.toml model.base=zoo:encoder',
        ),
        notes="The model is cased. A record is a line of text; a word counts as correct if all "
        "its pieces are. Words that are unknown in WikiText-2 are never masked. The model has "
        "learned grammar but few facts: its first prediction for the capital of France is Japan.",
    ),
    "reader": Facts(
        home="zoo/glassformer_zoo",
        about="Predicts the topic, the sentiment and the named entities of an English text, with "
        "three heads on one small body. Training started from zoo:encoder, and also used 90,000 "
        "unlabeled sentences with the predictions of a larger model (MiniLM, fine-tuned on the "
        "same labels).",
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
            ("the training data of zoo:encoder", "see its card", ""),
        ),
        compared="The table includes the teacher, which has six times the parameters. With "
        "ten-fold cross-validation on all sentiment sentences, Kim's CNN (2014) reports an "
        "accuracy of 76.1 from random word vectors and 81.5 from vectors of 100 billion words. "
        "The topics are the ten domains of CLINC150, for which we know no published figures. The "
        "entities are those of WNUT 2017, which were chosen to be rare, in three types, for which "
        "we know no published figures either; MiniLM fine-tuned for its six types has an F1 of "
        "42.5 (docs/recipes.md).",
        examples=(
            'glassformer classify zoo:reader "book me a table for two" --head topic',
            'glassformer classify zoo:reader "A dull film with a fine ending." --head sentiment',
            'glassformer tag zoo:reader "Ada Lovelace was born in London." --head entities',
        ),
        notes="No published class has three heads on one body, so config.json is Glassformer's "
        "own spec. The topics are those of questions to an assistant: banking, travel, work, "
        "small talk and six more.",
    ),
    "six": Facts(
        version="0.2",
        about="Translates je suis étudiant into i am a student, the example of \"The Illustrated "
        "Transformer\". The target vocabulary has six words: a, am, i, thanks, student and the end "
        "of the text. The model is an encoder-decoder of Marian's class with 2 + 2 layers, 32 "
        "wide, with snapshots of four earlier steps of its training.",
        language="[fr, en]",
        license="apache-2.0",
        pipeline="translation",
        place=7,
        samples=({"text": "je suis étudiant", "target": "i am a student"},),
        recipes=("six",),
        trials=(
            Trial(title="the two pairs it was trained on", file="pairs.tsv",
                  options="--task translation --column source=fr --column target=en"),
        ),
        shown={"bleu": ".1f", "chrf": ".1f"},
        data=(("two sentence pairs", "Apache-2.0", "this project"),),
        compared="There is nothing to compare it with: it knows two sentences and nothing else. "
        "Guessing among six words has a loss of ln 6 = 1.79.",
        examples=(
            'glassformer translate zoo:six "je suis étudiant"',
            'glassformer open zoo:six --text "je suis étudiant"',
        ),
        notes="The tokens 0 to 5 are the target vocabulary; the source vocabulary has these and "
        "je, suis, étudiant, merci and the unknown word. On the page (`glassformer open`), the "
        "panel that compares two models has a slider for the steps 0, 5, 10, 20 and 60.",
    ),
    "letters": Facts(
        about="Writes Shakespeare character by character, with snapshots of seven earlier steps "
        "of its training. It is a GPT-2 of 4 layers, 64 wide.",
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
        "(0.8 million parameters, 2,000 steps of 768 characters on a CPU) and 1.4697 for its "
        "large one (10.65 million, on a GPU). These are comparable with the validation loss "
        "above, which is computed in separate windows of 256 characters. The loss in the table "
        "(the logarithm of the perplexity) has at least half a window of context for every "
        "character.",
        examples=(
            "glassformer open zoo:letters --text \"ROMEO:\"",
            "glassformer generate zoo:letters \"ROMEO:\" --do-sample --max-new-tokens 200",
        ),
        notes="On the page (`glassformer open`), the panel that compares two models has a slider "
        "for the steps.",
    ),
}  # fmt: skip
