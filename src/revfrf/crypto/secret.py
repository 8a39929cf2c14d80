"""Values that must not leak by accident: they do not print, pickle or copy."""

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from revfrf.errors import SecretError

Params = ParamSpec("Params")
Result = TypeVar("Result")


class Secret:
    """Mixin: a redacted `repr`, and no way through pickle or copy.

    It stops accidents (a log line, a traceback with locals, a worker process), not a debugger. Subclasses
    offer one explicit method to export what they hold.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: secret>"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"{type(self).__name__} holds a secret and cannot be pickled or copied; use its explicit export"
        )


class SecretInt(Secret):
    """A secret integer. Only `reveal` hands it out."""

    __slots__ = ("_value",)

    def __init__(self, value: int) -> None:
        self._value = value

    def reveal(self) -> int:
        """The number itself: for arithmetic, and for a party's own store."""
        return self._value


def hides_locals(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Decorator: errors leave `function` without its frames, whose local variables are secrets.

    A crash reporter that prints local variables then sees this wrapper, which no longer holds anything.
    """

    @wraps(function)
    def guarded(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # of whatever kind: a bug's traceback must not show a key either
            problem = error.with_traceback(None)
            problem.__cause__ = problem.__context__ = None
        del args, kwargs
        raise problem

    return guarded
