"""What belongs to a conversation: greetings and thanks, which ask nothing, and follow-up questions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.programs.passages import strip_numbers
from knowgap.programs.prediction import NOT_SUPPORTED, CitedPrediction
from knowgap.programs.replies.text import known_text
from knowgap.programs.trace.steps import Answered, Asked
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.grounding import grounded
from knowgap.signatures import CompleteFollowUp
from knowgap.signatures.types import SubAnswer

_MARKS = ("?", "？", "؟")
_LANGUAGES = """
hello, hello there, hi, hi there, hey, good morning, good afternoon, good evening, greetings | thanks, thank you, thanks a lot, many thanks, thank you very much, thank you so much, cheers | Hello! What would you like to know? | You’re welcome!
hallo, guten tag, guten morgen, guten abend, servus, moin, grüß gott | danke, danke schön, dankeschön, vielen dank, danke sehr, besten dank | Hallo! Was möchten Sie wissen? | Gern geschehen!
bonjour, salut, bonsoir, coucou | merci, merci beaucoup, merci bien, un grand merci | Bonjour ! Que voulez-vous savoir ? | Je vous en prie !
hola, buenos días, buenas tardes, buenas noches, buenas | gracias, muchas gracias, mil gracias | ¡Hola! ¿Qué quiere saber? | ¡De nada!
ciao, buongiorno, buonasera, salve | grazie, grazie mille, tante grazie, molte grazie | Ciao! Che cosa vuole sapere? | Prego!
olá, oi, bom dia, boa tarde, boa noite | obrigado, obrigada, muito obrigado, muito obrigada | Olá! O que gostaria de saber? | De nada!
goedemorgen, goedemiddag, goedenavond, goedendag, hoi | dank je, dank u, bedankt, dank je wel, dank u wel | Hallo! Wat wilt u weten? | Graag gedaan!
cześć, dzień dobry, dobry wieczór, witam | dziękuję, dzięki, dziękuję bardzo, bardzo dziękuję | Dzień dobry! Co chcesz wiedzieć? | Nie ma za co!
привет, здравствуйте, добрый день, доброе утро, добрый вечер | спасибо, большое спасибо, спасибо большое | Здравствуйте! Что вы хотите узнать? | Пожалуйста!
مرحبا, السلام عليكم, صباح الخير, مساء الخير, أهلا | شكرا, شكرا جزيلا | مرحبا! ماذا تريد أن تعرف؟ | على الرحب والسعة!
你好, 您好, 早上好, 晚上好, 嗨 | 谢谢, 多谢, 谢谢你, 谢谢您, 非常感谢, 謝謝 | 你好！你想知道什么？ | 不客气！
こんにちは, おはよう, おはようございます, こんばんは | ありがとう, ありがとうございます, どうもありがとう | こんにちは！何を知りたいですか？ | どういたしまして！
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
    fields: dict[str, Any] = {"supported": None, "missing": "", "guess": "", "trace": trace, "citations": []}
    return CitedPrediction(**fields, passages=[], answer=replies[-1])


class FollowUp(Program):
    """Completes a follow-up question from the conversation before it; the `answer` is the self-contained question.

    It takes one call of the language model. The question is left unchanged if the reply cannot be read, is not a
    question, copies the conversation, or contains a name that the conversation does not, as far as capitals tell names.

    Args:
        said: earlier questions and their answers, the oldest first.
    """

    name = "follow_up"
    needs_retriever = False

    def __init__(self, said: Sequence[SubAnswer]) -> None:
        super().__init__()
        self.said = list(said)
        self.rewriter = dspy.Predict(CompleteFollowUp)

    def forward(self, question: str) -> dspy.Prediction:
        """Rewrite the question."""
        answers = [" ".join(strip_numbers(turn.answer).split()) for turn in self.said]
        answers = [NOT_SUPPORTED if answer.startswith(NOT_SUPPORTED) else answer for answer in answers]
        turns = zip(self.said, answers, strict=True)
        conversation = "\n".join(f"{turn.question}\n{answer}" for turn, answer in turns)
        output = self.ask(self.rewriter, conversation=conversation, follow_up=question)
        complete = known_text(output, "complete_question").strip()
        copied = complete in conversation.split("\n")
        asks = complete.endswith(_MARKS) or not question.rstrip().endswith(_MARKS)
        fits = asks and not copied and not grounded(complete, [conversation, question]).absent
        return dspy.Prediction(answer=complete if complete and fits else question, passages=[])
