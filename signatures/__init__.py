"""What a language model is asked: one file per act, each a typed `dspy.Signature`."""

from knowgap.signatures.adaptive_note import AnswerFromNote, CompareNotes, InitNote, ProposeQuestions, UpdateNote
from knowgap.signatures.answers import (
    AnswerDirectly,
    AnswerFromPassages,
    AnswerWithConfidence,
    ReasonDirectly,
    ReasonedAnswer,
)
from knowgap.signatures.baselines import (
    AnswerBySearching,
    AnswerWithCitations,
    DecomposeInOrder,
    FollowUp,
    NextSentence,
    NextStep,
    RankPassages,
    ReadingNotes,
)
from knowgap.signatures.blend_filter import (
    ExternalKnowledge,
    InternalKnowledge,
    KnowledgeRelevance,
    ReasonRelevance,
    RelevantIds,
    ShortenAnswer,
)
from knowgap.signatures.judging import AnswerFromText, JudgeAnswer, QuestionsOnText
from knowgap.signatures.migres import (
    ExtractSnippet,
    ExtractUsefulInfo,
    LastAnswer,
    MissingInfo,
    PromptedKnowledge,
    ProposeQueries,
    SummarisePassage,
)
from knowgap.signatures.ra_isf import Decompose, PassageRelevance, SelfKnowledge, Synthesise
from knowgap.signatures.rq_rag import DecomposeQuery, DisambiguateQuery, RewriteQuery
from knowgap.signatures.types import STYLES, SourcePassage, Statement, SubAnswer

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
