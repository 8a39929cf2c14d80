"""The paper's protocols, one module each, with all their sides together."""
