"""HoLT, packed: many comparisons in one ciphertext (what prediction uses).

Is x ≤ s, for x and s encrypted under any keys? β = 2x - 2s - 1 is negative iff so, and never zero. CS masks
each β with a coin and random numbers of its own and lays the results side by side in the slots of one
plaintext. CC opens it, reads one bit per slot, which is fair whatever the truth, and seals the bits
for CS and the owner of s (`sealed_bits`). CS opens them with that owner's consent and undoes its coins::

    packs, coins = mask_comparisons(cs_share, cs.public, comparisons)  # CS
    bits = read_packs(cc_share, packs)                                 # CC
    sealed = seal_bits(cs.public + owner.public, bits)                 # CC
    shares = par_h_dec1(owner, [sealed.ciphertext])                    # the owner of every s
    [opened] = open_bits(cs, [sealed], shares)                         # CS
    x_at_most_s = undo_coins(opened, coins)                            # CS

With several owners, CC seals each one's bits under that owner's joint key.

What CC sees of a comparison: off ± (r·β + r'), which hides the sign and the divisors of β, not all of its
magnitude.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from revfrf.crypto.dtpkc.arithmetic import fixed_base, inverse, multiply, power, secret_power
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey
from revfrf.crypto.dtpkc.strong import StrongShare, root_half, root_open
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.errors import SlotError, UsageError
from revfrf.parallel import in_threads

MASK_BITS = 64  # σ
SLOT_BITS = 67 + MASK_BITS  # B: a slot holds twice the offset
OFFSET = 1 << (66 + MASK_BITS)  # off: well above LARGEST, so that no honest slot is negative
LARGEST = 1 << (64 + MASK_BITS)
"""Every honest slot is nearer to OFFSET: |β| < 2^64 for numbers in [-2^62, 2^62), r < 2^σ, |r'| < r."""


def slots(parameters: Parameters) -> int:
    """Return how many comparisons one ciphertext carries: 7, 15, 23 at 1024, 2048, 3072 bits."""
    count = parameters.plaintext_bits // SLOT_BITS
    if count == 0:
        raise UsageError(
            f"{parameters.key_bits}-bit keys are too short to compare encrypted numbers; use 144"
        )
    return count


@dataclass(frozen=True, slots=True)
class Comparison:
    """Is x ≤ s? Only the C parts take part: the strong shares open them whatever their keys."""

    x: Ciphertext
    s: Ciphertext


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Mask(Secret):
    """CS's mask of one β: a·(r·β + r'), 2^(σ-1) ≤ r < 2^σ, |r'| < r. Slots never share one.

    r' takes both signs, so that β and -β give the same magnitudes: with r' ≥ 0 alone, |r·β + r'| would be
    below r for x = s and above it for x = s + 1, and CC would see which.
    """

    coin: bool  # a = -1 if set
    r: int
    r_prime: int

    @classmethod
    def generate(cls) -> "Mask":
        r = (1 << (MASK_BITS - 1)) + secrets.randbelow(1 << (MASK_BITS - 1))
        return cls(bool(secrets.randbits(1)), r, secrets.randbelow(2 * r - 1) - (r - 1))


@dataclass(frozen=True, slots=True, repr=False)
class Pack:
    """CS → CC: the packed C part, CS's half of its opening, and how many slots are in use."""

    c: int
    half: int
    count: int


