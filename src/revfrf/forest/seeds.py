"""From one `random_state` to all seeds of a forest: the same in the library and between processes."""

import numpy as np

from revfrf.crypto.canonical import digest


def master_seed(random_state: int | str | np.random.RandomState) -> bytes:
    """Return 32 bytes: drawn as scikit-learn draws from a number or a generator, or given as hex digits."""
    if isinstance(random_state, str):
        return bytes.fromhex(random_state)
    if isinstance(random_state, int):
        random_state = np.random.RandomState(random_state)
    return random_state.bytes(32)


def forest_seed(master: bytes) -> bytes:
    """Return CS's seed: which rows a tree draws, and which features are candidates at a node."""
    return digest("revfrf forest seed v1", master)


def participant_secret(master: bytes, party: str) -> bytes:
    """Return a participant's secret: which rows it samples to propose thresholds."""
    return digest("revfrf participant secret v1", master, party)


def noise_secret(secret: bytes) -> bytes:
    """Return the noise secret of a participant in one process. Processes draw theirs from nothing."""
    return digest("revfrf noise secret v1", secret)
