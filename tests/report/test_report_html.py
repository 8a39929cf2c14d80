"""The page about a participant that has left loads nothing, and shows what the model and the messages say."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from msgspec import structs

from revfrf import RevocableForestClassifier
from revfrf.messages.registry import MESSAGES
from revfrf.report import drawing
from revfrf.report.drawing import COLOURS, most_telling_tree, outline
from revfrf.report.html import STYLE, THEME, facts, table
from revfrf.report.leaving import PROTOCOLS, ROLES, Leaving, Trial, page

COLUMNS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "it's", "plain", "plainer"]
PARTIES = {"Ada & <b>": COLUMNS[:2], "Bea": COLUMNS[2:4], 'Cléo "C"': COLUMNS[4:]}
LEAVER = "Bea"


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


Story = tuple[RevocableForestClassifier, Leaving]


def left(leaver: str = LEAVER, *, constant: bool = False) -> Story:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, len(COLUMNS)))
    y = (X @ [1, -1, 1, -1, 1, -1] > 0).astype(int)
    if constant:
        X[:, 2:4] = 0
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=COLUMNS)
    model = RevocableForestClassifier(
        5, parties=PARTIES, random_state=1, key_bits=256, allow_insecure_keys=True
    ).fit(table, y)
    before, score = outline(model.federation_.coordinator.store), model.score(table, y)
    columns = model.parties_
    model.predict_encrypted(table[:1])
    certificate = model.revoke(leaver)
    return model, Leaving(
        title="Bea <has> left",
        summary="One & all.",
        columns=columns,
        before=before,
        after=outline(model.federation_.coordinator.store),
        score_before=score,
        score_after=model.score(table, y),
        seconds={"training": 1.25, "leaving & all": 2.5},
        trials=[
            Trial("<b>good", "it & that", "good"),
            Trial("so", "so", "limit"),
            Trial("bad", "<i>", "bad"),
        ],
        certificate=certificate,
        costs=model.costs_,
        leakage=model.leakage_,
    )


@pytest.fixture(scope="module")
def story() -> Story:
    return left()


def test_the_page_is_well_formed(story: Story) -> None:
    html = page(story[1])
    assert html.startswith("<!doctype html>\n")
    reader = Reader(html)
    assert [tag for tag, _ in reader.tags].count("svg") == 2 + len(PARTIES)
    assert [tag for tag, _ in reader.tags].count("section") == 7


def test_the_page_loads_nothing(story: Story) -> None:
    html = page(story[1])
    tags = Reader(html).tags
    loading = {"script", "link", "img", "iframe", "object", "embed", "base", "image", "use", "form", "a"}
    assert not loading & {tag for tag, _ in tags}
    names = {name for _, attributes in tags for name in attributes}
    assert not names & {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [name for name in names if name.startswith("on")]
    for outside in ("http:", "https:", "url(", "@import", "@font-face"):
        assert outside not in html
    assert "<" not in THEME + drawing.STYLE + STYLE


def test_hostile_names_are_text(story: Story) -> None:
    html = page(story[1])
    assert "<script" not in html
    assert "<img" not in html
    text = " ".join(Reader(html).text)
    for name in (*COLUMNS, *PARTIES, "Bea <has> left", "<b>good", "it & that", "leaving & all"):
        assert name in text


def test_every_party_is_in_the_legend_and_the_leaver_is_marked(story: Story) -> None:
    html = page(story[1])
    legend = html[html.index('class="legend"') : html.index('class="trees"')]
    for party in PARTIES:
        assert party in unescape(legend)
    assert legend.count("has left") == 1
    assert unescape(legend[: legend.index("has left")]).rindex("Bea") > unescape(legend).index("Ada & <b>")


def test_numbers_are_those_of_the_model(story: Story) -> None:
    model, leaving = story
    report = leaving.certificate.report
    cells = Reader(page(leaving)).text
    text = " ".join(cells)
    assert f"{leaving.score_before:.1%}" in cells
    assert f"{leaving.score_after:.1%}" in cells
    for what in ("destroyed", "rebuilt", "kept"):
        assert cells[cells.index(f"nodes {what}") + 1] == f"{getattr(report, what):,}"
    assert report.destroyed + report.kept == len(leaving.before)
    assert report.rebuilt + report.kept == len(leaving.after) == model.n_nodes_
    assert report.digest_after == model.digest_
    assert {report.digest_before, report.digest_after} <= set(cells)
    assert {"2: new keys for everybody", leaving.certificate.signature.hex()} <= set(cells)
    assert "training 1.2 s, leaving & all 2.5 s" in text
    assert "256-bit keys: INSECURE" in text
    for role, seen in model.leakage_.items():
        at = len(cells) - 1 - cells[::-1].index(role)  # the last time is its card
        card = cells[at + 1 : at + 1 + 2 * len(seen)]
        assert card == [part for what, count in seen.items() for part in (what, f"{count:,}")]


def test_costs_are_those_of_the_model(story: Story) -> None:
    _, leaving = story
    cells, costs = Reader(page(leaving)).text, leaving.costs
    at = cells.index("all", cells.index("protocol"))
    sent = costs.total("bytes")
    assert cells[at + 1] == f"{costs.total('seconds'):,.1f} s"
    assert cells[at + 2] == (f"{sent / 1e6:,.1f} MB" if sent >= 1e6 else f"{sent / 1e3:,.1f} kB")


def test_the_trees_are_drawn_node_by_node(story: Story) -> None:
    _, leaving = story
    number = most_telling_tree(leaving.before, leaving.after, [LEAVER])
    html = page(leaving)
    for forest, figure in zip((leaving.before, leaving.after), html.split("<figure>")[1:], strict=True):
        reader = Reader("<figure>" + figure.partition("</figure>")[0] + "</figure>")
        nodes = [feature for (tree, _), feature in forest.items() if tree == number]
        assert reader.count("circle", "leaf") == nodes.count(None)
        assert reader.count("g", "split") == len(nodes) - nodes.count(None)
        assert reader.count("path", "edge") == len(nodes) - 1
    [old, new] = html.split("<figure>")[1:]
    assert "Bea/" in old
    assert "Bea/" not in new
    assert old.count("box gone") == new.count("box new") > 0


def test_a_leaver_cannot_break_the_page_by_the_time_it_claims(story: Story) -> None:
    _, leaving = story
    requests = tuple(structs.replace(each, time=2**53) for each in leaving.certificate.requests)
    claimed = structs.replace(leaving.certificate, requests=requests)
    assert f"Bea: {2**53} seconds after 1970" in Reader(page(replace(leaving, certificate=claimed))).text


def test_a_leaver_without_a_split_leaves_nothing_marked() -> None:
    _, leaving = left(constant=True)
    assert leaving.certificate.report.destroyed == 0
    assert leaving.before == leaving.after
    html = page(leaving)
    Reader(html)
    assert "0 nodes will be destroyed" in html
    assert 'class="box' not in html


def test_parties_with_one_initial_are_numbered(story: Story) -> None:
    _, leaving = story
    more = {f"B{i}": ["column"] for i in range(COLOURS + 1)}
    html = page(replace(leaving, columns={**leaving.columns, **more}))
    legend = html[html.index('class="legend"') : html.index('class="trees"')]
    letters = [
        text
        for text in Reader(legend[legend.index("<details>") :].rpartition("</div>")[0]).text
        if text.isdigit()
    ]
    assert letters == [str(i + 1) for i in range(len(PARTIES) + len(more))]


def test_only_good_news_has_a_check_mark(story: Story) -> None:
    cells = Reader(page(story[1])).text
    assert [cells[cells.index(what) - 1] for what in ("<b>good", "so", "bad")] == ["✓", "•", "✗"]


def test_servers_and_protocols_are_explained_where_they_first_appear(story: Story) -> None:
    html = page(story[1])
    main = unescape(html[html.index("<main>") :])
    not_in_a_run = {"HoAdd", "HoLT as printed", "matching"}
    assert {kind.protocol for kind in MESSAGES} - not_in_a_run <= PROTOCOLS.keys()
    for name, meaning in ROLES.items():
        assert re.search(rf"\b{name}\b", main).start() == main.index(f"{name}</dt><dd>{meaning}")  # type: ignore[union-attr]
    for name, meaning in PROTOCOLS.items():
        assert main.index(name) == main.index(f"{name}: {meaning}")


def test_hashes_are_monospaced() -> None:
    assert facts({"digest": "0f" * 32}) == (
        f'<dl class="facts card"><dt>digest</dt><dd><code>{"0f" * 32}</code></dd></dl>'
    )


def test_columns_of_numbers_are_aligned_right() -> None:
    html = table(("party", "splits", "columns"), [("a", "1,200", "x (3), y"), ("b", "7", "")])
    cells = [attributes.get("class") for tag, attributes in Reader(html).tags if tag in ("th", "td")]
    assert cells == [None, "n", None] * 3
    assert Reader(table(("party", "splits"), [])).text == ["party", "splits"]
