"""The cryptosystem: maths on frozen values, and the two servers' steps. No files, no network."""
