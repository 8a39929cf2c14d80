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
    ├── CertificateError     a revocation certificate that does not hold, or cannot be written or read
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

    def __init__(self, reason: str, *, kind: str | None = None) -> None:
        super().__init__(reason)
        if kind is not None:
            self.kind = kind


class UsageError(RevFRFError, ValueError):
    """Kinds of a table: `no-table`, `no-ids`, `no-labels`. Of other files: `missing`, `exists`, `io`."""

    kind = "usage"


class ConfigError(UsageError):
    """Kinds: those of files, `syntax`, and of the content `section`, `key`, `value`."""

    kind = "config"


class InsecureKeyError(UsageError):
    """A key too short to protect anything, asked for without the explicit switch."""

    kind = "insecure-key"


class RangeError(UsageError):
    """A number outside the range that the protocol can carry."""

    kind = "range"


class SecretError(UsageError, TypeError):
    """A secret was about to leave its object other than by an explicit export."""

    kind = "secret"


class PartyError(RevFRFError):
    """Another party does not answer. `party` is its name."""

    def __init__(self, party: str, reason: str) -> None:
        super().__init__(f"{party!r} {reason}")
        self.party, self.reason = party, reason

    def __reduce__(self) -> tuple[type["PartyError"], tuple[str, str]]:
        return type(self), (self.party, self.reason)


class RefusedError(PartyError):
    """Another party has refused a message. Why is in that party's log, and not said to others."""

    kind = "refused"


class AbsentError(PartyError):
    """Another party cannot be reached."""

    kind = "absent"


class KeyFileError(RevFRFError):
    """Kinds: those of files, `malformed`, `version`."""

    kind = "key-file"


class ModelFileError(RevFRFError):
    """Kinds: those of files, `malformed`, `version`, `wrong-kind`, `digest`, `parameters`."""

    kind = "model-file"


class StorageError(RevFRFError):
    """Kinds: those of files, `full`, `in-use`, `closed`, `malformed`, `version`, `wrong-kind`."""

    kind = "storage"


class AuditLogError(RevFRFError):
    """Kinds: those of files; of what does not hold `malformed`, `chain`, `order`, `torn`, `head`."""

    kind = "audit-log"


class CertificateError(RevFRFError):
    """Kinds: those of files, `malformed`, `version`; and the part that does not hold: `epoch`, `succession`,
    `request`, `leaver`, `keys`, `receipt`, `report`, `signature`.
    """

    kind = "certificate"


class RejectedError(RevFRFError):
    """The reason is for the local log. A peer only gets `peer_message`: it is the same for every reason, so
    that a refusal never becomes an oracle. PolicyError and NoForestError have one of their own.
    """

    kind = "rejected"


class ElementError(RejectedError):
    """Kinds: `out-of-range`, `not-a-unit`, `jacobi`, `trivial`."""

    kind = "element"


class DecryptionError(RejectedError):
    """The wrong key, a tampered share and a tampered ciphertext look alike."""

    kind = "decryption"


class ProofError(RejectedError):
    """A proof of possession does not hold."""

    kind = "proof"


class SignatureError(RejectedError):
    """A signature does not hold, or is absent."""

    kind = "signature"


class SlotError(RejectedError):
    """A packed comparison holds what no honest server puts there."""

    kind = "slot"


class FormatError(RejectedError):
    """Kinds: `malformed`, `length`, `version`, `too-large`, `out-of-range`."""

    kind = "malformed"


class PassportError(RejectedError):
    """Kinds: `malformed`, `authority`, `expired`, `name`; of good certificates, `revoked` and `replaced`."""

    kind = "malformed"


class LetterError(RejectedError):
    """Kinds: `spent` (a second letter to a one-time key), `unknown` (one to a key never offered)."""

    kind = "unknown"


class PolicyError(RejectedError):
    """Kinds: `requester`, `quota`. A peer learns that it is the policy, not which rule."""

    kind = "policy"
    peer_message = "its policy does not accept this request"


class ProtocolError(RejectedError):
    """Kinds: `sender`, `epoch`, `forest`, `order`, `node`, `too-large`, `member`, `schema`, `request`,
    `replay`, `unexpected`.
    """

    kind = "unexpected"


class NoForestError(ProtocolError):
    """A requester learns that it is too early, not why, nor how far the forest is."""

    kind = "forest"
    peer_message = "the forest is not ready"
