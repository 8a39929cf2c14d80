"""For tests of a deployment: small federations, faulty peers and links, recorders, kinds of refusals."""
