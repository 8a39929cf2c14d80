"""The results of comparisons: sealed by CC for CS and an owner, opened by CS with the owners' consent.

Whatever the number of an owner's bits, they take one ciphertext under h_CS·h_τ, and the owner one power. CS
opens all owners' results together: [m1] and [m2] become [m1 + m2·2^k], under any keys, and so do the owners'
shares, so that one ParHDec2 is enough for as many bits as a plaintext holds.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import shake_256

import numpy as np

from revfrf.crypto.dtpkc.arithmetic import multiply, power
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey, WeakKey
from revfrf.errors import FormatError, SlotError, UsageError
from revfrf.parallel import in_threads

_KEY_BITS = 256
_DOMAIN = b"revfrf sealed bits v1"


@dataclass(frozen=True, slots=True)
class SealedBits:
    """`count` bits: in the ciphertext itself, or, if it cannot hold them, masked with a key that is in it."""

    ciphertext: Ciphertext
    masked: bytes
    count: int


_Group = list[tuple[SealedBits, int]]
"""Results with their owners' shares, as many as one plaintext holds."""


def seal_bits(joint_key: PublicKey, bits: Sequence[bool]) -> SealedBits:
    """CC: all bits for one owner, under its key and that of CS."""
    count, room = len(bits), joint_key.parameters.plaintext_bits
    if not count:
        raise UsageError("there are no bits to seal")
    message, masked = int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little"), b""
    if count > room:
        key = secrets.randbits(min(_KEY_BITS, room))
        message, masked = key, _mask(key, message, count).to_bytes(-(-count // 8), "little")
    [ciphertext] = ho_enc(joint_key, [message], n_jobs=1)
    return SealedBits(ciphertext, masked, count)


def _mask(key: int, bits: int, count: int) -> int:
    stream = shake_256(_DOMAIN + key.to_bytes(_KEY_BITS // 8, "little")).digest(-(-count // 8))
    return bits ^ (int.from_bytes(stream, "little") % (1 << count))


def open_bits(
    key: WeakKey, sealed: Sequence[SealedBits], shares: Sequence[int], *, n_jobs: int = -1
) -> list[list[bool]]:
    """CS: the bits of each result, with each owner's ParHDec1 of it.

    Raises DecryptionError if a share is wrong; which one, only opening them one by one would tell.
    """
    p = key.parameters
    if len(shares) != len(sealed):
        raise FormatError(f"{len(shares)} shares for {len(sealed)} results", kind="length")
    for one, share in zip(sealed, shares, strict=True):
        p.check(one.ciphertext)
        p.check_unit("share", share, p.n)
    groups = list(_groups(p, sealed, shares))
    opened = in_threads(partial(_open_together, key), groups, p.jobs(n_jobs))
    return [bits for group in opened for bits in group]


def _groups(parameters: Parameters, sealed: Sequence[SealedBits], shares: Sequence[int]) -> Iterator[_Group]:
    """As many as fit into one plaintext each."""
    group: _Group = []
    room = parameters.plaintext_bits
    for one, share in zip(sealed, shares, strict=True):
        if sum(_width(parameters, member) for member, _ in group) + _width(parameters, one) > room:
            yield group
            group = []
        group.append((one, share))
    if group:
        yield group


def _width(parameters: Parameters, sealed: SealedBits) -> int:
    """Bits of the message in the ciphertext."""
    room = parameters.plaintext_bits
    return sealed.count if sealed.count <= room else min(_KEY_BITS, room)


def _open_together(key: WeakKey, group: _Group) -> list[list[bool]]:
    """The last result first, shifted up by the bits of the one before it."""
    p = key.parameters
    c, g, z = 1, 1, 1
    for sealed, share in reversed(group):
        shift = 1 << _width(p, sealed)
        c = multiply(p.n_squared, power(c, shift, p.n_squared), sealed.ciphertext.c)
        g = multiply(p.n, power(g, shift, p.n), sealed.ciphertext.g)
        z = multiply(p.n, power(z, shift, p.n), share)
    [message] = par_h_dec2(key, [Ciphertext(c, g)], [z], n_jobs=1)
    widths = [_width(p, sealed) for sealed, _ in group]
    if not 0 <= message < 1 << sum(widths):
        raise SlotError("the results hold more bits than were asked for")
    opened = []
    for (sealed, _), width in zip(group, widths, strict=True):
        opened.append(_bits(p, sealed, message % (1 << width)))
        message >>= width
    return opened


def _bits(parameters: Parameters, sealed: SealedBits, message: int) -> list[bool]:
    count = sealed.count
    too_many = count > parameters.plaintext_bits
    masked = int.from_bytes(sealed.masked, "little")
    if len(sealed.masked) != (-(-count // 8) if too_many else 0) or masked >> count:
        raise SlotError("the results hold more bits than were asked for, or fewer")
    bits = _mask(message, masked, count) if too_many else message
    data = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    opened: list[bool] = np.unpackbits(data, count=count, bitorder="little").astype(np.bool_).tolist()
    return opened
