"""Makes the vector files from the reference alone; running it again gives the same bytes.

python -m tests.vectors.generate            write the files
python -m tests.vectors.generate --check    exit 1 if a file is not what would be written
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.reference import dtpkc
from tests.reference.dtpkc import RefusedError
from tests.reference.operations import run
from tests.vectors.ciphertext_cases import ciphertexts
from tests.vectors.comparison_cases import comparisons, numbers
from tests.vectors.decryption_cases import decryption
from tests.vectors.load import HERE, encode
from tests.vectors.possession_cases import possessions
from tests.vectors.signature_cases import signatures
from tests.vectors.world import Case, World, Worlds

SETS = {  # name: (key bits, exponent bits)
    "n256": (256, 128),
    "n512": (512, 256),
    "n1024": (1024, 512),
    "n2048": (2048, 1024),
    "n2048-short": (2048, 512),
    "n3072": (3072, 1536),
}
CASES: dict[str, Callable[[Worlds], Iterator[Case]]] = {
    "ciphertexts": ciphertexts,
    "decryption": decryption,
    "possession": possessions,
    "comparison": comparisons,
    "numbers": numbers,
    "signatures": signatures,
}


def start_of(bits: int, name: str) -> int:
    """Where the search for a prime begins: a hash of its name, with the two top bits set."""
    blocks = (hashlib.sha256(f"revfrf test prime {bits} {name} {i}".encode()).digest() for i in range(bits))
    stream = b"".join(next(blocks) for _ in range(-(-bits // 256)))
    return int.from_bytes(stream[: bits // 8], "big") | 3 << (bits - 2)


def prime(key_bits: int, name: str) -> int:
    """The first safe prime from its start on; long ones are stored, because the search takes minutes."""
    start = start_of(key_bits // 2, name)
    stored = json.loads((HERE / "primes.json").read_text())["pairs"]
    if str(key_bits) not in stored:
        return dtpkc.next_safe_prime(start)
    found = int(stored[str(key_bits)][name], 16)
    if not 0 <= found - start < 1 << 24:
        sys.exit(f"primes.json: {name} of {key_bits} bits is not the one that its name gives")
    return found


def make_world(name: str) -> World:
    key_bits, exponent_bits = SETS[name]
    p, q = prime(key_bits, "p"), prime(key_bits, "q")
    random = Random(f"revfrf vectors: parameters of {key_bits} bits")
    params = dtpkc.make_parameters(p, q, random.randrange(2, p * q), exponent_bits)
    lambda1 = random.randrange((p - 1) * (q - 1) // 2 * params.n)
    if lambda1 % params.n in (0, 1):
        sys.exit("this λ1 has no compressed halves; take another seed")
    return World(name, params, p, q, dtpkc.strong_shares(p, q, lambda1))


def answer(case: Case, worlds: Worlds) -> dict[str, Any]:
    """The vector of one case, by the reference; it must refuse exactly what the case says."""
    vector: dict[str, Any] = {"id": case.id, "comment": case.comment, "operation": case.operation}
    vector["inputs"] = {"parameters": case.parameters, **case.inputs}
    refusal = None
    try:
        vector["expected"] = run(case.operation, worlds[case.parameters].params, case.inputs)
    except RefusedError as error:
        refusal = vector["error"] = error.kind
    if refusal != case.error:
        sys.exit(f"{case.id}: the reference says {refusal}, the case means {case.error}")
    return vector


def parameter_set(world: World) -> dict[str, int]:
    return {**world.params._asdict(), "p": world.p, "q": world.q, **world.shares._asdict()}


def build() -> dict[str, bytes]:
    """File name → contents."""
    worlds = {name: make_world(name) for name in SETS}
    files = {}
    for topic, cases in CASES.items():
        vectors = [answer(case, worlds) for case in cases(worlds)]
        used = {vector["inputs"]["parameters"] for vector in vectors}
        content = {
            "format": "revfrf vectors v1",
            "parameters": {name: parameter_set(world) for name, world in worlds.items() if name in used},
            "vectors": vectors,
        }
        files[f"{topic}.json"] = (json.dumps(encode(content), indent=1) + "\n").encode()
    return files


def main(arguments: list[str]) -> None:
    files = build()
    if arguments == ["--check"]:
        stale = [name for name, data in files.items() if not _same(HERE / name, data)]
        if stale:
            sys.exit(
                f"not what the reference gives: {', '.join(stale)}; run python -m tests.vectors.generate"
            )
    elif arguments:
        sys.exit(__doc__)
    else:
        for name, data in files.items():
            (HERE / name).write_bytes(data)


def _same(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() == data


if __name__ == "__main__":
    main(sys.argv[1:])
