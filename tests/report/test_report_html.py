"""The page about a federation loads nothing, and shows what CS knows."""

from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from revfrf import RevocableForestClassifier
from revfrf.report import drawing
from revfrf.report.drawing import COLOURS, most_telling_tree, outline, tags_of
from revfrf.report.forest import forest_page
from revfrf.report.html import STYLE, THEME

COLUMNS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "it's", "plain", "plainer"]
PARTIES = {"Ada & <b>": COLUMNS[:2], "Bea": COLUMNS[2:4], 'Cléo "C"': COLUMNS[4:]}
LEAVER = "Bea"
Overview = dict[str, Any]
"""The arguments of `forest_page`."""


class Reader(HTMLParser):
    """Every tag and its attributes, and the text; refuses tags that do not close in turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str, kind: str) -> int:
        return sum(t == tag and kind in (a.get("class") or "").split() for t, a in self.tags)


def left(*, constant: bool = False) -> Overview:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, len(COLUMNS)))
    y = (X @ [1, -1, 1, -1, 1, -1] > 0).astype(int)
    if constant:
        X[:, 2:4] = 0
    table = pd.DataFrame(X, columns=COLUMNS)
    toy: dict[str, Any] = {
        "random_state": 1,
        "protocol": "paper",
        "key_bits": 256,
        "allow_insecure_keys": True,
    }
    model = RevocableForestClassifier(5, parties=PARTIES, **toy).fit(table, y)
    before, columns = outline(model.federation_.coordinator.side.forest), model.parties_
    model.revoke(LEAVER)
    return {
        "federation": "<all> & more",
        "known": {"members": [*PARTIES], "nodes": model.n_nodes_, "digest": model.digest_},
        "columns": columns,
        "forest": outline(model.federation_.coordinator.side.forest),
        "certificates": model.certificates_,
        "before": before,
        "transcript": "1 &lt; <b>2</b>",
    }


@pytest.fixture(scope="module")
def overview() -> Overview:
    return left()


@pytest.fixture(scope="module")
def html(overview: Overview) -> str:
    return forest_page(**overview)


def legend(html: str) -> str:
    return html[html.index('<div class="legend"') : html.index('<div class="trees"')]


def test_the_page_is_well_formed(html: str) -> None:
    assert html.startswith("<!doctype html>\n")
    tags = [tag for tag, _ in Reader(html).tags]
    assert (tags.count("svg"), tags.count("section")) == (2 + len(PARTIES), 7)


def test_the_page_loads_nothing(html: str) -> None:
    tags = Reader(html).tags
    loading = {"script", "link", "img", "iframe", "object", "embed", "base", "image", "use", "form", "a"}
    assert not loading & {tag for tag, _ in tags}
    names = {name for _, attributes in tags for name in attributes}
    assert not names & {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [name for name in names if name.startswith("on")]
    for outside in ("http:", "https:", "url(", "@import", "@font-face"):
        assert outside not in html
    assert "<" not in THEME + drawing.STYLE + STYLE


def test_hostile_names_are_text(html: str) -> None:
    assert "<script" not in html
    assert "<img" not in html
    text = " ".join(Reader(html).text)
    for name in (*COLUMNS, *PARTIES, "<all> & more"):
        assert name in text


def test_every_party_is_in_the_legend_and_the_leaver_is_marked(html: str) -> None:
    found = unescape(legend(html))
    assert all(party in found for party in PARTIES)
    assert found.count("has left") == 1
    assert found[: found.index("has left")].rindex(LEAVER) > found.index("Ada & <b>")


def test_numbers_are_those_of_the_certificate_and_the_forest(overview: Overview, html: str) -> None:
    cells, (creation, leaving) = Reader(html).text, overview["certificates"]
    report = leaving.core.report
    assert cells.index(f"{LEAVER} left") < cells.index("The forest was created")  # the latest first
    for what in ("destroyed", "rebuilt", "kept"):
        assert cells[cells.index(f"nodes {what}") + 1] == f"{getattr(report, what):,}"
    assert {creation.digest_after.hex(), leaving.digest_after.hex()} <= set(cells)
    assert {creation.core.signature.hex(), leaving.core.signature.hex()} <= set(cells)
    signed = 'erasure: CS, Ada & <b>, CC, Cléo "C"'
    assert {signed, "none"} <= set(cells)
    for party in PARTIES:
        features = [feature for tree in overview["forest"].values() for feature in tree.values()]
        splits = sum((feature or "").startswith(f"{party}/") for feature in features)
        assert cells[cells.index(party, cells.index("most used columns")) + 1] == f"{splits:,}"


def test_the_trees_are_drawn_node_by_node(overview: Overview, html: str) -> None:
    number = most_telling_tree(overview["before"], overview["forest"], [LEAVER])
    figures = html.split("<figure>")[1:]
    for forest, figure in zip((overview["before"], overview["forest"]), figures, strict=True):
        reader = Reader("<figure>" + figure.partition("</figure>")[0] + "</figure>")
        nodes = [*forest[number].values()]
        assert reader.count("circle", "leaf") == nodes.count(None)
        assert reader.count("g", "split") == len(nodes) - nodes.count(None)
        assert reader.count("path", "edge") == len(nodes) - 1
    old, new = figures
    assert "Bea/" in old
    assert "Bea/" not in new
    assert old.count("box gone") == new.count("box new") > 0


def test_without_an_earlier_forest_one_tree_is_drawn_and_nothing_is_marked(overview: Overview) -> None:
    html = forest_page(**overview | {"before": None, "transcript": ""})
    assert html.count("<figure>") == 1
    for marked in ('class="box', "<em", "<pre>"):
        assert marked not in html


def test_a_leaver_cannot_break_the_page_by_the_time_it_claims(overview: Overview) -> None:
    certificate = overview["certificates"][-1]
    requests = tuple(structs.replace(each, time=2**53) for each in certificate.core.requests)
    core = structs.replace(certificate.core, requests=requests)
    claimed = overview | {"certificates": [structs.replace(certificate, core=core)]}
    assert f"Bea: {2**53} seconds after 1970" in Reader(forest_page(**claimed)).text


def test_a_leaver_without_a_split_leaves_nothing_marked() -> None:
    overview = left(constant=True)
    assert overview["before"] == overview["forest"]
    html = forest_page(**overview)
    assert "0 nodes will be destroyed" in html
    assert 'class="box' not in html


def test_parties_with_one_initial_are_marked_by_their_numbers_or_by_letters() -> None:
    assert [mark for _, mark in tags_of(["B2", "B3", "B15"]).values()] == ["2", "3", "15"]
    assert [mark for _, mark in tags_of(["Bea", "B2", "Bob"]).values()] == ["a", "b", "c"]
    assert len({colour for colour, _ in tags_of([f"B{i}" for i in range(COLOURS + 1)]).values()}) == COLOURS
