"""Letters that were kept are read by nobody later: not even by whoever gets all that a party keeps."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from revfrf.crypto.signing import SigningKey
from revfrf.errors import LetterError, RejectedError
from revfrf.messages.base import Message
from revfrf.messages.key_setup import KeyDeal
from revfrf.messages.registry import MESSAGES
from revfrf.testing.federations import prepared_keys, random_case, train, with_rules
from revfrf.transport.codec import decode
from revfrf.transport.frames import Frame
from revfrf.transport.join_token import TlsIdentity
from revfrf.transport.letters import _CALL, _REPLY, Awaited, Sealing, _Call, _opened
from tests.transport.federation import one_time_keys, over_grpc
from tests.transport.links import known, place

CASE = random_case(61, rules=with_rules(n_trees=1, max_depth=1))


@dataclass(frozen=True)
class Taken:
    """What a party has on its disk that could open something, and its process of before."""

    tls: TlsIdentity
    signing: SigningKey
    before: Sealing

    def secrets(self) -> Iterator[X25519PrivateKey]:
        """Each of its secrets, as if it were a key to open letters."""
        fields = [*self.tls.to_fields().values(), self.signing.export().hex()]
        for field in fields:
            if len(field) == 64:
                yield X25519PrivateKey.from_private_bytes(bytes.fromhex(field))


@dataclass(frozen=True)
class Recording:
    """What CS has passed on in a federation that was set up and trained, what its parties have, and the keys
    that nobody has any more.
    """

    letters: list[Frame]
    answers: list[Frame]
    parties: dict[str, Taken]
    gone: dict[bytes, X25519PrivateKey]

    def read(self, letter: Frame) -> Message:
        """By a key that is gone."""
        key = self.gone[letter.piece[:32]]
        plain = _opened(letter.piece[32:], key, _CALL, place(letter))
        return decode(msgspec.msgpack.decode(plain, type=_Call).data, *MESSAGES)


@lru_cache
def recording() -> Recording:
    with prepared_keys(), one_time_keys() as made, over_grpc() as networks:
        train(CASE)
        [network] = networks
        passed = {frame.key: frame for frame in network.frames if "CS" not in (frame.sender, frame.recipient)}
        parties = {
            name: Taken(there.endpoint.sealing._tls, there.endpoint.sealing._signing, there.endpoint.sealing)
            for name, there in network.present.items()
        }
    return Recording(
        letters=[frame for frame in passed.values() if frame.kind == "call"],
        answers=[frame for frame in passed.values() if frame.kind == "reply"],
        parties=parties,
        gone={key.public_key().public_bytes_raw(): key for key in made},
    )


def test_the_letters_are_those_by_which_keys_are_dealt() -> None:
    """Otherwise it would mean little that they cannot be read."""
    said = {(letter.recipient, type(letter_of)) for letter, letter_of in read_all()}
    assert {(name, KeyDeal) for name in ("CC", *CASE.codes)} <= said
    shares = [message for letter, message in read_all() if letter.recipient == "CC"]
    assert any(isinstance(message, KeyDeal) and message.share is not None for message in shares)


def read_all() -> list[tuple[Frame, Message]]:
    return [(letter, recording().read(letter)) for letter in recording().letters]


@pytest.mark.parametrize("name", ["KGC", "CS", "CC", *CASE.codes])
def test_who_has_all_that_a_party_keeps_opens_no_letter_of_before(name: str) -> None:
    """Whoever the letter was for; not started anew, not by any secret, and not in the process of before."""
    party = recording().parties[name]
    again, secrets = Sealing(party.tls, party.signing), list(party.secrets())
    assert len(secrets) >= 2
    for letter in recording().letters:
        for sealing in (again, party.before):
            with pytest.raises(LetterError):
                sealing.open(place(letter), letter.piece)
        for key in secrets:
            with pytest.raises(RejectedError):
                _opened(letter.piece[32:], key, _CALL, place(letter))


@pytest.mark.parametrize("name", ["KGC", "CS", "CC", *CASE.codes])
def test_who_has_all_that_a_party_keeps_opens_no_answer_of_before(name: str) -> None:
    for answer in recording().answers:
        here = answer.recipient, answer.sender, answer.call
        for key in recording().parties[name].secrets():
            with pytest.raises(RejectedError):
                _opened(answer.piece, key, _REPLY, here)
            with pytest.raises(RejectedError):
                Awaited(here, known("bank").passport, key).open(answer.piece)


def test_each_letter_is_to_a_key_of_its_own() -> None:
    keys = [letter.piece[:32] for letter in recording().letters]
    assert len(set(keys)) == len(keys) > 3


def test_no_process_has_a_key_to_a_letter_that_was_read() -> None:
    for letter in recording().letters:
        offered = recording().parties[letter.recipient].before._keys._offered[letter.sender]
        assert offered[letter.piece[:32]] is None
