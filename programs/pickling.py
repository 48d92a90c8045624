"""How a program is pickled, and saved whole."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar

import cloudpickle
import dspy

from knowgap.errors import UsageError

_PICKLING: ContextVar[bool] = ContextVar("pickling", default=False)  # whether cloudpickle is at work on a program


class Pickled(dspy.Module):
    """A module that is pickled by cloudpickle, whatever pickles it; an index is pickled as the path of its folder."""

    name: ClassVar[str]

    def save(self, path: Any, save_program: bool = False, modules_to_serialize: Any = None) -> None:
        """Save as `dspy.Module.save` does; an index is saved as the path of its folder."""
        try:
            super().save(path, save_program, modules_to_serialize)
        except RuntimeError as error:
            raise UsageError(
                f"{self.name} has a part that cannot be saved ({error.__context__}): use knowgap.save(program, folder) "
                "and knowgap.load(folder, retriever=…), which leave index and models out"
            ) from error

    def __reduce_ex__(self, protocol: Any) -> Any:
        # cloudpickle also pickles signatures that DSPy has made at run time, by optimizers for one.
        if _PICKLING.get():
            return super().__reduce_ex__(protocol)
        token = _PICKLING.set(True)
        try:
            return cloudpickle.loads, (cloudpickle.dumps(self),)
        finally:
            _PICKLING.reset(token)
