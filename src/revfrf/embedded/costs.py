"""What a run has cost: work by role and protocol, traffic by link and protocol."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.record import Record
from revfrf.transport.memory import MemoryNetwork

Table = dict[str, dict[str, dict[str, Any]]]


class Timings(Record, frozen=True):
    """Seconds that it took to search a modulus, to set up keys, and to train."""

    search: float = 0.0
    setup: float = 0.0
    training: float = 0.0


@dataclass(frozen=True, repr=False)
class Costs:
    """Two tables of plain values.

    `work[role][protocol]` has `seconds` of processor time, worker processes included, and
    `exponentiations`, by kind: from a fixed-base table, with a public exponent or with a secret one, mod N
    or mod N². `traffic["sender -> recipient"][protocol]` has `messages` and `bytes`. FOS-Find travels in
    the messages of FLE-Expan.
    """

    key_bits: int
    security: str
    work: Table
    traffic: Table
    requesters: frozenset[str]

    @classmethod
    def of(cls, parameters: Parameters | None, requesters: Iterable[str], network: MemoryNetwork) -> "Costs":
        """From a network's books; `parameters` are those of DT-PKC, if there is any."""
        key_bits = 0 if parameters is None else parameters.key_bits
        work: Table = {}
        for (role, protocol), done in sorted(network.ledger.entries.items()):
            powers: dict[str, int] = {}
            for (kind, bits), count in sorted(done.powers.items()):
                name = f"{kind} mod {'N' if bits <= key_bits else 'N²'}"
                powers[name] = powers.get(name, 0) + count
            work.setdefault(role, {})[protocol] = {"seconds": done.seconds, "exponentiations": powers}
        traffic: Table = {}
        for (sender, recipient, protocol), count in sorted(network.messages.items()):
            size = network.bytes[sender, recipient, protocol]
            link = traffic.setdefault(f"{sender} -> {recipient}", {})
            link[protocol] = {"messages": count, "bytes": size}
        security = "no keys but signing keys"
        if parameters is not None:
            bits = 128 if key_bits >= 3072 else 112
            security = parameters.label.strip() or f"about {bits} bits of security"
        return cls(key_bits, security, work, traffic, frozenset(requesters))

    def total(self, what: str, protocol: str | None = None) -> float:
        """The sum of "seconds", "exponentiations", "messages" or "bytes", over all or for one protocol."""
        table = self.traffic if what in ("messages", "bytes") else self.work
        values = [cell[what] for row in table.values() for p, cell in row.items() if protocol in (None, p)]
        return float(sum(sum(v.values()) if isinstance(v, dict) else v for v in values))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in ("key_bits", "security", "work", "traffic")}

    def __str__(self) -> str:
        """A table for people, participants taken together, and requesters."""
        lines = [f"{self.key_bits}-bit keys: {self.security}" if self.key_bits else self.security]
        rows: dict[tuple[str, str], list[float]] = {}
        for role, protocols in self.work.items():
            for protocol, cell in protocols.items():
                row = rows.setdefault((self._kind(role), protocol), [0.0, 0, 0, 0])
                row[0] += cell["seconds"]
                row[1] += sum(cell["exponentiations"].values())
        for link, by_protocol in self.traffic.items():
            for protocol, sent in by_protocol.items():
                row = rows.setdefault((self._kind(link.split(" -> ")[0]), protocol), [0.0, 0, 0, 0])
                row[2] += sent["messages"]
                row[3] += sent["bytes"]
        head = ("role", "protocol", "CPU s", "powers", "messages", "bytes sent")
        lines.append("{:<14}{:<12}{:>10}{:>10}{:>10}{:>14}".format(*head))
        for (role, protocol), (seconds, powers, messages, size) in sorted(rows.items()):
            lines.append(
                f"{role:<14}{protocol:<12}{seconds:>10.3f}{powers:>10,.0f}{messages:>10,.0f}{size:>14,.0f}"
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _kind(self, role: str) -> str:
        if role in ("KGC", "CS", "CC"):
            return role
        return "requesters" if role in self.requesters else "participants"
