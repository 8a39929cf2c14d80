"""Two companies, two keys, two servers: which number is larger, without anybody seeing both.

Run it with `make demo`, or `python examples/compare_two_numbers.py --key-bits 2048`.
"""

import argparse
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from revfrf.crypto import literal
from revfrf.crypto.dtpkc import Ciphertext, PublicKey, WeakKey, ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.encoding import FixedPoint
from revfrf.crypto.packing import (
    Comparison,
    encrypt_bits,
    mask_comparisons,
    read_packs,
    slots,
    unmask_bits,
)
from revfrf.crypto.possession import prove_possession, verify_possession
from revfrf.crypto.primes import PrimeProgress
from revfrf.crypto.strong import SetUp, set_up
from revfrf.errors import ProofError, RevFRFError

console = Console(highlight=False)


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
        tell(options)
    except RevFRFError as error:
        console.print(f"[bold red]error:[/] {error}", soft_wrap=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None


def tell(options: argparse.Namespace) -> None:
    money = FixedPoint(decimals=2, name="party 'bank', column 'income'")
    income, threshold = (int(x) for x in money.encode([options.income, options.threshold]))

    console.rule("[bold]1  The key centre makes a modulus and deals two strong shares")
    dealt = make_key(options.key_bits, options.allow_insecure)
    console.print(
        f"Everybody gets {dealt.parameters!r}; CS holds {dealt.cs_share!r}, CC {dealt.cc_share!r}.\n"
    )

    console.rule("[bold]2  Each party makes its own key and proves that it knows it")
    keys = {name: WeakKey.generate(dealt.parameters) for name in ("CS", "bank", "requester")}
    public = {name: key.public for name, key in keys.items()}
    for name, key in keys.items():
        verify_possession(public[name], name, prove_possession(key, name))
        console.print(f"{name:>10}: {public[name]!r}, proof of possession holds")
    refuse_rogue_key(keys["bank"], public["CS"])

    console.rule("[bold]3  Two numbers, encrypted under two keys")
    [x] = ho_enc(public["requester"], [income])
    [s] = ho_enc(public["bank"], [threshold])
    console.print(f"[[{options.income:,.2f}]] under the requester's key: C = {short(x.c)}")
    console.print(f"[[{options.threshold:,.2f}]] under the bank's key:      C = {short(s.c)}\n")

    console.rule("[bold]4  HoLT: is the income at most the threshold?")
    answer, sights, seconds = compare(dealt, keys, public, Comparison(x, s))
    console.print(f"Answer, known to CS alone: [bold]income ≤ threshold is {answer}[/]")
    console.print(
        f"  {seconds * 1e3:.0f} ms, in a ciphertext with room for {slots(dealt.parameters)} comparisons"
    )
    check, literal_seconds = compare_literally(dealt, keys, public, x, s)
    console.print(f"The paper's own HoLT agrees: {check == answer}")
    console.print(f"  {literal_seconds * 1e3:.0f} ms, for this comparison alone\n")

    table = Table("who", "what it saw", title="What each of them saw", title_style="bold")
    for who, what in sights:
        table.add_row(who, what)
    console.print(table)


def make_key(key_bits: int, allow_insecure: bool) -> SetUp:
    """Set up with a bar: finding safe primes is a matter of luck, so it shows tries against the expected."""
    columns = (
        TextColumn("safe prime {task.fields[number]} of 2"),
        BarColumn(),
        TextColumn("{task.completed} candidates tested, about {task.fields[expected]} expected"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("primes", total=None, number=1, expected="…")

        def show(progress: PrimeProgress) -> None:
            bar.update(
                task,
                completed=progress.tested,
                total=max(progress.expected, progress.tested),
                expected=progress.expected,
                number=min(progress.found + 1, progress.wanted),
            )

        return set_up(key_bits, allow_insecure=allow_insecure, progress=show)


def refuse_rogue_key(key: WeakKey, cs_public: PublicKey) -> None:
    """A liar that wants to open what only it and CS should open together: h = g0^a / h_CS."""
    n = key.parameters.n
    rogue = PublicKey(key.parameters, key.public.h * pow(cs_public.h, -1, n) % n)
    try:
        verify_possession(rogue, "liar", prove_possession(key, "liar"))
    except ProofError as refusal:
        console.print(f"{'liar':>10}: refused: {refusal}\n")
    else:
        raise SystemExit("a rogue key was accepted: this must never happen")


def compare(
    dealt: SetUp, keys: dict[str, WeakKey], public: dict[str, PublicKey], question: Comparison
) -> tuple[bool, list[tuple[str, str]], float]:
    """The packed HoLT, each role's step in turn."""
    started = perf_counter()
    packs, coins = mask_comparisons(dealt.cs_share, public["CS"], [question])  # CS
    bits = read_packs(dealt.cc_share, packs)  # CC
    sealed = encrypt_bits(public["CS"] + public["bank"], bits)  # CC
    shares = par_h_dec1(keys["bank"], sealed)  # the owner consents
    messages = par_h_dec2(keys["CS"], sealed, shares)  # CS
    [answer] = unmask_bits(dealt.parameters, messages, coins)  # CS
    seconds = perf_counter() - started
    sights = [
        ("CS", f"two ciphertexts, its own coin ({int(coins[0])}), one masked bit, the answer ({answer})"),
        ("CC", f"a masked difference, and its sign: {int(bits[0])}, a fair coin toss to CC"),
        ("bank", f"one ciphertext to consent to, C = {short(sealed[0].c)}, which it cannot open alone"),
        ("requester", "nothing but its own number"),
        ("key centre", "public keys and proofs"),
    ]
    return answer, sights, seconds


def compare_literally(
    dealt: SetUp, keys: dict[str, WeakKey], public: dict[str, PublicKey], x: Ciphertext, s: Ciphertext
) -> tuple[bool, float]:
    """x ≤ s by the appendix's HoLT, which tells s < x."""
    started = perf_counter()
    less = literal.ho_lt(
        dealt.cs_share,
        public["CS"],
        literal.Term(public["bank"], s),
        literal.Term(public["requester"], x),
        lambda request: literal.cc_ho_add(dealt.cc_share, request),
        lambda request: literal.cc_ho_lt(dealt.cc_share, request),
    )
    [bit] = par_h_dec2(keys["CS"], [less], par_h_dec1(keys["requester"], [less]))
    return bit == 0, perf_counter() - started


def short(number: int) -> str:
    digits = f"{number:x}"
    return f"{digits[:12]}…{digits[-6:]} ({len(digits) * 4} bits)"


if __name__ == "__main__":
    main()
