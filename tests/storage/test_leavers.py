"""A participant that has left keeps nothing of the forest in its files, and stays who it is."""

from pathlib import Path

import pytest

from revfrf.errors import ProtocolError
from revfrf.names import PARTICIPANT
from revfrf.protocols.common.identity import IdentityRecord
from revfrf.protocols.sides import TRAINING
from revfrf.storage.directory import Directory
from revfrf.storage.memory import ParticipantStore
from revfrf.testing.federations import RULES, random_case, set_up, train, with_books
from tests.storage.traces import all_there, raw, where


@pytest.mark.parametrize("rules", [with_books(), RULES], ids=["shares", "paper"])
def test_erasing_leaves_no_book_split_row_secret_or_key(tmp_path: Path, rules: object) -> None:
    case = random_case(7, rules=rules)
    federation = train(case, set_up(case, stores=Directory(tmp_path / "forest", new=True)))
    owner = federation.participants["telco"]
    thresholds = {book.thresholds[i : i + 80] for book in owner.store.books for i in (0, 160)}
    salts = {book.salt for book in owner.store.books}
    rows = {column.astype("<i8").tobytes() for column in owner.table(TRAINING)}
    keys = set() if owner.identity.keys is None else {owner.identity.keys.record().sk}
    dead = {thing for thing in thresholds | salts | rows | keys | {owner.secret} if thing}
    before, signing = raw(tmp_path / "forest"), owner.identity.signing_key.export()
    assert where(before, dead)
    owner.erase()
    name = owner.store.tables.path.name  # type: ignore[attr-defined]
    file = {name: raw(tmp_path / "forest")[name]}
    assert where(file, dead) == {}
    assert all_there(file, {signing})
    federation.stores.close()

    again = Directory(tmp_path / "forest", new=False).store(
        ParticipantStore, PARTICIPANT, "telco", create=False
    )
    identity = again.expect("identity", IdentityRecord)
    assert (identity.name, identity.keys, identity.signing) == ("telco", None, signing)
    assert (again.books, again.own_splits, again.used, again.round) == ([], {}, None, -1)


def test_party_that_has_erased_its_keys_asks_for_nothing_more() -> None:
    federation = train(random_case(7, rules=with_books()))
    owner = federation.participants["telco"]
    owner.erase()
    with pytest.raises(ProtocolError, match="no forest to leave"):
        owner.leave(1)
    with pytest.raises(ProtocolError, match="holds no table"):
        owner.table(TRAINING)
