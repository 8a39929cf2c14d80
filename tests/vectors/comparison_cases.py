"""Packed comparisons, and the fixed-point numbers they compare."""

from collections.abc import Iterator

from tests.reference import encoding
from tests.reference.packing import LARGEST, OFFSET, SLOT_BITS, capacity, pack
from tests.vectors.world import Case, World, Worlds

TOP = encoding.BOUNDS[64] - 1
EXTREMES = [-TOP - 1, -TOP, -1, 0, 1, TOP]


def comparisons(worlds: Worlds) -> Iterator[Case]:
    for name, w in worlds.items():
        if name != "n2048-short":
            full = _masked(w, capacity(w.params))
            yield w.case("pack", "full", "every slot used", **full)
            yield w.case(
                "pack", "one", "one slot: equal numbers go left", **{**_masked(w, 1), "x": [9], "s": [9]}
            )
            yield w.case("read_slots", "full", "every slot used", packed=pack_of(full), count=len(full["x"]))
    w = worlds["n1024"]
    masks = {"low": (1, 2**63, 0), "high": (-1, 2**64 - 1, 2**64 - 2), "minus": (1, 2**64 - 1, 2 - 2**64)}
    for mask, (coin, r, r_prime) in masks.items():
        for what, x, s in [("least", EXTREMES[0], EXTREMES[-1]), ("greatest", EXTREMES[-1], EXTREMES[1])]:
            comment = f"the {what} difference, coin {coin}, {mask} masks"
            inputs = {"x": [x], "s": [s], "coins": [coin], "r": [r], "r_prime": [r_prime]}
            yield w.case("pack", f"{what}-{mask}", comment, **inputs)
    for name in ("n512", "n2048"):
        yield from _slots_refused(worlds[name])


def _masked(w: World, count: int) -> dict[str, list[int]]:
    """Random comparisons: extreme numbers, close numbers, and fair coins and masks."""
    random = w.random
    xs = [random.choice([*EXTREMES, random.randrange(-(10**6), 10**6)]) for _ in range(count)]
    ss = [random.choice([*EXTREMES[1:], x + 1 if x < 1 else x - 1]) for x in xs]
    r = [random.randrange(2**63, 2**64) for _ in range(count)]
    return {
        "x": xs,
        "s": ss,
        "coins": [random.choice([1, -1]) for _ in range(count)],
        "r": r,
        "r_prime": [random.randrange(1 - each, each) for each in r],
    }


def pack_of(masked: dict[str, list[int]]) -> int:
    return pack(masked["x"], masked["s"], masked["coins"], masked["r"], masked["r_prime"])


def _slots_refused(w: World) -> Iterator[Case]:
    count = capacity(w.params) - 1
    packed = pack_of(_masked(w, count))

    def with_slot(i: int, value: int) -> int:
        old = packed >> (i * SLOT_BITS) & ((1 << SLOT_BITS) - 1)
        return packed + ((value - old) << (i * SLOT_BITS))

    yield w.case("read_slots", "good", "one slot less than there is room for", packed=packed, count=count)
    last = count - 1
    for what, comment, slot in [
        ("highest", "the highest slot that is taken: off + 2^128 - 1", OFFSET + LARGEST - 1),
        ("lowest", "the lowest slot that is taken: off - 2^128 + 1", OFFSET - LARGEST + 1),
    ]:
        yield w.case("read_slots", what, comment, packed=with_slot(last, slot), count=count)
    for what, comment, bad in [
        ("first-is-off", "slot 0 is off exactly: a comparison that is neither", with_slot(0, OFFSET)),
        ("last-is-off", "the last slot is off exactly", with_slot(last, OFFSET)),
        ("too-high", "a slot at off + 2^128", with_slot(0, OFFSET + LARGEST)),
        ("too-low", "a slot at off - 2^128", with_slot(last, OFFSET - LARGEST)),
        ("slot-zero", "an empty slot", with_slot(0, 0)),
        ("slot-full", "a slot with all its bits set", with_slot(last, (1 << SLOT_BITS) - 1)),
        ("bit-above", "one bit above the slots", packed + (1 << (count * SLOT_BITS))),
        ("slot-above", "one more slot than is claimed", packed + ((OFFSET + 5) << (count * SLOT_BITS))),
        ("too-few", "the last slot is missing", packed % (1 << (last * SLOT_BITS))),
        ("nothing", "the plaintext is 0", 0),
        ("residue", "N - 1: the plaintext of something else", w.params.n - 1),
    ]:
        yield w.case("read_slots", what, comment, "slot", packed=bad, count=count)


def numbers(worlds: Worlds) -> Iterator[Case]:
    w = worlds["n256"]

    def case(
        what: str, value: str, decimals: int, ring: int, error: str | None = None, clamp: int = 0
    ) -> Case:
        comment = f"{value} with {decimals} decimals in {ring} bits{', clamped' * clamp}"
        inputs = {"value": value, "decimals": decimals, "ring": ring, "clamp": clamp}
        return w.case("fixed_point", what, comment, error, **inputs)

    for what, value, decimals in [
        ("paper", "3.1415", 2),
        ("zero", "0", 6),
        ("minus-zero", "-0.0", 6),
        ("negative", "-17.25", 1),
        ("tie-down", "2.5", 0),
        ("tie-up", "3.5", 0),
        ("tie-negative", "-0.5", 0),
        ("tie-in-decimal", "2.675", 2),
        ("exponent", "1.5e-4", 6),
    ]:
        yield case(what, value, decimals, 64)
    for ring, bound in encoding.BOUNDS.items():
        top, scaled = bound - 1, f"{bound // 10**9}.{bound % 10**9:09}"
        for what, value, decimals in [
            ("largest", str(top), 0),
            ("smallest", str(-top), 0),
            ("rounds-into-range", f"{top}.4999", 0),
            ("most-of-9-decimals", f"{top // 10**9}.{top % 10**9:09}", 9),
            ("missing", "nan", 3),
        ]:
            yield case(f"{what}-{ring}", value, decimals, ring)
            yield case(f"{what}-{ring}-clamped", value, decimals, ring, clamp=1)
        for what, value, decimals in [
            ("too-large", str(bound), 0),
            ("too-small", str(-bound), 0),
            ("rounds-out-of-range", f"{top}.5", 0),
            ("too-much-for-9-decimals", scaled, 9),
            ("too-many-decimals", "4.611686018427387904", 18),
            ("huge", "-1e300", 0),
        ]:
            yield case(f"{what}-{ring}", value, decimals, ring, "range")
            yield case(f"{what}-{ring}-clamped", value, decimals, ring, clamp=1)
        for what, value in [("infinite", "inf"), ("minus-infinite", "-inf")]:
            for clamp in (0, 1):
                yield case(f"{what}-{ring}{'-clamped' * clamp}", value, 4, ring, "range", clamp)
    yield case("most-decimals", "4.611686018427387903", 18, 64)
