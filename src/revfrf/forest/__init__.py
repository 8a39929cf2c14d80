"""Plain forests: randomness, candidate cuts, criteria, trees, votes. No cryptography, no network."""