def mask_comparisons(
    share: StrongShare, cs_key: PublicKey, comparisons: Sequence[Comparison], *, n_jobs: int = -1
) -> tuple[list[Pack], list[bool]]:
    """CS, first: the packs for CC, and the coins to keep, one per comparison.

    Numbers must be in [-2^62, 2^62), or the slot reads as a fault. `cs_key` is CS's own: a fresh encryption
    of zero under it hides from CC what the ciphertexts were made of.
    """
    p = share.parameters
    if cs_key.parameters != p:
        raise UsageError("the key and the share of CS are of different parameters; both must be of one epoch")
    both = [side for comparison in comparisons for side in (comparison.x, comparison.s)]
    for ciphertext in {id(side): side for side in both}.values():  # a value meets the splits of many trees
        p.check(ciphertext)
    size = slots(p)
    jobs = [(comparison, Mask.generate()) for comparison in comparisons]
    chunks = [jobs[i : i + size] for i in range(0, len(jobs), size)]
    exponents = [p.random_exponent() for _ in chunks]
    zeros = fixed_base(cs_key.lifted, p.n_squared, p.exponent_bits).powers(exponents)

    def pack(job: tuple[list[tuple[Comparison, Mask]], int]) -> Pack:
        chunk, zero = job
        c = multiply(p.n_squared, _horner(p, chunk), zero)
        [half] = root_half(share, [c], n_jobs=1)
        return Pack(c, half, len(chunk))

    packs = in_threads(pack, list(zip(chunks, zeros, strict=True)), p.jobs(n_jobs))
    return packs, [mask.coin for _, mask in jobs]


def _horner(parameters: Parameters, chunk: Sequence[tuple[Comparison, Mask]]) -> int:
    """C part of [Σ (off + a(rβ + r'))·2^{iB}]: the last slot first, shifted up by B bits a step."""
    n, n_squared = parameters.n, parameters.n_squared
    packed = 1
    for comparison, mask in reversed(chunk):
        high, low = comparison.x.c, comparison.s.c
        sign = 1
        if mask.coin:
            high, low, sign = low, high, -1
        ratio = multiply(n_squared, high, inverse(low, n_squared))
        difference = multiply(n_squared, ratio, ratio, 1 - sign * n)  # [a·β] = [a(2x - 2s - 1)]
        masked = secret_power(difference, SecretInt(mask.r), n_squared)
        constant = 1 + (OFFSET + sign * mask.r_prime) * n
        packed = multiply(n_squared, power(packed, 1 << SLOT_BITS, n_squared), masked, constant)
    return packed


def read_packs(share: StrongShare, packs: Sequence[Pack], *, n_jobs: int = -1) -> list[bool]:
    """CC: one masked bit per comparison, in the order in which CS asked. Raises SlotError.

    Not for a protocol: a refusal that CS sees is an oracle. `read_slots` marks the slot instead.
    """
    return _all_known(read_slots(share, packs, n_jobs=n_jobs))


def _all_known(bits: Sequence[bool | None]) -> list[bool]:
    known = [bit for bit in bits if bit is not None]
    if len(known) < len(bits):
        raise SlotError("a slot holds a value that no honest comparison leaves there")
    return known


def read_slots(share: StrongShare, packs: Sequence[Pack], *, n_jobs: int = -1) -> list[bool | None]:
    """`read_packs` with None for a slot that no honest comparison leaves like that.

    Which slots are None depends on what was compared, so only those who may see the bits may learn it.
    """
    for pack in packs:
        if not 0 < pack.count <= slots(share.parameters):
            raise SlotError(f"a pack claims {pack.count} slots; it has {slots(share.parameters)}")
    plaintexts = root_open(share, [pack.c for pack in packs], [pack.half for pack in packs], n_jobs=n_jobs)
    return [bit for pack, plain in zip(packs, plaintexts, strict=True) for bit in _slots(plain, pack.count)]


def _slots(plaintext: int, count: int) -> Iterator[bool | None]:
    """Bit i: whether slot i is below the offset."""
    fits = 0 <= plaintext < 1 << (count * SLOT_BITS)
    for i in range(count):
        distance = (plaintext >> (i * SLOT_BITS)) % (1 << SLOT_BITS) - OFFSET
        yield distance < 0 if fits and 0 < abs(distance) < LARGEST else None


def undo_coins(bits: Sequence[bool], coins: Sequence[bool]) -> list[bool]:
    """CS, last: whether x ≤ s for each comparison, from CC's bits and CS's own coins."""
    return [bit != coin for bit, coin in zip(bits, coins, strict=True)]
