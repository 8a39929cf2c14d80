"""Every error RevFRF raises on purpose.

::

    RevFRFError
    ├── UsageError           the caller's mistake; the message says what to do instead
    │   ├── ConfigError          a party's configuration that cannot be used
    │   ├── InsecureKeyError     a key below the floor without the explicit switch
    │   ├── RangeError           a number that does not fit where it should go
    │   └── SecretError          an attempt to pickle or copy a secret
    ├── PartyError           another party does not answer; `party` names it
    │   ├── RefusedError         it has refused what it was sent
    │   └── AbsentError          it is not there
    ├── KeyFileError         a file of a public key that cannot be written or read
    ├── ModelFileError       a saved forest that cannot be written or read
    ├── StorageError         a party's database that cannot be written or read
    ├── AuditLogError        a party's audit log that does not hold
    ├── CertificateError     an event certificate that does not hold, or cannot be written or read
    └── RejectedError        something from outside is refused
        ├── ElementError         a number that is no valid group element
        ├── DecryptionError      a ciphertext that this key, share or partner does not open
        ├── ProofError           a proof of possession that does not hold
        ├── SignatureError       a signature that does not hold
        ├── SlotError            a packed comparison whose slots hold what no honest server puts there
        ├── FormatError          bytes that do not parse, or are of another version
        ├── PassportError        certificates that do not prove who somebody is
        ├── LetterError          a letter to a key that is spent, or was never offered
        ├── PolicyError          a request that this party's policy does not accept
        └── ProtocolError        a well-formed message that has no place here and now
            └── NoForestError        a question to a forest that is not ready

Checks raise; nothing returns a bool that a caller could forget to look at. Each error has a `kind`, a
stable slug for scripts and test vectors. Those of files are `missing`, `exists`, `not-regular`, `too-large`,
`io`, `mode` and `owner`.
"""

from typing import ClassVar


class RevFRFError(Exception):
    """Base of all errors of this package. `str` of it is the reason, `kind` its slug."""

    kind: str = "error"
    peer_message: ClassVar[str] = "rejected"
    """What a peer learns about it."""

    def __init_subclass__(cls, *, kind: str | None = None) -> None:
        cls.kind = kind or cls.kind

    def __init__(self, reason: str, *, kind: str | None = None) -> None:
        super().__init__(reason)
        if kind is not None:
            self.kind = kind


class UsageError(RevFRFError, ValueError, kind="usage"):
    """Kinds of a table: `no-table`, `no-ids`, `no-labels`. Of other files: `missing`, `exists`, `io`."""


class ConfigError(UsageError, kind="config"):
    """Kinds: those of files, `syntax`, and of the content `section`, `key`, `value`."""


class InsecureKeyError(UsageError, kind="insecure-key"):
    """A key too short to protect anything, asked for without the explicit switch."""


class RangeError(UsageError, kind="range"):
    """A number outside the range that the protocol can carry."""


class SecretError(UsageError, TypeError, kind="secret"):
    """A secret was about to leave its object other than by an explicit export."""


class PartyError(RevFRFError):
    """Another party does not answer. `party` is its name."""

    def __init__(self, party: str, reason: str) -> None:
        super().__init__(f"{party!r} {reason}")
        self.party, self.reason = party, reason

    def __reduce__(self) -> tuple[type["PartyError"], tuple[str, str]]:
        return type(self), (self.party, self.reason)


class RefusedError(PartyError, kind="refused"):
    """Another party has refused a message. Why is in that party's log, and not said to others."""


class AbsentError(PartyError, kind="absent"):
    """Another party cannot be reached."""


class KeyFileError(RevFRFError, kind="key-file"):
    """Kinds: those of files, `malformed`, `version`."""


class ModelFileError(RevFRFError, kind="model-file"):
    """Kinds: those of files, `malformed`, `version`, `wrong-kind`, `digest`, `parameters`."""


class StorageError(RevFRFError, kind="storage"):
    """Kinds: those of files, `full`, `in-use`, `closed`, `malformed`, `version`, `wrong-kind`."""


class AuditLogError(RevFRFError, kind="audit-log"):
    """Kinds: those of files; of what does not hold `malformed`, `chain`, `order`, `torn`, `head`."""


class CertificateError(RevFRFError, kind="certificate"):
    """Kinds: those of files, `malformed`, `version`; and the part that does not hold: `epoch`, `succession`,
    `request`, `inputs`, `receipt`, `report`, `signature`.
    """


class RejectedError(RevFRFError, kind="rejected"):
    """The reason is for the local log. A peer only gets `peer_message`: it is the same for every reason, so
    that a refusal never becomes an oracle. PolicyError and NoForestError have one of their own.
    """


class ElementError(RejectedError, kind="element"):
    """Kinds: `out-of-range`, `not-a-unit`, `jacobi`, `trivial`."""


class DecryptionError(RejectedError, kind="decryption"):
    """The wrong key, a tampered share and a tampered ciphertext look alike."""


class ProofError(RejectedError, kind="proof"):
    """A proof of possession does not hold."""


class SignatureError(RejectedError, kind="signature"):
    """A signature does not hold, or is absent."""


class SlotError(RejectedError, kind="slot"):
    """A packed comparison holds what no honest server puts there."""


class FormatError(RejectedError, kind="malformed"):
    """Kinds: `malformed`, `length`, `version`, `too-large`, `out-of-range`."""


class PassportError(RejectedError, kind="malformed"):
    """Kinds: `malformed`, `authority`, `expired`, `name`; of good certificates, `revoked` and `replaced`."""


class LetterError(RejectedError, kind="unknown"):
    """Kinds: `spent` (a second letter to a one-time key), `unknown` (one to a key never offered)."""


class PolicyError(RejectedError, kind="policy"):
    """Kinds: `requester`, `quota`. A peer learns that it is the policy, not which rule."""

    peer_message = "its policy does not accept this request"


class ProtocolError(RejectedError, kind="unexpected"):
    """Kinds: `sender`, `epoch`, `forest`, `order`, `node`, `too-large`, `member`, `schema`, `request`,
    `replay`, `leaver`, `budget`, `unexpected`.
    """


class NoForestError(ProtocolError, kind="forest"):
    """A requester learns that it is too early, not why, nor how far the forest is."""

    peer_message = "the forest is not ready"
