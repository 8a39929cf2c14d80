"""HoAdd, as the paper prints it: two ciphertexts under different keys become one of their sum.

Part of the literal HoLT, the baseline that the packed one is measured against and tested with. Prediction
does not use it, and CC answers it only where it was told to (`ComputePartner(literal=True)`).
"""

from functools import lru_cache

from revfrf.crypto.dtpkc.as_printed import AddRequest, Term, cc_ho_add
from revfrf.crypto.dtpkc.as_printed import ho_add as literal_ho_add
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.messages.base import number, of_number
from revfrf.messages.frf_predict import CiphertextReply, HoAddRequest
from revfrf.names import CC
from revfrf.transport.base import Channel


def ho_add(channel: Channel, share: StrongShare, term_1: Term, term_2: Term) -> Ciphertext:
    """CS: [m1 + m2] under both keys, with CC's help."""
    return literal_ho_add(share, term_1, term_2, lambda ask: ask_sum(channel, share.parameters, ask))


def ask_sum(channel: Channel, parameters: Parameters, ask: AddRequest) -> Ciphertext:
    """CS: one exchange with CC."""
    message = HoAddRequest(
        c_1=number(ask.c_1),
        c_2=number(ask.c_2),
        half_1=number(ask.half_1),
        half_2=number(ask.half_2),
        joint_key=number(ask.joint_key.h),
    )
    return Ciphertext.from_bytes(parameters, channel.call(CC, message, CiphertextReply).ciphertext)


def answer_ho_add(share: StrongShare, message: HoAddRequest) -> CiphertextReply:
    """CC: it sees the sum of two masked messages."""
    p = share.parameters
    ask = AddRequest(
        of_number(message.c_1),
        of_number(message.c_2),
        of_number(message.half_1),
        of_number(message.half_2),
        public_key(p, of_number(message.joint_key)),
    )
    return CiphertextReply(ciphertext=cc_ho_add(share, ask).to_bytes(p))


@lru_cache(maxsize=256)
def public_key(parameters: Parameters, h: int) -> PublicKey:
    """The key with this h; what goes with it is computed once."""
    return PublicKey(parameters, h)
