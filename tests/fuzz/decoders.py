"""Every decoder of what comes from outside, to be fed with noise: it parses, or raises one typed error.

`python -m tests.fuzz.decoders --seconds 60 codec` does so under atheris, which follows branches, if that is
installed; without a name, every decoder has its turn. `test_decoders` feeds them for a moment by Hypothesis.
"""

import argparse
import gc
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import FunctionType

import msgspec
import pyarrow
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyarrow import parquet

from revfrf.crypto import psi
from revfrf.errors import RevFRFError
from revfrf.io.party_data import read_rows
from revfrf.io.table import Table
from revfrf.messages.alignment import MatchReply
from revfrf.messages.registry import MESSAGES
from revfrf.node import control
from revfrf.node.audit_log import AuditLog, verify_log
from revfrf.node.config import load_config, new_config, write_config
from revfrf.protocols.certificate import EventCertificate
from revfrf.transport.codec import decode, encode
from revfrf.transport.frames import Frame
from revfrf.transport.join_token import Token
from revfrf.transport.letters import _CALL, _REPLY, Awaited, Letter, Place, _Call, _Reply, _sealed
from revfrf.transport.passport import read_passport
from tests.messages.test_messages import CREATION, EVENT, RECEIPTS, SAMPLES
from tests.transport.links import known
from tests.transport.parties import BANK, token_for

PLACE: Place = ("KGC", "bank", 17)
KEY = X25519PrivateKey.generate()
"""For letters and answers; it is good for many here."""

PUBLIC = KEY.public_key().public_bytes_raw()
FEDERATION, TABLE = "breast cancer", "training"
IDS = [f"patient {number}" for number in range(5)]


@cache
def _scratch() -> Path:
    """A file of this process, for decoders that read files."""
    return Path(tempfile.mkdtemp(prefix="revfrf-fuzz-")) / "file"


