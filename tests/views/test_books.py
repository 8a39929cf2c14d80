"""The books of leakage and traffic hold exactly what was overheard."""

import struct
from collections import Counter
from typing import Any

from revfrf.names import CC, CS, KGC
from revfrf.testing.recorders import Sent
from tests.views.overheard import ASKING, OWNED, WIDTH, Run, split_rows


def disclosed(sent: Sent) -> dict[str, int]:
    """What a message tells, counted from its plain fields."""
    f = sent.plain
    match f["type"]:
        case "KeyDeal":
            return {"public parameters": 1} | ({"its strong share": 1} if f["share"] is not None else {})
        case "Enrolment":
            return {"public keys": 1}
        case "EpochCertificate":
            return {"members of the federation": len(f["members"])}
        case "OpenForest":
            return {"the forest's rules": 1}
        case "Schema":
            names = sum(len(column["categories"] or ()) for column in f["columns"])
            columns = {
                "names, decimals and rings of columns": len(f["columns"]),
                "names of categories": names,
            }
            return columns | {"numbers of rows": 1}
        case "LevelRequest" | "TestRequest" as kind:
            nodes = split_rows(f["nodes"])
            rows = "rows of such nodes" if kind == "LevelRequest" else "test rows that reach them"
            told = {"nodes it was asked about": len(nodes), rows: sum(len(own) for _, own in nodes)}
            return told | ({"its own splits that won": len(f["won_cuts"])} if "won_cuts" in f else {})
        case "LevelReply":
            return {
                "bins of rows": len(f["bins"]),
                "numbers of candidate cuts": len(f["n_cuts"]),
                "bytes of encrypted splits": len(f["ciphertexts"]),
            }
        case "TestReply":
            return {"path bits of test rows, in whole bytes": 8 * len(f["bits"])}
        case _:
            return disclosed_by_leaving(f)


def disclosed_by_leaving(f: dict[str, Any]) -> dict[str, int]:
    match f["type"]:
        case "RevocationRequest":
            return {"requests to leave": 1}
        case "Destroy":
            return {"its nodes below splits that have left": len(f["trees"]) // 4}
        case "Rekeyed":
            return {"bytes of encrypted splits": len(f["ciphertexts"])}
        case "EventReport":
            return {"reports of events": 1}  # under the paper protocol there are no lines of columns in it
        case "EventNotice":
            assert f["used"] is None
            return {"event certificates": 1}
        case "Countersigned":
            return {"receipts for events": len(f["receipts"])}
        case "EpochAccepted" | "Rekey" | "Certified":
            return {}
        case _:
            return disclosed_by_requests(f)


def disclosed_by_requests(f: dict[str, Any]) -> dict[str, int]:
    match f["type"]:
        case "Admission":
            return {"its own admission": 1}
        case "ForestFacts":
            columns = sum(len(columns) for columns in f["columns"].values())
            return {"names, decimals and rings of columns": columns, "the forest's rules": 1}
        case "PredictRequest":
            return {"encrypted rows of requests": len(f["rows"]) // WIDTH // sum(OWNED.values())}
        case "PredictReply":
            return {"votes for rows of its own, in numbers": len(f["votes"]) // 8}
        case "MaskedComparisons":
            counts = struct.unpack(f"<{len(f['counts']) // 4}I", f["counts"])
            owners = {"rounds of requests": 1, "owners of the splits compared": len(counts)}
            return owners | {"masked differences": sum(counts)}
        case "SealedResults":
            return {"sealed results": len(f["ciphertexts"]) // WIDTH}
        case "ShareRequest":
            return {"rounds of requests": 1, "comparisons with its splits": f["count"]}
        case "ShareReply":
            return {"path bits of requests": f["count"]}
    assert f["type"] in ("Done", "ForestQuery")
    return {}


def test_leakage_is_what_was_overheard(run: Run) -> None:
    learnt: dict[str, Counter[str]] = {name: Counter() for name in (KGC, CS, CC, *OWNED, *ASKING)}
    for sent in run.watch.sent:
        learnt[sent.recipient].update(disclosed(sent))
    assert run.leakage == {
        name: {what: count for what, count in told.items() if count} for name, told in learnt.items()
    }
    assert learnt[CS]["bins of rows"] > 500
    assert learnt[CS]["path bits of requests"] == len(run.watch.path_bits)
    assert learnt[CS]["encrypted rows of requests"] == sum(n_rows for n_rows, _ in ASKING.values())


def test_traffic_is_what_was_overheard(run: Run) -> None:
    traffic: dict[str, dict[str, int]] = {}
    for sent in run.watch.sent:
        link = traffic.setdefault(f"{sent.sender} -> {sent.recipient}", {"messages": 0, "bytes": 0})
        link["messages"] += 1
        link["bytes"] += len(sent.data)
    booked = {
        link: {what: sum(cell[what] for cell in by_protocol.values()) for what in ("messages", "bytes")}
        for link, by_protocol in run.costs.traffic.items()
    }
    assert booked == traffic
