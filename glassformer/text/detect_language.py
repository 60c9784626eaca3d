"""Detection of a text's language by its script, its frequent words and its special letters.

It is deterministic and needs no model. It says None where it is not sure: for a single word, a
name, or a language that it does not know.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

SCRIPTS: Mapping[str, str] = {  # the first word of a letter's Unicode name -> the only language
    "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "GREEK": "el", "HEBREW": "he",
    "THAI": "th", "ARMENIAN": "hy", "GEORGIAN": "ka", "BENGALI": "bn", "TAMIL": "ta",
    "TELUGU": "te", "GUJARATI": "gu", "KANNADA": "kn", "MALAYALAM": "ml", "KHMER": "km",
    "LAO": "lo", "MYANMAR": "my", "SINHALA": "si", "CJK": "zh",
}  # fmt: skip
SHARED = ("LATIN", "CYRILLIC", "ARABIC", "DEVANAGARI")  # scripts of several languages
LETTERS: Mapping[str, str] = {  # letters that, of the languages below, only these have
    "de": "ß", "fr": "œ", "es": "ñ¿¡", "pt": "ãõ", "pl": "łąężźśćń", "cs": "ěřůď", "ro": "țșăţş",
    "hu": "őű", "tr": "ğıİ", "vi": "đơưạảấầẩậắằẳẵặẹẻẽếềểễệịỉọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ", "da": "",
    "uk": "їєґі", "ru": "ыэё", "fa": "پچژگ", "ur": "ٹڈڑںے",
}  # fmt: skip
WORDS: Mapping[str, str] = {  # frequent words, greetings, pronouns, questions
    "en": "the of and to is that it was for on are with as his they at be this have from "
    "or had by but not what all were we when your can said there an which she he i "
    "you my me do don't it's i'm how their if will would about them then these so "
    "her him has who where why could should been did no please thank good morning "
    "hello let's want know like love very much time day night people man woman "
    "child children home house work today tomorrow yesterday never always more than "
    "only some any many over after before again here come came go went going get "
    "got make made take took see saw say says think thought give find tell told "
    "call need feel try leave put mean keep begin help show hear play run move live "
    "believe happen write sit stand lose pay meet include set learn change lead "
    "understand watch follow stop create speak read spend grow open walk win teach "
    "offer remember consider appear buy serve die send build stay fall cut reach "
    "kill raise too really old new great big small long little own other right high "
    "different large next early young important few public bad same able still "
    "another every each such because while though until that's he's she's we're "
    "you're they're isn't aren't wasn't can't won't didn't doesn't tom's",
    "fr": "j' l' d' c' n' s' m' t' qu' le la les de des du et est un une que qui dans "
    "pour pas ne sur au aux avec ce cette ces il elle je tu nous vous ils elles mon "
    "ma mes ton ta son sa ses leur leurs été être avoir ai as suis es sont fait "
    "mais ou où donc par plus tout tous toute comme si se bonjour merci oui non "
    "quel quelle quand pourquoi comment très bien cela ça moi toi lui y en à c'est "
    "j'ai n'est d'un d'une qu'il l'ai aime veux faut rien jamais encore aussi amour "
    "temps jour nuit gens homme femme enfant maison travail aujourd'hui demain hier "
    "toujours trop peu beaucoup bon bonne grand petite petit nouveau vieux faire "
    "dit dire va vais allez aller vient venir voir voit sait savoir peut peux "
    "pouvez pouvoir dois doit devez devoir prendre prends donner parler parle "
    "croire pense penser mettre laisser trouver rester chez après avant sans sous "
    "entre vers depuis pendant personne quelque quelqu'un chose autre même deux "
    "trois maintenant ici là soir matin s'il l'a l'on d'accord qu'est qu'on n'a m'a "
    "t'a étais était étaient sera serait aurait avait avons avez ont sommes êtes "
    "heure ans fois vie peur besoin envie",
    "de": "der die das und ist nicht ein eine einen einem einer ich du er sie es wir ihr "
    "mich dich sich mir dir mit auf für von zu den dem des im am als auch wie was "
    "wo wer warum wann aber oder wenn dass bei nach aus noch nur hat haben habe "
    "hast war waren wird werden kann kein keine sind bin bist guten gute morgen tag "
    "danke bitte liebe heute sehr hier mein dein sein uns ihn ihnen hallo heiße "
    "geht gut immer schon mehr über unter gibt mal doch zeit leute mann frau kind "
    "kinder haus arbeit gestern nie viel viele alles etwas nichts machen macht "
    "gehen komme kommt kommen sehen sagt sagen wissen weiß denke denken geben "
    "nehmen finden soll sollen muss müssen möchte will wollen darf durch ohne gegen "
    "zwischen während weil bevor diese dieser dieses jeder jede welche wieder "
    "zusammen gerade jetzt dann dort",
    "es": "el la los las de que y en un una es no se por con para su sus al del lo como "
    "más pero le ha me mi mis te tu si sin sobre este esta esto ser son fue está "
    "están muy también hay yo tú él ella nosotros ustedes cuando donde dónde qué "
    "cómo quién hola gracias buenos días quiero tengo tiene estoy soy eres hasta "
    "desde nada todo bien usted porque",
    "it": "l' d' c' un' dell' nell' il lo la gli le di che e è un una non per in con del "
    "della dei delle nel nella sono ho hai ha mi ti si ci come più ma anche questo "
    "questa quello cosa dove quando perché chi io tu lui lei noi voi loro "
    "buongiorno grazie ciao al alla da dal sul era essere fare molto bene tutto sei "
    "mio mia tuo suo se ancora mai sempre",
    "pt": "o os as de que e do da dos das em um uma é não se por com para no na nos nas "
    "ao mais como mas foi ele ela eu tu você nós eles seu sua meu minha isso este "
    "esta está são ser ter tem muito também quando onde obrigado bom dia olá há já "
    "só até bem tudo fazer quero estou",
    "nl": "de het een en van ik je dat niet is in op te zijn met voor er maar om hem dan "
    "wat nog aan ook als naar bij door ze zij hij wij jij mijn jouw haar ons kan "
    "heeft hebben heb was waren worden wordt geen goedemorgen dank hallo waar wie "
    "waarom hoe dit deze die uit over ben bent gaan goed meer veel",
    "sv": "och att det som en på är av för med den till inte har de ett om han hon jag du "
    "vi ni mig dig sig var men så hur vad när där från eller min din kan ska vill "
    "finns bara efter också god tack hej mycket här",
    "da": "og at det som en på er af for med den til ikke har de et om han hun jeg du vi "
    "mig dig sig var men så hvordan hvad når hvor fra eller min din kan skal vil "
    "findes kun efter også god tak hej meget her blev være",
    "no": "og at det som en på er av for med den til ikke har de et om han hun jeg du vi "
    "meg deg seg var men så hvordan hva når hvor fra eller min din kan skal vil "
    "finnes bare etter også god takk hei mye her ble være",
    "fi": "ja on ei se että hän oli minä sinä me te he mutta kun niin kuin myös ovat olen "
    "olet tämä mikä mitä missä miksi kuka hyvää kiitos hei voi ole joka hyvin nyt "
    "vain jos",
    "pl": "i w na z się nie to że do jest jak o co po ale za od tak czy już tylko przez "
    "dla był była być ma mam mnie mi ciebie cię ty ja on ona my wy oni jestem są "
    "dzień dobry dziękuję gdzie kiedy dlaczego kto bardzo ten ta może przed",
    "cs": "a se v na je že to s z do o ale jak za by jsem jsi jsou byl byla být mám má mě "
    "tě ty já on ona my vy oni dobrý den děkuji kde kdy proč kdo velmi ten ta co "
    "když nebo jen už jako",
    "ro": "și în de la cu nu este un o că pe din care mai se sunt pentru ce am ai are eu "
    "tu el ea noi voi ei lui dar sau când unde cum cine bună ziua mulțumesc foarte "
    "fost fi acest această",
    "hu": "a az és hogy nem is egy van ez de meg csak már mint volt én te ő mi ti ők "
    "vagyok vagy jó napot köszönöm hol mikor miért ki mit nagyon még kell lesz itt "
    "ott",
    "tr": "ve bir bu da de için ile ne var çok ben sen o biz siz onlar değil mi gibi daha "
    "en ama olarak kadar sonra nasıl nerede kim teşekkür merhaba günaydın iyi seni "
    "beni olan ki her yok",
    "vi": "và của là có không một được cho người trong này với các đã tôi bạn anh em nó "
    "khi đến ở những cảm ơn xin chào gì rất cũng thì mà ra như",
    "id": "yang dan di itu orang semua mempunyai dengan untuk tidak ini dari dalam akan "
    "pada juga saya kamu anda dia kami mereka ke karena ada bisa sudah apa siapa "
    "mana kapan terima kasih selamat pagi sangat adalah",
    "ru": "и в не на я что он с как это по но мы ты вы они она из у за от же бы для до "
    "так его её мне меня тебя был была есть где когда почему кто спасибо привет "
    "здравствуйте очень люблю нет да",
    "uk": "і в не на я що він з як це по але ми ти ви вони вона із у за від же для до так "
    "його її мені мене тебе був була є де коли чому хто дякую привіт дуже люблю ні "
    "та",
    "bg": "и в не на аз че той с как това по но ние ти вие те тя от за до така го я му ми "
    "е съм са беше къде кога защо кой благодаря здравей много обичам да се",
    "sr": "и у не на ја што он са како то по али ми ти ви они она из за од до тако га јој "
    "је сам су био где када зашто ко хвала здраво много волим да се",
    "ar": "في من على إلى أن هذا هذه التي الذي لا ما هو هي كان عن مع أنا أنت نحن هل كيف "
    "أين متى شكرا مرحبا لم قد كل بعد أحبك",
    "fa": "در و به از که این را با است آن برای یک من تو او ما شما آنها نیست چه کجا کی چرا "
    "متشکرم سلام خیلی بود هم دوستت دارم",
    "ur": "میں ہے کے کی کا اور سے کو نے پر یہ وہ ہیں تم آپ ہم نہیں کیا کہاں کب شکریہ سلام "
    "بہت تھا",
    "hi": "है में के की का और से को ने पर यह वह हैं मैं तुम आप हम नहीं क्या कहाँ कब "
    "धन्यवाद नमस्ते बहुत था हूँ करता",
    "mr": "आहे आणि मी तू तो ती हे ते नाही काय कुठे कधी धन्यवाद नमस्कार खूप होते मला आम्ही",
}  # fmt: skip
KNOWN = {language: frozenset(words.split()) for language, words in WORDS.items()}
LETTER = r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0900-\u0dff])"  # with marks that follow it
WORD = re.compile(rf"{LETTER}+(?:'{LETTER}+)?")
ELIDED = re.compile(rf"{LETTER}+'(?={LETTER})")  # French and Italian: j'ai, un'ora
LEAST, AHEAD = 2.0, 1.5  # points of the best language, and times those of the second
FEW, FAR = 1.0, 2.0  # the same among few languages


def detect_language(text: str, among: Collection[str] | None = None) -> str | None:
    """Returns the ISO 639-1 code of a text's language, or None if it is not sure.

    Args:
        text: The text.
        among: The only languages that the text can be in, of which fewer words are enough.

    >>> detect_language("Où est la gare ?")
    'fr'
    """
    script = detect_script(text)
    if script not in SHARED:
        return SCRIPTS.get(script or "")
    points = language_points(text, KNOWN if among is None else among)
    ranked = sorted(points, key=lambda language: (-points[language], language))
    best = points[ranked[0]]
    second = points[ranked[1]] if len(ranked) > 1 else 0.0
    least, ahead = (LEAST, AHEAD) if among is None else (FEW, FAR)
    return ranked[0] if best >= least and best >= ahead * second else None


def detect_script(text: str) -> str | None:
    """Returns the script of most letters of a text, as in their Unicode names, or None.

    >>> detect_script("Привет!")
    'CYRILLIC'
    """
    scripts = Counter(script for letter in text if (script := _script(letter)) is not None)
    if not scripts:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0 and scripts["CJK"] + scripts["HIRAGANA"]:
        scripts["HIRAGANA"] += scripts.pop("CJK", 0)  # Japanese writes both
    script, letters = scripts.most_common(1)[0]
    return script if letters > sum(scripts.values()) / 2 else None


def scripts_of(language: str) -> set[str]:
    """Returns the scripts of a language, by its ISO 639-1 code; none if they are not known."""
    found = {script for script, owner in SCRIPTS.items() if owner == language}
    words = {_script(letter) for word in KNOWN.get(language, ()) for letter in word}
    return found | {script for script in words if script is not None}


def language_points(text: str, among: Iterable[str]) -> dict[str, float]:
    """Returns how many words of a text are frequent in each language, and its special letters.

    A word that several of the languages have counts less.
    """
    text = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    words = {*WORD.findall(text), *ELIDED.findall(text)}
    points = dict.fromkeys(among, 0.0)
    for word in words:
        owners = [language for language in points if word in KNOWN.get(language, ())]
        for language in owners:
            points[language] += 1 / len(owners) ** 0.5
    for language in points:
        points[language] += len(set(LETTERS.get(language, "")) & set(text))
    return points


def _script(letter: str) -> str | None:
    if not letter.isalpha():
        return None
    return unicodedata.name(letter, "").split(" ")[0] or None
