"""Proofs of possession: the owner of h knows sk with h = g0^sk.

Without them a participant could publish h_u = g0^a / h_CS, so that the joint key h_CS·h_u is one whose
secret it knows alone. A Schnorr proof over the integers, made non-interactive by SHA-256 and bound to the
owner's name.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass

from revfrf.crypto.canonical import digest
from revfrf.crypto.dtpkc.arithmetic import inverse, multiply, power, secret_power
from revfrf.crypto.dtpkc.keys import Parameters, PublicKey, WeakKey
from revfrf.crypto.secret import SecretInt
from revfrf.errors import ProofError, UsageError

_CHALLENGE_BITS = 256
_STATISTICAL_BITS = 128
"""By how many bits the nonce is longer than challenge·sk, which it hides (the group's order is unknown)."""


@dataclass(frozen=True, slots=True, repr=False)
class PossessionProof:
    """The challenge c and the response s = k + c·sk; the commitment g0^k = g0^s·h^-c follows from them."""

    challenge: int
    response: int


def prove_possession(key: WeakKey, owner: str) -> PossessionProof:
    """A proof that `owner` holds this key; it convinces nobody under another name."""
    p = key.parameters
    nonce = SecretInt(1 + secrets.randbelow(1 << _nonce_bits(p)))
    commitment = secret_power(p.g0, nonce, p.n)
    challenge = _challenge(key.public, owner, commitment)
    return PossessionProof(challenge, nonce.reveal() + challenge * key.sk.reveal())


def verify_possession(public: PublicKey, owner: str, proof: PossessionProof) -> None:
    """Raise ProofError unless the proof holds for this key and this owner."""
    p = public.parameters
    in_range = 0 <= proof.challenge < 1 << _CHALLENGE_BITS and 0 <= proof.response < 1 << (_nonce_bits(p) + 1)
    if in_range:
        blinding = power(inverse(public.h, p.n), proof.challenge, p.n)
        commitment = multiply(p.n, power(p.g0, proof.response, p.n), blinding)
        with suppress(UsageError):  # an owner whose name has no canonical bytes
            if _challenge(public, owner, commitment) == proof.challenge:
                return
    raise ProofError(f"the proof of possession of {owner!r} does not hold for its public key")


def _nonce_bits(parameters: Parameters) -> int:
    return parameters.exponent_bits + _CHALLENGE_BITS + _STATISTICAL_BITS


def _challenge(public: PublicKey, owner: str, commitment: int) -> int:
    p = public.parameters
    hashed = digest("revfrf possession v1", p.n, p.g0, p.exponent_bits, public.h, owner, commitment)
    return int.from_bytes(hashed, "big")
