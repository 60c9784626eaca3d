"""Languages are recognized by script and words, and never guessed wrongly among those known."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer.zoo
from glassformer.text.detect_language import detect_language
from glassformer.text.iso_languages import NAMES, iso_code

ARTICLES = {  # the first article of the Universal Declaration of Human Rights, and phrases
    "en": "All human beings are born free and equal in dignity and rights.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati "
    "di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de "
    "razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren.",
    "sv": "Alla människor är födda fria och lika i värde och rättigheter.",
    "fi": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on "
    "annettu järki ja omatunto, ja he ovat veljiä.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Kde je nádraží?",
    "ro": "Toate ființele umane se nasc libere și egale în demnitate și în drepturi.",
    "hu": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "vi": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama.",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    "ar": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. هذا من حق كل إنسان.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतंत्रता और समानता प्राप्त है।",
    "zh": "人人生而自由，在尊严和权利上一律平等。",
    "ja": "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
}


@pytest.mark.parametrize(("code", "text"), ARTICLES.items())
def test_the_first_article(code, text):
    assert detect_language(text) == code
    assert code in NAMES


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("de", "Ich liebe dich."),
        ("zh", "我爱你。"),
        ("fr", "Où est la gare ?"),
        ("de", "Guten Morgen."),
    ],
)
def test_short_texts(code, text):
    assert detect_language(text) == code


@pytest.mark.parametrize("text", ["", "12:30", "Tom", "!?", "Berlin Paris", "Tom 汤姆"])
def test_what_has_no_language(text):
    assert detect_language(text) is None


@pytest.mark.parametrize(("file", "codes"), [("fr-en", "fr en"), ("zh-en", "zh en")])
def test_sentences_are_not_mistaken_for_another_language(file, codes):
    path = Path(glassformer.zoo.__file__).parent / f"translator/eval/{file}.tsv"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    for column, code in enumerate(codes.split()):
        found = [detect_language(row[column]) for row in rows]
        assert set(found) <= {code, None}
        assert found.count(code) > 0.7 * len(rows)
        few = [detect_language(row[column], {"en", "fr", "zh"}) for row in rows]
        assert set(few) <= {code, None}
        assert few.count(code) > 0.9 * len(rows)


def test_codes_of_tokenizers():
    codes = ["de", "de_DE", "deu_Latn", "zh_CN", "zho_Hans", "cmn_Hant", "pt-BR", "xx"]
    assert [iso_code(code) for code in codes] == ["de", "de", "de", "zh", "zh", "zh", "pt", "xx"]
