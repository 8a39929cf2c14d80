"""ChaCha20-Poly1305 from RFC 8439."""

COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
TAG_BYTES = 16


def quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """Section 2.1."""
    for to, by, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[to] = (state[to] + state[by]) % 2**32
        mixed = state[turned] ^ state[to]
        state[turned] = (mixed << bits) % 2**32 | mixed >> (32 - bits)


def block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """Section 2.3: 64 bytes of key stream."""
    data = b"expand 32-byte k" + key + counter.to_bytes(4, "little") + nonce
    start = [int.from_bytes(data[i : i + 4], "little") for i in range(0, 64, 4)]
    state = list(start)
    for _ in range(10):
        for words in COLUMNS + DIAGONALS:
            quarter_round(state, *words)
    return b"".join(((x + y) % 2**32).to_bytes(4, "little") for x, y in zip(start, state, strict=True))


def chacha20(key: bytes, nonce: bytes, data: bytes) -> bytes:
    """Section 2.4, from block 1 on, as section 2.8 wants it."""
    stream = b"".join(block(key, 1 + i // 64, nonce) for i in range(0, len(data), 64))
    return bytes(x ^ y for x, y in zip(data, stream, strict=False))


def poly1305(key: bytes, message: bytes) -> bytes:
    """Section 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for i in range(0, len(message), 16):
        total = (total + int.from_bytes(message[i : i + 16] + b"\x01", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def tag(key: bytes, nonce: bytes, ciphertext: bytes, associated: bytes) -> bytes:
    """Section 2.8: over both, each filled up to whole blocks, and their lengths."""
    message = b"".join(part + bytes(-len(part) % 16) for part in (associated, ciphertext))
    lengths = len(associated).to_bytes(8, "little") + len(ciphertext).to_bytes(8, "little")
    return poly1305(block(key, 0, nonce)[:32], message + lengths)


def seal(key: bytes, nonce: bytes, plaintext: bytes, associated: bytes) -> bytes:
    ciphertext = chacha20(key, nonce, plaintext)
    return ciphertext + tag(key, nonce, ciphertext, associated)


def unseal(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes | None:
    """The plaintext, or None if the tag is not the right one."""
    ciphertext = sealed[:-TAG_BYTES]
    if tag(key, nonce, ciphertext, associated) != sealed[-TAG_BYTES:]:
        return None
    return chacha20(key, nonce, ciphertext)
