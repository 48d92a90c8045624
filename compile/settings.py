"""Settings that are checked when they are made, with errors of one line."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from knowgap.errors import UnknownName, ValueOutOfBounds


class Settings(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Named values, which may be given as text.

    Raises:
        UnknownName: there is no such setting.
        ValueOutOfBounds: a value does not fit.
    """

    what: ClassVar[str] = "setting"
    """What a setting is called in errors."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                raise UnknownName.among(self.what, name, type(self).model_fields) from None
            reason = first["msg"].replace("Input should be", "must be")
            raise ValueOutOfBounds(f"{name} = {first['input']!r}: {reason}") from None
