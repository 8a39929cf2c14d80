"""Messages by which parties on different machines find each other."""

from revfrf.messages.base import Message, Name


class SetUpRequest(Message, frozen=True):
    """CS to KGC: enrol everybody whom you have invited, and begin the first epoch."""

    protocol = "key set-up"
    max_bytes = 1024


class SetUpReply(Message, frozen=True):
    """KGC to CS: who has to come before the epoch can begin, or who has refused it; none if it has begun, and
    everybody knows.
    """

    protocol = "key set-up"
    max_bytes = 64 * 1024
    missing: Name | None
    refused: Name | None


class AdmissionRequest(Message, frozen=True):
    """A requester to KGC: admit me in the current epoch."""

    protocol = "key set-up"
    max_bytes = 1024
