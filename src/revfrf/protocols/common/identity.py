"""What a party knows of itself and of its federation, and how it is written down."""

from dataclasses import dataclass

import msgspec

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import ProtocolError
from revfrf.messages.base import number, of_number
from revfrf.messages.key_setup import Admission, DtpkcParameters, EpochCertificate, Member
from revfrf.protocols.common.epoch import read_parameters, read_share, write_parameters
from revfrf.record import Record


@dataclass
class Keys(Secret):
    """A party's keys of DT-PKC: its weak key, and of a server the strong share."""

    weak: WeakKey
    share: StrongShare | None

    @property
    def dtpkc(self) -> DtpkcParameters:
        """The public parameters of these keys, as messages carry them."""
        return write_parameters(self.weak.parameters)

    def record(self) -> "KeysRecord":
        """Return all of it, to be written down."""
        sk, share = self.weak.sk, self.share
        own = None if share is None else number(share.value.reveal())
        return KeysRecord(self.dtpkc, number(sk.reveal()), own)


@dataclass
class Identity(Secret):
    """What a party knows of itself and of its federation. It was given `kgc`, KGC's key, beforehand.

    `pending_keys` are keys of an epoch that KGC has not certified yet. `deal` is the number of the last deal,
    `dealt_epoch` the epoch that it was for. Under the shares protocol there are no `keys`.
    """

    name: str
    role: str
    kgc: VerifyKey
    signing: SigningKey | None
    allow_insecure: bool = False
    federation: str = ""
    keys: Keys | None = None
    pending_keys: Keys | None = None
    deal: int = 0
    dealt_epoch: int = 0
    certificate: EpochCertificate | None = None
    admission: Admission | None = None

    @property
    def epoch(self) -> int:
        """The current one; 0 before the first."""
        return 0 if self.certificate is None else self.certificate.epoch

    @property
    def weak(self) -> WeakKey:
        """The weak key of this epoch. Raises ProtocolError if it is not here."""
        if self.keys is None:
            raise ProtocolError(f"{self.name!r} has no weak key here", kind="member")
        return self.keys.weak

    @property
    def share(self) -> StrongShare:
        """The strong share of this epoch. Raises ProtocolError if it is not here."""
        if self.keys is None or self.keys.share is None:
            raise ProtocolError(f"{self.name!r} has no strong share here", kind="member")
        return self.keys.share

    @property
    def signing_key(self) -> SigningKey:
        """The key to sign with. Raises ProtocolError if it was not saved with the forest."""
        if self.signing is None:
            raise ProtocolError(f"{self.name!r} has no private keys here", kind="member")
        return self.signing

    @property
    def admitted(self) -> Admission:
        """KGC's admission as a requester. Raises ProtocolError if there is none."""
        if self.admission is None:
            raise ProtocolError(f"{self.name!r} is not admitted as a requester", kind="member")
        return self.admission

    def member(self, keys: Keys | None) -> Member:
        """Return what an epoch certificate says about this party if these are its keys."""
        h = None if keys is None else number(keys.weak.public.h)
        return Member(self.name, self.role, h, self.signing_key.verify_key.raw)

    def record(self) -> "IdentityRecord":
        """Return all of it, to be written down."""
        known = vars(self) | {
            "kgc": self.kgc.raw,
            "signing": None if self.signing is None else self.signing.export(),
            "keys": None if self.keys is None else self.keys.record(),
            "pending_keys": None if self.pending_keys is None else self.pending_keys.record(),
        }
        return IdentityRecord(**{name: known[name] for name in IdentityRecord.__struct_fields__})


class KeysRecord(Record, frozen=True):
    """`Keys`, all under the same parameters."""

    dtpkc: DtpkcParameters
    sk: bytes
    share: bytes | None

    def keys(self, role: str, allow_insecure: bool) -> Keys:
        """Return the keys of a party with this role. Raises RevFRFError if they are invalid."""
        parameters = read_parameters(self.dtpkc, allow_insecure)
        weak = WeakKey(parameters, SecretInt(of_number(self.sk)))
        return Keys(weak, read_share(parameters, role, self.share))


class IdentityRecord(Record, frozen=True):
    """`Identity`."""

    name: str
    role: str
    kgc: bytes
    signing: bytes | None
    federation: str
    keys: KeysRecord | None
    pending_keys: KeysRecord | None
    deal: int
    dealt_epoch: int
    certificate: EpochCertificate | None
    admission: Admission | None

    def identity(self, allow_insecure: bool) -> Identity:
        """Return the identity. Raises RevFRFError if it is invalid."""

        def read(keys: KeysRecord | None) -> Keys | None:
            return None if keys is None else keys.keys(self.role, allow_insecure)

        changed = {
            "kgc": VerifyKey(self.kgc),
            "signing": None if self.signing is None else SigningKey.from_bytes(self.signing),
            "keys": read(self.keys),
            "pending_keys": read(self.pending_keys),
        }
        return Identity(allow_insecure=allow_insecure, **(msgspec.structs.asdict(self) | changed))
