"""HoLT, packed: is x ≤ s, for a requester's x and an owner's s, both encrypted? (Appendix A.2.)

All comparisons of one depth take two exchanges, one with CC and one with each owner τ::

    CS  packs of masked β = 2x - 2s - 1, with halves   ->  CC  opens, reads one bit per slot (`packing`)
    CC  per owner [bits, fault] by h_CS·h_τ, signed    ->  CS
    CS  request, [bits, fault], signature of CC        ->  τ   checks both                  FT-Predict, line 5
    τ   its share of the opening, ParHDec1             ->  CS  ParHDec2, undoes its coins   lines 6 and 7

The paper compares two numbers at a time: see `crypto.dtpkc.as_printed`.

A slot may hold a value that no honest comparison leaves there: a number out of range, or a CS that asks CC to
open something else. One more bit behind the owner's others, the fault, says so, sealed like them. If CC
refused openly, CS could find a threshold by what CC refuses, without any owner's consent.
"""

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from revfrf.crypto.canonical import Field
from revfrf.crypto.dtpkc.dtpkc import par_h_dec1
from revfrf.crypto.dtpkc.keys import Ciphertext, PublicKey, WeakKey
from revfrf.crypto.dtpkc.packing import Comparison, Pack, mask_comparisons, read_slots, slots, undo_coins
from revfrf.crypto.dtpkc.sealed_bits import SealedBits, open_bits, seal_bits
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import AbsentError, DecryptionError, ElementError, FormatError, ProtocolError, RefusedError
from revfrf.messages.base import array, number, of_number
from revfrf.messages.frf_predict import (
    COMPARISONS,
    MaskedComparisons,
    Request,
    SealedResults,
    ShareReply,
    ShareRequest,
)
from revfrf.metering import within
from revfrf.names import CC
from revfrf.parallel import in_threads, side_by_side
from revfrf.transport.base import Channel, blaming

_RESULT = "revfrf comparison result v1"


def _result(request: Request, depth: int, owner: str, count: int, ciphertext: bytes) -> tuple[Field, ...]:
    """Return what CC signs of each result: for which request, depth and owner it is."""
    a = request.admission
    return (a.federation, a.epoch, request.forest, request.id, depth, owner, count, ciphertext)


# -- CS ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComparingServer:
    """CS's side of HoLT: its channel, its keys, CC's verify key, and its number of cores."""

    channel: Channel
    share: StrongShare
    weak: WeakKey
    cc: VerifyKey
    n_jobs: int


def ho_lt(
    cs: ComparingServer, request: Request, depth: int, asked: Mapping[str, Sequence[Comparison]]
) -> dict[str, list[bool]]:
    """Return whether x ≤ s for the comparisons with each owner's splits, without owners who are offline.

    Raises RefusedError, naming the party, if an owner or CC refuses, or an owner's share is wrong, and
    AbsentError if CC is offline.
    """
    with within(MaskedComparisons.protocol):
        counts = {owner: len(own) for owner, own in asked.items()}
        draw = random.SystemRandom().sample  # so that CC cannot tell which row or node a slot is of
        orders = {owner: draw(range(count), count) for owner, count in counts.items()}
        comparisons = [own[i] for owner, own in asked.items() for i in orders[owner]]
        packs, coins = mask_comparisons(cs.share, cs.weak.public, comparisons, n_jobs=cs.n_jobs)
        numbers, packed = np.array(list(counts.values()), dtype=COMPARISONS), _write_packs(cs.share, packs)
        message = MaskedComparisons(
            request=request, depth=depth, owners=tuple(asked), counts=numbers.tobytes(), packs=packed
        )
        with blaming(CC):
            sealed = _results(cs, counts, cs.channel.call(CC, message, SealedResults))
        opened = _open(cs, sealed, _shares(cs, request, depth, sealed))
        if any(fault for *_, fault in opened.values()):
            raise RefusedError(CC, "has found a value outside the range that can be compared")
        answers, coins_of = {}, _by_owner(coins, counts)
        for owner, (*bits, _) in opened.items():
            in_order = zip(orders[owner], undo_coins(bits, coins_of[owner]), strict=True)
            answers[owner] = [answer for _, answer in sorted(in_order)]
        return answers


Bit = TypeVar("Bit")


def _by_owner(bits: Sequence[Bit], counts: Mapping[str, int]) -> dict[str, list[Bit]]:
    """Cut the bits of all owners into each owner's own."""
    rest = iter(bits)
    return {owner: list(islice(rest, count)) for owner, count in counts.items()}


def _write_packs(share: StrongShare, packs: Sequence[Pack]) -> bytes:
    """C in 2|N| bits and the half in |N| bits of each; all but the last have every slot in use."""
    width = share.parameters.key_bits // 8
    return b"".join(p.c.to_bytes(2 * width, "big") + p.half.to_bytes(width, "big") for p in packs)


Sealed = Mapping[str, tuple[SealedBits, bytes]]
"""By owner, its results and CC's signature."""


