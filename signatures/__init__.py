"""What a language model is asked: typed `dspy.Signature` classes, the docstring of each being its instructions.

One file per method, read beside the program of the same name in `knowgap.programs`; what the baselines ask; what
metrics ask; answers that several programs ask for; and the types of the fields. Sources stand in comments above the
classes, since a docstring is sent to the model word for word.
"""

from knowgap.signatures.adaptive_note import (
    AnswerFromNote,
    CompareNotes,
    CompleteNote,
    InitNote,
    ProposeQuestions,
    UpdateNote,
)
from knowgap.signatures.answers import STYLES, UNKNOWN, AnswerDirectly, AnswerFromPassages, ReasonedAnswer
from knowgap.signatures.baselines import (
    AnswerBySearching,
    AnswerWithCitations,
    DecomposeInOrder,
    FollowUp,
    NextSentence,
    NextStep,
    RankPassages,
    ReadingNotes,
    ReasonDirectly,
)
from knowgap.signatures.blend_filter import (
    EXPECTED_RELEVANT,
    AssessAndFilter,
    FilterKnowledge,
    InternalKnowledge,
    KnowledgeRelevance,
    ReasonRelevance,
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
from knowgap.signatures.ra_isf import (
    INTERMEDIATE,
    AnswerFromRelevant,
    ChainedDecompose,
    Decompose,
    DecomposeOpen,
    JointRelevance,
    PassageRelevance,
    ReadRelevant,
    SelfKnowledge,
    Synthesise,
    SynthesiseAll,
)
from knowgap.signatures.rq_rag import (
    AnswerWithConfidence,
    DecomposeQuery,
    DisambiguateQuery,
    RefineQuery,
    RewriteQuery,
    Searched,
)
from knowgap.signatures.types import SourcePassage, Statement, SubAnswer

__all__ = [
    "EXPECTED_RELEVANT",
    "INTERMEDIATE",
    "STYLES",
    "UNKNOWN",
    "AnswerBySearching",
    "AnswerDirectly",
    "AnswerFromNote",
    "AnswerFromPassages",
    "AnswerFromRelevant",
    "AnswerFromText",
    "AnswerWithCitations",
    "AnswerWithConfidence",
    "AssessAndFilter",
    "ChainedDecompose",
    "CompareNotes",
    "CompleteNote",
    "Decompose",
    "DecomposeInOrder",
    "DecomposeOpen",
    "DecomposeQuery",
    "DisambiguateQuery",
    "ExtractSnippet",
    "ExtractUsefulInfo",
    "FilterKnowledge",
    "FollowUp",
    "InitNote",
    "InternalKnowledge",
    "JointRelevance",
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
    "ReadRelevant",
    "ReadingNotes",
    "ReasonDirectly",
    "ReasonRelevance",
    "ReasonedAnswer",
    "RefineQuery",
    "RewriteQuery",
    "Searched",
    "SelfKnowledge",
    "ShortenAnswer",
    "SourcePassage",
    "Statement",
    "SubAnswer",
    "SummarisePassage",
    "Synthesise",
    "SynthesiseAll",
    "UpdateNote",
]
