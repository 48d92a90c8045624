"""What an error says about other questions: whether asking again may help, and whether all others would fail too."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from dspy.utils import exceptions as lm_errors

from knowgap.errors import EmptyQuestion, KnowgapError, LanguageModelUnreachable
from knowgap.lms.metering import is_garbled
from knowgap.lms.providers import as_language_model_error

_CONNECTION_ERRORS = (
    LanguageModelUnreachable,
    lm_errors.LMTransportError,
    lm_errors.LMTimeoutError,
    lm_errors.LMServerError,
    lm_errors.LMRateLimitError,
)
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}
_FATAL_ERRORS = (KnowgapError, lm_errors.LMConfigurationError, lm_errors.LMAuthError, lm_errors.LMBillingError)


def is_connection_error(error: BaseException) -> bool:
    """Whether the language model could not be reached or its answer was garbled, so that a retry may succeed."""
    return any(isinstance(cause, _CONNECTION_ERRORS) or is_garbled(cause) for cause in _causes(error))


def fatal_cause(error: BaseException) -> Exception | None:
    """The cause of an error that would make every other question fail as well, or None.

    Such causes are errors of knowgap's own, a language model that refuses its key or has no quota left (returned as a
    `LanguageModelError`), and a disk that is full, read-only or broken.
    """
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _DISK_ERRORS:
            return cause
        if isinstance(cause, _FATAL_ERRORS) and not isinstance(cause, (EmptyQuestion, *_CONNECTION_ERRORS)):
            return as_language_model_error(cause) if isinstance(cause, lm_errors.LMError) else cause
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
