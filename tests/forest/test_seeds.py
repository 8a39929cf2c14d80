"""One `random_state` gives the same seeds wherever a forest is grown."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from revfrf.forest.seeds import forest_seed, master_seed, participant_secret


@pytest.mark.parametrize("random_state", [0, 11, 2**32 - 1])
def test_number_gives_the_bytes_that_scikit_learn_draws(random_state: int) -> None:
    drawn = check_random_state(random_state).bytes(32)
    assert master_seed(random_state) == master_seed(np.random.RandomState(random_state)) == drawn
    assert master_seed(drawn.hex()) == drawn


def test_generator_gives_others_each_time() -> None:
    generator = np.random.RandomState(0)
    assert master_seed(generator) != master_seed(generator)


def test_everybodys_seed_is_its_own() -> None:
    master = master_seed(0)
    seeds = {forest_seed(master), participant_secret(master, "bank"), participant_secret(master, "shop")}
    assert len(seeds | {master, forest_seed(master_seed(1))}) == 5
