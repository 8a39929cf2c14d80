"""A CS that cheats with what it passes on: letters, and the keys that are offered for them."""

import msgspec
import pytest

from revfrf.errors import AbsentError
from revfrf.messages.key_setup import EpochAccepted
from revfrf.testing.recorders import until
from revfrf.transport import frames as frames_module
from revfrf.transport.codec import encode
from revfrf.transport.frames import frames
from tests.transport.asking import CERTIFICATE, digests
from tests.transport.links import SOON, InMemory, RawLink, known, letter
from tests.transport.writing import reading, writing

# -- letters that are not what CS says ----------------------------------------------------------------


def test_what_cs_passes_on_in_kgcs_name_must_be_kgcs() -> None:
    """Not sealed at all; to keys of bank, but of CS and telco; with another number."""
    with reading() as bank:
        cs = bank.cs
        cs.say(*frames("call", "KGC", "bank", 1, encode(CERTIFICATE)))
        cs.say(*letter(known("CS"), "bank", 2, CERTIFICATE, caller="KGC"))
        cs.say(*letter(known("telco"), "bank", 3, CERTIFICATE, caller="KGC"))
        [moved] = letter(known("KGC"), "bank", 4, CERTIFICATE)
        cs.say(msgspec.structs.replace(moved, call=5))
        said = {frame.call: frame.kind for frame in cs.heard(4)}
        assert said == {1: "absence", 2: "refusal", 3: "refusal", 5: "refusal"}
        assert bank.asked.calls == []
        cs.say(*letter(known("KGC"), "bank", 6, CERTIFICATE))
        cs.heard(5)
        assert bank.asked.calls == [("KGC", CERTIFICATE)]


def test_a_letter_is_answered_once_over_whatever_link_it_comes() -> None:
    with reading() as bank:
        [call] = letter(known("KGC"), "bank", 6, CERTIFICATE)
        bank.cs.say(call)
        bank.cs.heard()
        bank.cs.say(call, msgspec.structs.replace(call, call=2**62))
        again = RawLink(bank.endpoint, "CS")
        again.say(call, *letter(known("KGC"), "bank", 7, CERTIFICATE))
        [frame] = again.heard()
        assert (frame.kind, frame.call) == ("reply", 7)
        until(lambda: bank.endpoint._load._sizes == {})
        assert len(bank.asked.calls) == 2
        assert len(bank.cs.heard()) == len(again.heard()) == 1


def test_a_letter_that_comes_many_times_at_once_is_answered_once() -> None:
    with reading() as bank:
        [call] = letter(known("KGC"), "bank", 6, CERTIFICATE)
        bank.cs.say(*[call] * 50)
        until(lambda: bank.endpoint._load._sizes == {})
        assert [frame.kind for frame in bank.cs.heard()] == ["reply"]
        assert len(bank.asked.calls) == 1


def test_a_letter_to_a_key_of_before_a_restart_is_not_read_and_its_writer_hears_of_it() -> None:
    with writing() as kgc, reading(sealing=known("bank").restarted()) as bank:
        bank.cs.say(kgc.letter())
        [absence] = bank.cs.heard()
        assert absence.kind == "absence"
        kgc.cs.say(absence)
        with pytest.raises(AbsentError):
            kgc.waiting.result(timeout=SOON)
        assert bank.asked.calls == []


def test_noise_spends_no_key() -> None:
    """A letter counts if it is to a key; and the key is public only once the letter is on its way."""
    with reading() as bank:
        for number in range(100):
            bank.cs.say(*frames("call", "KGC", "bank", number, bytes([number]) * 60))
            bank.cs.heard(number + 1)
        assert {frame.kind for frame in bank.cs.heard(100)} == {"absence"}
        bank.cs.say(*letter(known("KGC"), "bank", 200, CERTIFICATE))
        assert bank.cs.heard(kind="reply")[0].call == 200


# -- answers ------------------------------------------------------------------------------------------


def test_letters_in_many_pieces_and_their_answers_come_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "PIECE", 50)
    network = InMemory()
    kgc, _ = network.add("KGC"), network.add("bank", digests)
    assert kgc.call("bank", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
