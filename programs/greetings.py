"""Greetings and thanks: a message that asks nothing gets a friendly line, without a search or a language model."""

from __future__ import annotations

import itertools
import re
from typing import Any

from knowgap.programs.prediction import CitedPrediction
from knowgap.programs.trace.steps import Answered, Asked
from knowgap.programs.trace.trace import Trace

_LANGUAGES = """
hello, hello there, hi, hi there, hey, good morning, good afternoon, good evening, greetings | thanks, thank you, thanks a lot, many thanks, thank you very much, thank you so much, cheers | Hello! What would you like to know? | You’re welcome!
hallo, guten tag, guten morgen, guten abend, servus, moin, grüß gott | danke, danke schön, dankeschön, vielen dank, danke sehr, besten dank | Hallo! Was möchten Sie wissen? | Gern geschehen!
bonjour, salut, bonsoir, coucou | merci, merci beaucoup, merci bien, un grand merci | Bonjour ! Que voulez-vous savoir ? | Je vous en prie !
hola, buenos días, buenas tardes, buenas noches, buenas | gracias, muchas gracias, mil gracias | ¡Hola! ¿Qué quiere saber? | ¡De nada!
ciao, buongiorno, buonasera, salve | grazie, grazie mille, tante grazie, molte grazie | Ciao! Che cosa vuole sapere? | Prego!
olá, oi, bom dia, boa tarde, boa noite | obrigado, obrigada, muito obrigado, muito obrigada | Olá! O que gostaria de saber? | De nada!
goedemorgen, goedemiddag, goedenavond, goedendag, hoi | dank je, dank u, bedankt, dank je wel, dank u wel | Hallo! Wat wilt u weten? | Graag gedaan!
cześć, dzień dobry, dobry wieczór, witam | dziękuję, dzięki, dziękuję bardzo, bardzo dziękuję | Dzień dobry! Co chcesz wiedzieć? | Nie ma za co!
hej, god morgon, god kväll, hejsan, god morgen, god dag | tack, tack så mycket, tak, mange tak, takk, tusen takk | Hej! Vad vill du veta? | Varsågod!
merhaba, selam, günaydın, iyi günler, iyi akşamlar | teşekkürler, teşekkür ederim, sağ ol, çok teşekkürler | Merhaba! Ne öğrenmek istersiniz? | Rica ederim!
привет, здравствуйте, добрый день, доброе утро, добрый вечер | спасибо, большое спасибо, спасибо большое | Здравствуйте! Что вы хотите узнать? | Пожалуйста!
مرحبا, السلام عليكم, صباح الخير, مساء الخير, أهلا | شكرا, شكرا جزيلا | مرحبا! ماذا تريد أن تعرف؟ | على الرحب والسعة!
你好, 您好, 早上好, 晚上好, 嗨 | 谢谢, 多谢, 谢谢你, 谢谢您, 非常感谢, 謝謝 | 你好！你想知道什么？ | 不客气！
こんにちは, おはよう, おはようございます, こんばんは | ありがとう, ありがとうございます, どうもありがとう | こんにちは！何を知りたいですか？ | どういたしまして！
안녕하세요, 안녕 | 감사합니다, 고마워요, 고맙습니다, 고마워 | 안녕하세요! 무엇을 알고 싶으세요? | 천만에요!
"""  # noqa: E501 - greetings | thanks | the reply to greetings | the reply to thanks; a language on each line
_REPLIES = {
    word.casefold(): reply
    for *words, hello, welcome in [line.split(" | ") for line in reversed(_LANGUAGES.strip().splitlines())]
    for kind, reply in enumerate((hello, welcome))
    for word in words[kind].split(", ")
}


def greet(program: Any, message: str) -> CitedPrediction | None:
    """The friendly line that a greeting or thanks gets; None if the message says anything else.

    A message with a question mark, or with the title of a document, is a question.
    """
    text = re.sub("[\u064b-\u0652]", "", message.casefold().replace("’", "'"))  # without Arabic vowels
    replies = [_REPLIES.get(" ".join(part.split()), "") for part in re.split(r"[^\w\s']+", text) if part.strip()]
    if not replies or not all(replies) or re.search("[?？؟;՞]", text):
        return None
    passages = itertools.islice(program.retriever if hasattr(program.retriever, "__iter__") else (), 20_000)
    if any(message.strip().casefold() in passage.title.casefold().split(" / ") for passage in passages):
        return None
    trace = Trace(program=program.name, question=message, steps=[Asked(question=message), Answered(answer=replies[-1])])
    return CitedPrediction(passages=[], supported=None, missing="", guess="", trace=trace, answer=replies[-1])
