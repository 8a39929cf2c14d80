"""Parties as programs: a directory each, and a process that answers for it."""
