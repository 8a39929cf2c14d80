"""The protocols by which forests are grown and asked."""

from revfrf.names import Protocol
from revfrf.protocols.paper.sides import PAPER
from revfrf.protocols.shares import SHARES
from revfrf.protocols.sides import ForestProtocol

PROTOCOLS: dict[Protocol, ForestProtocol] = {"shares": SHARES, "paper": PAPER}
