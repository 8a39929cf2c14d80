"""Maths on frozen values: no roles, no files, no network.

This layer is hazardous. Its functions are safe only in the order and with the checks of `revfrf.protocols`:
a share given out for the wrong ciphertext, or a signature over the wrong fields, gives a secret away.
Applications use `revfrf.estimators`, or the command line.
"""