def _results(cs: ComparingServer, counts: Mapping[str, int], reply: SealedResults) -> Sealed:
    p = cs.share.parameters
    ciphertexts = array(reply.ciphertexts, f"V{p.ciphertext_bytes}", len(counts)).tolist()
    if not len(reply.masked) == len(reply.signatures) == len(counts):
        raise FormatError(f"{len(reply.signatures)} results for {len(counts)} owners", kind="length")
    sealed = {}
    for i, (owner, count) in enumerate(counts.items()):
        bits = SealedBits(Ciphertext.from_bytes(p, ciphertexts[i]), reply.masked[i], count + 1)
        sealed[owner] = bits, reply.signatures[i]
    return sealed


def _shares(cs: ComparingServer, request: Request, depth: int, sealed: Sealed) -> dict[str, int]:
    """Return the owners' shares of their results, without owners who are offline."""

    def ask(owner: str) -> int | None:
        bits, signature = sealed[owner]
        ciphertext = bits.ciphertext.to_bytes(cs.share.parameters)
        message = ShareRequest(
            request=request, depth=depth, count=bits.count - 1, ciphertext=ciphertext, signature=signature
        )
        try:
            with blaming(owner):
                reply = cs.channel.call(owner, message, ShareReply)
                if reply.count != message.count:
                    raise ProtocolError(f"a share of {reply.count} bits, not {message.count}", kind="request")
                return of_number(reply.share)
        except AbsentError:
            return None
        except RefusedError:
            with blaming(CC):  # if the owner was shown what CC has not signed
                verify_result(cs.cc, owner, message)
            raise

    given = zip(sealed, side_by_side(ask, list(sealed)), strict=True)
    return {owner: share for owner, share in given if share is not None}


def _open(cs: ComparingServer, sealed: Sealed, shares: Mapping[str, int]) -> dict[str, list[bool]]:
    """Return the bits of all owners who gave a share, with the fault bit last.

    If they do not open together, find and blame the owner whose share is wrong.
    """
    results = [sealed[owner][0] for owner in shares]
    with blaming(CC):
        try:
            opened = open_bits(cs.weak, results, list(shares.values()), n_jobs=cs.n_jobs)
        except (DecryptionError, ElementError):
            for owner, share in shares.items():
                try:
                    open_bits(cs.weak, [sealed[owner][0]], [share], n_jobs=1)
                except (DecryptionError, ElementError) as error:
                    raise RefusedError(owner, "has given a share that does not open its result") from error
            raise
    return dict(zip(shares, opened, strict=True))


# -- CC ---------------------------------------------------------------------------------------------


def answer_comparisons(
    share: StrongShare,
    signing: SigningKey,
    joint_keys: Mapping[str, PublicKey],
    counts: Mapping[str, int],
    message: MaskedComparisons,
    n_jobs: int,
) -> SealedResults:
    """Read the packs, and seal each owner's bits for CS and that owner, with the joint keys of all owners."""
    p = share.parameters
    bits = read_slots(share, _read_packs(share, message.packs, sum(counts.values())), n_jobs=n_jobs)
    bits_of = _by_owner(bits, counts)

    def seal(owner: str) -> tuple[bytes, bytes, bytes]:
        read = bits_of[owner]
        known = [bool(secrets.randbits(1)) if bit is None else bit for bit in read]
        sealed = seal_bits(joint_keys[owner], [*known, None in read])
        ciphertext = sealed.ciphertext.to_bytes(p)
        fields = _result(message.request, message.depth, owner, len(read), ciphertext)
        return ciphertext, sealed.masked, signing.sign(_RESULT, *fields)

    ciphertexts, masked, signatures = zip(*in_threads(seal, list(counts), p.jobs(n_jobs)), strict=True)
    return SealedResults(ciphertexts=b"".join(ciphertexts), masked=masked, signatures=signatures)


def read_counts(message: MaskedComparisons) -> dict[str, int]:
    """Return the number of comparisons with each owner's splits, checked: at least one, every owner once."""
    counts = array(message.counts, COMPARISONS, len(message.owners)).tolist()
    if len(set(message.owners)) != len(counts) or not counts or 0 in counts:
        raise ProtocolError("owners named twice, or without comparisons", kind="request")
    return dict(zip(message.owners, counts, strict=True))


def _read_packs(share: StrongShare, data: bytes, count: int) -> list[Pack]:
    width, size = share.parameters.key_bits // 8, slots(share.parameters)
    in_use = [min(size, count - begin) for begin in range(0, count, size)]
    packs = array(data, f"V{3 * width}", len(in_use)).tolist()
    read = int.from_bytes
    return [Pack(read(p[: 2 * width]), read(p[2 * width :]), n) for p, n in zip(packs, in_use, strict=True)]


# -- an owner ---------------------------------------------------------------------------------------


def verify_result(cc: VerifyKey, owner: str, message: ShareRequest) -> None:
    """Raise SignatureError unless CC has signed this result for this owner, request and depth."""
    fields = _result(message.request, message.depth, owner, message.count, message.ciphertext)
    cc.verify(message.signature, _RESULT, *fields)


def answer_share(weak: WeakKey, message: ShareRequest) -> ShareReply:
    """Consent, by one power. The caller has checked the request and the result."""
    [share] = par_h_dec1(weak, [Ciphertext.unchecked(weak.parameters, message.ciphertext)], n_jobs=1)
    return ShareReply(count=message.count, share=number(share))
