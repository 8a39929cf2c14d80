"""The reference's canonical bytes and signatures against their specification and the RFC's own vectors."""

from random import Random

import pytest

from tests.reference import ed25519
from tests.reference.canonical import Field, canonical, canonical_field
from tests.reference.dtpkc import RefusedError

# -- Canonical bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "payload"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "0080"),
        (-1, "ff"),
        (-127, "81"),
        (-128, "ff80"),
        (2**64, "01" + 8 * "00"),
    ],
)
def test_canonical_integer_is_twos_complement_with_a_sign_bit(number: int, payload: str) -> None:
    size = len(payload) // 2
    assert canonical_field(number).hex() == "69" + f"{size:016x}" + payload


@pytest.mark.parametrize(
    ("field", "tag", "payload"),
    [
        (None, "n", b""),
        (False, "o", b"\0"),
        (True, "o", b"\1"),
        ("é", "s", b"\xc3\xa9"),
        (b"\xff\0", "b", b"\xff\0"),
        ((), "t", b""),
        ((None, b""), "t", b"n" + bytes(8) + b"b" + bytes(8)),
    ],
)
def test_canonical_field_is_tag_length_and_payload(field: Field, tag: str, payload: bytes) -> None:
    assert canonical_field(field) == tag.encode() + bytes(7) + bytes([len(payload)]) + payload


def test_canonical_fields_do_not_run_into_each_other() -> None:
    assert canonical("d", "ab", "c") != canonical("d", "a", "bc")
    assert canonical("d", "é").hex() == (
        "74" + f"{21:016x}" + "73" + f"{1:016x}" + "64" + "73" + f"{2:016x}" + "c3a9"
    )


# -- Ed25519 ----------------------------------------------------------------------------------------

RFC_8032 = [  # section 7.1, tests 1 to 3: seed, public key, message, signature
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da0"
        "85ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac1"
        "8ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize("vector", RFC_8032, ids=["1", "2", "3"])
def test_ed25519_is_that_of_rfc_8032(vector: tuple[str, str, str, str]) -> None:
    seed, public, message, signature = map(bytes.fromhex, vector)
    assert ed25519.public_key(seed) == public
    assert ed25519.sign(seed, message) == signature
    ed25519.verify(public, signature, message)
    with pytest.raises(RefusedError) as error:
        ed25519.verify(public, signature, message + b"\0")
    assert error.value.kind == "signature"


def test_base_point_generates_a_group_of_order_l() -> None:
    assert ed25519.B[0] % 2 == 0
    assert ed25519.times(ed25519.L, ed25519.B) == ed25519.IDENTITY != ed25519.times(8, ed25519.B)


def test_points_decode_to_what_encodes_to_them(random: Random) -> None:
    decoded = {data: ed25519.decode(data) for data in (random.randbytes(32) for _ in range(40))}
    points = {data: point for data, point in decoded.items() if point is not None}
    assert 0 < len(points) < len(decoded)
    for data, (x, y) in points.items():
        assert (-x * x + y * y - 1 - ed25519.D * x * x * y * y) % ed25519.P == 0
        assert ed25519.encode((x, y)) == data


@pytest.fixture
def random() -> Random:
    return Random("the reference's own tests")
