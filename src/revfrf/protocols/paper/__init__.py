"""The paper's homomorphic protocol."""
