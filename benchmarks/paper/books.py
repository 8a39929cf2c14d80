"""What a forest's books, its `costs_`, say of roles."""

from collections.abc import Collection, Mapping
from typing import Any

from revfrf.embedded.costs import Costs
from revfrf.names import REQUESTER, SERVERS

OWNERS = "owners"
"""All participants together."""


def by_role(
    book: Mapping[str, Mapping[str, Mapping[str, Any]]],
    what: str,
    protocols: Collection[str],
    roles: Collection[str],
) -> dict[str, float]:
    """A column of work or traffic; of a link, its sender. Owners are all but servers and requester."""
    found = dict.fromkeys(roles, 0.0)
    for name, row in book.items():
        sender = name.split(" -> ")[0]
        role = sender if sender in (*SERVERS, REQUESTER) else OWNERS
        spent = [row[protocol][what] for protocol in protocols if protocol in row]
        if spent:
            found[role] += sum(spent)
    return found


def powers(costs: Costs, role: str, protocol: str) -> int:
    """How many a role has computed in a protocol so far."""
    cell = costs.work.get(role, {}).get(protocol, {"exponentiations": {}})
    return int(sum(cell["exponentiations"].values()))