def _from_file(read: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    def target(data: bytes) -> object:
        file = _scratch().with_suffix(suffix)
        file.write_bytes(data)
        return read(file)

    return target


def _table(file: Path) -> object:
    """As text, as it is compared; and as numbers and categories."""
    table = Table.read(file)
    for name in table.columns:
        table.texts(name)
    rows = read_rows(file, "id", categories=("job",))
    return rows.codes(rows.columns)


def _message(data: bytes) -> None:
    """What parses is the same once more, but for numbers that are none."""
    again = encode(decode(data, *MESSAGES))
    assert encode(decode(again, *MESSAGES)) == again


def _frame(data: bytes) -> None:
    frame = Frame.decode(data)
    assert Frame.decode(frame.encode()) == frame


def _passport(data: bytes) -> None:
    """A signature can be written in more than one way; what is signed cannot."""
    assert read_passport(known("bank").tls.ca_pem, data) == known("bank").passport


def _offer(data: bytes) -> object:
    return known("KGC").sealing.offered(PLACE, data)


def _letter(data: bytes) -> object:
    """As it comes; and what only somebody who has sealed it can have put inside."""
    bank = known("bank").sealing
    with suppress(RevFRFError):
        bank._keys._offered["KGC"] = {PUBLIC: KEY}
        return bank.open(PLACE, data)
    bank._keys._offered["KGC"] = {PUBLIC: KEY}
    return bank.open(PLACE, PUBLIC + _sealed(data, PUBLIC, _CALL, PLACE))


def _reply(data: bytes) -> object:
    """Likewise."""
    awaited = Awaited(PLACE, known("bank").passport, KEY)
    with suppress(RevFRFError):
        return awaited.open(data)
    return awaited.open(_sealed(data, PUBLIC, _REPLY, PLACE))


def _answer(data: bytes) -> object:
    return psi.answer(IDS, data, 100, federation=FEDERATION, table=TABLE, n_jobs=1)


@cache
def _asking() -> psi.Query:
    """CS's question; its answers are good for many here."""
    return psi.Query(IDS, federation=FEDERATION, table=TABLE, n_jobs=1)


def _common(data: bytes) -> object:
    """As it comes; and points that a participant has put behind the right tags."""
    asking, size = _asking(), psi.POINT_BYTES * len(IDS)
    with suppress(RevFRFError):
        reply = decode(data, MatchReply)
        return asking.common(reply.own, reply.twice)
    place = (FEDERATION, TABLE)
    setup = psi._tag("setup", place, asking.request) + data[:-size]
    return asking.common(setup, psi._tag("response", place, asking.request, setup) + data[-size:])


def _valid_letter() -> list[bytes]:
    kgc, data = known("KGC"), b"a message"
    sealed, _ = kgc.sealing.seal(PLACE, Letter(known("bank").passport, PUBLIC), data)
    signature = kgc.signing.sign(_CALL, *PLACE, PUBLIC, PUBLIC, data)
    return [sealed, msgspec.msgpack.encode(_Call(kgc.tls.chain_pem, PUBLIC, signature, data))]


def _valid_reply() -> list[bytes]:
    bank, data = known("bank"), b"a message"
    sealed = bank.sealing.answer(PLACE, Letter(known("KGC").passport, PUBLIC), data)
    signature = bank.signing.sign(_REPLY, *PLACE, PUBLIC, data)
    return [sealed, msgspec.msgpack.encode(_Reply(signature, data))]


def _valid_reply_to_request() -> list[bytes]:
    own, twice = psi.answer(IDS[1:], _asking().request, 100, federation=FEDERATION, table=TABLE, n_jobs=1)
    points = own[psi.TAG_BYTES :] + twice[psi.TAG_BYTES :]
    return [encode(MatchReply(own=own, twice=twice)), points]


FRAMES = [Frame("call", "bank", "CS", 7, 30, 10, b"piece").encode(), Frame("hello", "a", "b", 0).encode()]
CSV = [b"id,age,job\na,1,u\nb,,v\n", b'id,age,job\n"a b",1e3,"u, v"\r\nc,2,""\n']
QUESTIONS = [b'{"command": "revoke", "level": 2}\n', b'{"command": "status"}\n']
ANSWERS = [
    b'{"type": "progress", "step": "growing", "done": 0.5}\n',
    b'{"type": "succeeded", "result": [1, null]}\n',
    b'{"type": "alive"}',
    b'{"type": "failed", "kind": "absent", "reason": "who?"}\n',
]
COLUMNS = {"id": ["a", "b", "c"], "age": [1.5, None, 3.0], "job": ["u", "v", None], "n": [1, 2, 3]}


def _valid_parquet() -> list[bytes]:
    made = []
    for options in ({}, {"compression": "none"}, {"compression": "none", "use_dictionary": False}):
        file = BytesIO()
        parquet.write_table(pyarrow.table(COLUMNS), file, **options)
        made.append(file.getvalue())
    return made


def _valid_certificate() -> list[bytes]:
    return [EventCertificate(CREATION).to_json(), EventCertificate(EVENT, RECEIPTS).to_json()]


def _valid_config() -> list[bytes]:
    with tempfile.TemporaryDirectory() as directory:
        made = new_config(role="CS", federation="breast cancer", name="CS", target="y", task="classes")
        return [write_config(Path(directory) / "revfrf.toml", made).read_bytes()]


def _valid_log() -> list[bytes]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "audit.log"
        with closing(AuditLog(path, ("breast cancer", "participant", "bank"))) as log:
            log.append("started")
            log.append("LevelRequest", sender="CS", rows=3)
        return [path.read_bytes()]


@dataclass(frozen=True)
class Decoder:
    """What is fed, and what it takes."""

    target: Callable[[bytes], object]
    valid: Callable[[], list[bytes]]

    def feed(self, data: bytes) -> bool:
        """Whether these bytes parse. Anything but a typed error is an error of the decoder."""
        try:
            self.target(data)
        except RevFRFError:
            return False
        return True


DECODERS: dict[str, Decoder] = {
    "codec": Decoder(_message, lambda: [encode(sample) for sample in SAMPLES]),
    "frame": Decoder(_frame, lambda: FRAMES),
    "offer": Decoder(_offer, lambda: [known("bank").sealing.offer(PLACE)]),
    "letter": Decoder(_letter, _valid_letter),
    "reply": Decoder(_reply, _valid_reply),
    "passport": Decoder(_passport, lambda: [known("bank").tls.chain_pem]),
    "token": Decoder(
        lambda data: Token.parse(data.decode(errors="replace")), lambda: [token_for(BANK).text().encode()]
    ),
    "matching": Decoder(_answer, lambda: [_asking().request]),
    "matched": Decoder(_common, _valid_reply_to_request),
    "certificate": Decoder(EventCertificate.from_json, _valid_certificate),
    "config": Decoder(_from_file(load_config), _valid_config),
    "log": Decoder(_from_file(verify_log), _valid_log),
    "csv": Decoder(_from_file(_table, ".csv"), lambda: CSV),
    "parquet": Decoder(_from_file(_table, ".parquet"), _valid_parquet),
    "question": Decoder(control._decode_request, lambda: QUESTIONS),
    "answer": Decoder(lambda data: control._decode(Path("control"), control._REPLY, data), lambda: ANSWERS),
}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """These bytes with a few things changed, cut, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, end = sorted(rng.randrange(len(changed) + 1) for _ in range(2))
        match rng.randrange(5):
            case 0 if changed:
                changed[rng.randrange(len(changed))] = rng.choice(
                    [rng.randrange(256), *b'0"{[\x00\xff\x93\xc4']
                )
            case 1:
                del changed[at : min(end, at + rng.choice([1, 4, 1000]))]
            case 2:
                changed[at:at] = changed[at : min(end, at + 40)]
            case 3:
                changed[at:at] = rng.randbytes(rng.choice([1, 4, 40]))
            case _:
                changed[at : at + 1] = rng.choice(
                    [b"[" * 3000, b"\x91" * 3000, b"-1", b"1e999", b"\\ud800", b"9" * 400]
                )
    return bytes(changed)


# -- atheris ------------------------------------------------------------------------------------------


def _under_atheris(name: str, seconds: int) -> None:
    atheris, decoder = import_module("atheris"), DECODERS[name]
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(decoder.valid()):
            (Path(corpus) / str(number)).write_bytes(data)
        ours = [
            f
            for f in gc.get_objects()
            if isinstance(f, FunctionType) and (f.__module__ or "").startswith("revfrf")
        ]
        for function in ours:
            atheris.instrument_func(function)
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", corpus], decoder.feed)
        atheris.Fuzz()


def _at_random(name: str, seconds: int) -> int:
    """What is left without atheris."""
    decoder, end, runs = DECODERS[name], time.monotonic() + seconds, 0
    valid, rng = decoder.valid(), random.Random()
    while time.monotonic() < end:
        data = mutated(rng.choice(valid), rng)
        try:
            decoder.feed(data)
        except BaseException:
            sys.stderr.write(f"{name}: {data!r}\n")
            raise
        runs += 1
    return runs


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Feed decoders with noise.")
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(DECODERS))
    options = parser.parse_args()
    for name in options.names or DECODERS:
        if name not in DECODERS:
            parser.error(f"there is no decoder {name!r}; choose of: {' '.join(DECODERS)}")
    if find_spec("atheris") is None:
        for name in options.names or DECODERS:
            runs = _at_random(name, options.seconds)
            sys.stdout.write(f"{name}: {runs:,} runs at random; install atheris to follow branches\n")
        return
    if len(options.names) == 1:
        _under_atheris(options.names[0], options.seconds)
        return
    for name in options.names or DECODERS:  # atheris ends the process
        command = [sys.executable, "-m", "tests.fuzz.decoders", "--seconds", str(options.seconds), name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
