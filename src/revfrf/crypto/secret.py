"""Values that must not leak by accident: they do not print, pickle or copy."""

from typing import NoReturn, TypeVar

from revfrf.errors import RevFRFError, SecretError

Error = TypeVar("Error", bound=RevFRFError)


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
            f"{type(self).__name__} holds a secret and cannot be pickled or copied; "
            "use its explicit export, or a key file"
        )


class SecretInt(Secret):
    """A secret integer. Only `reveal` hands it out."""

    __slots__ = ("_value",)

    def __init__(self, value: int) -> None:
        self._value = value

    def reveal(self) -> int:
        """The number itself: for arithmetic, and for writing key files."""
        return self._value


def without_frames(error: Error) -> Error:
    """The error without the frames and causes seen so far, whose local variables are secrets."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
