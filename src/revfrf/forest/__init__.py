"""Plain forests: randomness, candidate splits, criteria, trees, votes. No keys, no messages."""
