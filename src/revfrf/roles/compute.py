"""CC, the compute partner: holds the second strong share, and never talks to anybody but KGC and CS."""

from revfrf.roles.party import Party


class ComputePartner(Party):
    """CC. While a forest is built it has nothing to do but to hold its share."""
