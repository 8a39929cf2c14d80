"""HoAdd and HoLT over messages, as the paper prints them (appendix A.2), one comparison at a time.

The packed HoLT (`protocols.paper.ho_lt`) is measured against this one and tested with it. Prediction does not
use it, and CC answers it only where it was told to (`ComputePartner(as_printed=True)`)::

    CS  [m1 + α1], [m2 + α2] with CS's halves, pk_u1 + pk_u2   ->  CC  opens, adds, encrypts
    CC  [m1 + m2 + α1 + α2]                                    ->  CS  takes α1 + α2 off
    CS  [r·β] with CS's half, pk_CS + pk_u2                    ->  CC  opens, looks at the sign
    CC  [l]                                                    ->  CS  [1 - l] if its coin is 0
"""

from collections.abc import Sequence
from functools import lru_cache

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.as_printed import Term
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.messages.base import number, of_number
from revfrf.messages.frf_predict import CiphertextReply, HoAddRequest, HoLTRequest
from revfrf.names import CC
from revfrf.transport.base import Channel

# -- CS ---------------------------------------------------------------------------------------------


def ho_add(channel: Channel, share: StrongShare, term_1: Term, term_2: Term) -> Ciphertext:
    """Return [m1 + m2] under both keys."""
    return as_printed.ho_add(share, term_1, term_2, _Partner(channel, share.parameters).add)


def ho_lt(channel: Channel, share: StrongShare, cs_key: PublicKey, x: Term, s: Term) -> Ciphertext:
    """Return [1] under h_CS·h_τ if x < s, else [0]."""
    cc = _Partner(channel, share.parameters)
    return as_printed.ho_lt(share, cs_key, x, s, cc.add, cc.sign)


class _Partner:
    """CC, as CS reaches it: one exchange per method."""

    def __init__(self, channel: Channel, parameters: Parameters) -> None:
        self._channel, self._parameters = channel, parameters

    def add(self, c_parts: Sequence[int], halves: Sequence[int], joint_key: PublicKey) -> Ciphertext:
        (c_1, c_2), (half_1, half_2) = map(number, c_parts), map(number, halves)
        return self._ask(
            HoAddRequest(c_1=c_1, c_2=c_2, half_1=half_1, half_2=half_2, joint_key=number(joint_key.h))
        )

    def sign(self, c: int, half: int, answer_key: PublicKey) -> Ciphertext:
        return self._ask(HoLTRequest(c=number(c), half=number(half), answer_key=number(answer_key.h)))

    def _ask(self, message: HoAddRequest | HoLTRequest) -> Ciphertext:
        reply = self._channel.call(CC, message, CiphertextReply)
        return Ciphertext.from_bytes(self._parameters, reply.ciphertext)


# -- CC ---------------------------------------------------------------------------------------------


def answer_ho_add(share: StrongShare, message: HoAddRequest) -> CiphertextReply:
    """Encrypt the sum of two masked messages."""
    c_parts = [of_number(message.c_1), of_number(message.c_2)]
    halves = [of_number(message.half_1), of_number(message.half_2)]
    joint_key = _public_key(share.parameters, message.joint_key)
    total = as_printed.cc_ho_add(share, c_parts, halves, joint_key)
    return CiphertextReply(ciphertext=total.to_bytes(share.parameters))


def answer_ho_lt(share: StrongShare, message: HoLTRequest) -> CiphertextReply:
    """Encrypt whether r·β, which has a coin's sign, is negative."""
    answer_key = _public_key(share.parameters, message.answer_key)
    answer = as_printed.cc_ho_lt(share, of_number(message.c), of_number(message.half), answer_key)
    return CiphertextReply(ciphertext=answer.to_bytes(share.parameters))


@lru_cache(maxsize=256)
def _public_key(parameters: Parameters, h: bytes) -> PublicKey:
    """Return the key with this h; what goes with it is computed once."""
    return PublicKey(parameters, of_number(h))
