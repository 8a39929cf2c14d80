"""What is written to disk, piece by piece."""

import msgspec


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something to be written down. It may hold secrets, and prints as its name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
