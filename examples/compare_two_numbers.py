"""Compare two encrypted numbers of two companies, so that nobody sees both.

Run it with `python examples/compare_two_numbers.py --key-bits 2048`.
"""

import argparse
import math
import sys
from functools import partial
from time import perf_counter

from rich.console import Console
from rich.table import Table

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, PublicKey, WeakKey
from revfrf.crypto.dtpkc.packing import (
    Comparison,
    mask_comparisons,
    read_packs,
    slots,
    undo_coins,
)
from revfrf.crypto.dtpkc.possession import prove_possession, verify_possession
from revfrf.crypto.dtpkc.sealed_bits import open_bits, seal_bits
from revfrf.crypto.dtpkc.strong import SetUp, set_up
from revfrf.crypto.encoding import FixedPoint
from revfrf.errors import ProofError, RevFRFError, UsageError

console = Console(highlight=False, markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--key-bits", type=int, default=3072, help="size of the modulus (default: %(default)s)"
    )
    parser.add_argument("--allow-insecure", action="store_true", help="permit keys below 2048 bits")
    parser.add_argument("--income", type=float, default=61_250.00, help="the requester's number")
    parser.add_argument("--threshold", type=float, default=52_000.50, help="the bank's number")
    options = parser.parse_args()
    try:
        run(options)
    except RevFRFError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None


def run(options: argparse.Namespace) -> None:
    """Set up keys, encrypt two numbers, and compare them."""
    income = encode("the requester's income", options.income)
    threshold = encode("the bank's threshold", options.threshold)
    console.print(
        "A bank's decision tree asks: is the income at most the threshold? The requester does not show its "
        "income, the bank does not show its threshold. Two servers compare them: CS, the coordinator, and "
        "CC, its partner. Each holds half of a strong key; neither can read anything alone.\n"
    )
    console.rule("1  The key centre makes a modulus and issues the two halves of the strong key")
    dealt = make_key(options.key_bits, options.allow_insecure)
    console.print(f"Everybody gets {dealt.parameters}")
    console.print(f"CS gets {dealt.cs_share}, CC gets {dealt.cc_share}\n")

    console.rule("2  Each party makes its own key and proves possession of it")
    keys = {name: WeakKey.generate(dealt.parameters) for name in ("CS", "bank", "requester")}
    for name, key in keys.items():
        verify_possession(key.public, name, prove_possession(key, name))
        console.print(f"{name:>10}: {key.public}, proof holds")
    refuse_rogue_key(keys["bank"], keys["CS"].public)

    console.rule("3  Two numbers, encrypted under two keys")
    [x] = ho_enc(keys["requester"].public, [income])
    [s] = ho_enc(keys["bank"].public, [threshold])
    console.print(f"income    {options.income:,.2f} under the requester's key: {x}")
    console.print(f"threshold {options.threshold:,.2f} under the bank's key:      {s}\n")

    console.rule("4  HoLT: is the income at most the threshold?")
    answer, sights, seconds = compare(dealt, keys, Comparison(x, s))
    same, printed_seconds = compare_as_printed(dealt, keys, x, s)
    if same != answer:
        raise SystemExit("the two forms of HoLT disagree: this must never happen")
    console.print(f"Answer, known to CS alone: {'yes' if answer else 'no'}")
    room = slots(dealt.parameters)
    console.print(f"It took {seconds * 1e3:.0f} ms; {room} comparisons at once take little more.")
    console.print(f"The paper's own HoLT says the same, in {printed_seconds * 1e3:.0f} ms for this one.\n")

    table = Table("who", "what it saw", title="What each party saw")
    for who, what in sights:
        table.add_row(who, what)
    console.print(table)


def encode(name: str, number: float) -> int:
    if math.isnan(number):
        raise UsageError(f"{name} is not a number")
    return int(FixedPoint(decimals=2, ring=64, name=name).encode([number])[0])


def make_key(key_bits: int, allow_insecure: bool) -> SetUp:
    """Set up the keys: a search for two safe primes, which takes luck."""
    with console.status("searching for two safe primes: a second at 1024 bits, a minute at 3072"):
        return set_up(key_bits, allow_insecure=allow_insecure)


def refuse_rogue_key(key: WeakKey, cs_public: PublicKey) -> None:
    """Refuse a liar that wants to open alone what it should open only with CS: h = g0^a / h_CS."""
    n = key.parameters.n
    rogue = PublicKey(key.parameters, key.public.h * pow(cs_public.h, -1, n) % n)
    try:
        verify_possession(rogue, "liar", prove_possession(key, "liar"))
    except ProofError as refusal:
        console.print(f"{'liar':>10}: refused: {refusal}\n")
    else:
        raise SystemExit("a rogue key was accepted: this must never happen")


def compare(
    dealt: SetUp, keys: dict[str, WeakKey], question: Comparison
) -> tuple[bool, list[tuple[str, str]], float]:
    """Run the packed HoLT, one role's step after the other."""
    joint_key = keys["CS"].public + keys["bank"].public
    started = perf_counter()
    packs, coins = mask_comparisons(dealt.cs_share, keys["CS"].public, [question])  # CS
    bits = read_packs(dealt.cc_share, packs)  # CC
    sealed = seal_bits(joint_key, bits)  # CC
    shares = par_h_dec1(keys["bank"], [sealed.ciphertext])  # the owner consents
    [opened] = open_bits(keys["CS"], [sealed], shares)  # CS
    [answer] = undo_coins(opened, coins)  # CS
    seconds = perf_counter() - started
    sights = [
        ("requester", "its own income"),
        ("bank", f"its own threshold; {sealed.ciphertext} to consent to, which it cannot open alone"),
        ("CS", f"two ciphertexts; its own coin ({int(coins[0])}); the bit it got back; the answer"),
        (
            "CC",
            f"a masked difference: its sign ({int(bits[0])}) is a fair coin, its length shows roughly how "
            "far apart the two numbers are",
        ),
        ("key centre", "the primes and both halves during set-up, which it must forget; nothing after that"),
    ]
    return answer, sights, seconds


def compare_as_printed(
    dealt: SetUp, keys: dict[str, WeakKey], x: Ciphertext, s: Ciphertext
) -> tuple[bool, float]:
    """Return x ≤ s by the HoLT of the paper's appendix, which returns s < x."""
    started = perf_counter()
    less = as_printed.ho_lt(
        dealt.cs_share,
        keys["CS"].public,
        as_printed.Term(keys["bank"].public, s),
        as_printed.Term(keys["requester"].public, x),
        partial(as_printed.cc_ho_add, dealt.cc_share),
        partial(as_printed.cc_ho_lt, dealt.cc_share),
    )
    [bit] = par_h_dec2(keys["CS"], [less], par_h_dec1(keys["requester"], [less]))
    return bit == 0, perf_counter() - started


if __name__ == "__main__":
    main()
