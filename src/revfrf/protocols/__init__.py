"""Protocols, one module each, with all their sides together."""
