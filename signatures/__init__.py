"""What a language model is asked: one file per act, each a typed `dspy.Signature`."""

from knowgap.signatures.answer_by_searching import AnswerBySearching
from knowgap.signatures.answer_directly import AnswerDirectly, ReasonDirectly
from knowgap.signatures.answer_from_note import AnswerFromNote
from knowgap.signatures.answer_from_passages import AnswerFromPassages, AnswerWithConfidence
from knowgap.signatures.answer_from_text import AnswerFromText
from knowgap.signatures.cite_answer import AnswerWithCitations
from knowgap.signatures.compare_notes import CompareNotes
from knowgap.signatures.compress_passage import ExtractSnippet, SummarisePassage
from knowgap.signatures.cot_answer import ReasonedAnswer
from knowgap.signatures.decompose import Decompose
from knowgap.signatures.decompose_in_order import DecomposeInOrder
from knowgap.signatures.external_knowledge import ExternalKnowledge
from knowgap.signatures.extract_useful_info import ExtractUsefulInfo
from knowgap.signatures.filter_knowledge import KnowledgeRelevance, ReasonRelevance, RelevantIds
from knowgap.signatures.follow_up import FollowUp
from knowgap.signatures.init_note import InitNote
from knowgap.signatures.internal_knowledge import InternalKnowledge
from knowgap.signatures.judge_answer import JudgeAnswer
from knowgap.signatures.missing_info import LastAnswer, MissingInfo
from knowgap.signatures.next_step import NextSentence, NextStep
from knowgap.signatures.passage_relevance import PassageRelevance
from knowgap.signatures.prompted_knowledge import PromptedKnowledge
from knowgap.signatures.propose_queries import ProposeQueries
from knowgap.signatures.propose_questions import ProposeQuestions
from knowgap.signatures.questions_on_text import QuestionsOnText
from knowgap.signatures.rank_passages import RankPassages
from knowgap.signatures.reading_notes import ReadingNotes
from knowgap.signatures.refine_query import DecomposeQuery, DisambiguateQuery, RewriteQuery
from knowgap.signatures.self_knowledge import SelfKnowledge
from knowgap.signatures.shorten_answer import ShortenAnswer
from knowgap.signatures.synthesise import Synthesise
from knowgap.signatures.types import STYLES, SourcePassage, Statement, SubAnswer
from knowgap.signatures.update_note import UpdateNote

__all__ = [
    "STYLES",
    "AnswerBySearching",
    "AnswerDirectly",
    "AnswerFromNote",
    "AnswerFromPassages",
    "AnswerFromText",
    "AnswerWithCitations",
    "AnswerWithConfidence",
    "CompareNotes",
    "Decompose",
    "DecomposeInOrder",
    "DecomposeQuery",
    "DisambiguateQuery",
    "ExternalKnowledge",
    "ExtractSnippet",
    "ExtractUsefulInfo",
    "FollowUp",
    "InitNote",
    "InternalKnowledge",
    "JudgeAnswer",
    "KnowledgeRelevance",
    "LastAnswer",
    "MissingInfo",
    "NextSentence",
    "NextStep",
    "PassageRelevance",
    "PromptedKnowledge",
    "ProposeQueries",
    "ProposeQuestions",
    "QuestionsOnText",
    "RankPassages",
    "ReadingNotes",
    "ReasonDirectly",
    "ReasonRelevance",
    "ReasonedAnswer",
    "RelevantIds",
    "RewriteQuery",
    "SelfKnowledge",
    "ShortenAnswer",
    "SourcePassage",
    "Statement",
    "SubAnswer",
    "SummarisePassage",
    "Synthesise",
    "UpdateNote",
]
