"""What all pages are made of: they need nothing but a browser, and nothing from outside."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

COLOURS = 7
"""Okabe and Ito's, nearly, which colour-blind readers can tell apart; letters say the same."""

STYLE = """
:root{--paper:#fbfbf9;--card:#fff;--ink:#1d2226;--soft:#5b646c;--line:#d9dcde;--leaf:#a9b0b6;
--gone:#c2500a;--gone-tint:#c2500a14;--new:#3a5fa8;--new-tint:#3a5fa814}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e7e9ea;--soft:#9ea8b0;
--line:#343a40;--leaf:#6b747c;--gone:#f08a4b;--gone-tint:#f08a4b1f;--new:#8fb0ee;--new-tint:#8fb0ee1f}}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
*{box-sizing:border-box}main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:clamp(1.5rem,5vw,2.1rem);line-height:1.2;margin:.5rem 0}h3{font-size:.9rem;margin:0 0 .4rem}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem}p{margin:.3rem 0 .8rem;max-width:46rem}small{color:var(--soft)}
footer{color:var(--soft);margin-top:3rem;border-top:1px solid var(--line);padding-top:.8rem;font-size:.85rem}
.card,table{background:var(--card);border:1px solid var(--line);border-radius:.6rem}
.card{padding:.9rem 1rem}.card p:last-child{margin:0;color:var(--soft);font-size:.9rem}
.cards,.trees,.tables,.legend{display:grid;gap:.8rem 1rem;align-items:start;padding:0;
grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr))}
.cards{align-items:stretch}.flow{columns:18rem;column-gap:1rem}.flow .card{break-inside:avoid;margin:0 0 1rem}
.trees,.tables{grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.card .big{font-size:1.7rem;font-weight:600;margin:0}.then{color:var(--soft);font-weight:400;padding:0 .5rem}
.bar{display:flex;gap:2px;margin:.45rem 0}.bar span{padding:.3rem .5rem;font-size:.85rem;min-width:5.6rem;
border:1.5px solid var(--line);border-radius:.3rem}.bar .kept{background:var(--line)}
.bar .destroyed{background:var(--gone-tint);border:1.5px dashed var(--gone)}
.bar .rebuilt{background:var(--new-tint);border-color:var(--new)}
.facts{display:grid;grid-template-columns:1fr auto;gap:.2rem 1rem;margin:0;font-size:.9rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;text-align:right;font-variant-numeric:tabular-nums}
.facts.card{grid-template-columns:12rem 1fr}.facts.card dd{text-align:left;overflow-wrap:anywhere}
@media (max-width:34rem){.facts.card{grid-template-columns:1fr}.facts.card dd{margin-bottom:.5rem}}
.legend,.trials{list-style:none;padding:0;margin:1rem 0}.left{color:var(--gone);font:.85rem system-ui}
.legend li{display:flex;gap:.6rem;line-height:1.35}.key{flex:none;width:1.6rem;height:1.6rem}
figure{margin:0}figcaption{font-weight:600;margin:.3rem 0}.tree{width:100%;height:auto;display:block}
.edge{stroke:var(--leaf);stroke-width:1.4}.edge.gone{stroke:var(--gone);stroke-dasharray:4 3}
.edge.new{stroke:var(--new)}.leaf{fill:var(--leaf)}.box.new{fill:var(--new-tint);stroke:var(--new)}
.box.gone{fill:var(--gone-tint);stroke:var(--gone);stroke-dasharray:5 4}.split circle{stroke:var(--card)}
.split text{font:600 12px system-ui,sans-serif;text-anchor:middle;fill:#111}.split.p0 text{fill:#fff}
.p0 circle{fill:#0072b2}.p1 circle{fill:#e69f00}.p2 circle{fill:#2fb58d}.p3 circle{fill:#d58db4}
.p4 circle{fill:#6cc0ee}.p5 circle{fill:#f0e442}.p6 circle{fill:#b08968}.trials .bad::before{content:"✗"}
.trials .good::before{content:"✓"}.trials li::before{position:absolute;left:.3rem;font-weight:700}
.trials li{position:relative;padding:.5rem 0 .5rem 2rem;border-top:1px solid var(--line)}
table{width:100%;border-spacing:0;font-size:.9rem;font-variant-numeric:tabular-nums;padding:.4rem}
th,td{padding:.25rem .4rem;text-align:left;vertical-align:top}.n{text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600}tbody td{border-top:1px solid var(--line)}
"""


def document(title: str, summary: str, sections: Iterable[str], footer: str) -> str:
    """A page, as HTML."""
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<meta name="color-scheme" content="light dark"/><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>'
        f"<header><h1>{escape(title)}</h1><p>{escape(summary)}</p></header>\n"
        f"{''.join(sections)}<footer>{escape(footer)}</footer></main></body></html>\n"
    )


def section(title: str, body: str) -> str:
    """A part of it."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>\n"


def facts(values: Mapping[str, Any], card: bool = True) -> str:
    """Names and values, as a card, or inside one; names of a program's become words."""
    rows = "".join(
        f"<dt>{escape(what.replace('_', ' ') if what.isidentifier() else what)}</dt>"
        f"<dd>{escape(_shown(fact))}</dd>"
        for what, fact in values.items()
    )
    return f'<dl class="facts{" card" if card else ""}">{rows}</dl>'


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    return value if isinstance(value, str) else ", ".join(value) or "none"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers stand to the right."""
    lines = list(rows)
    columns = zip(*lines, strict=True)
    kinds = [' class="n"' if all(cell[:1].isdigit() for cell in column) else "" for column in columns]

    def cells(tag: str, texts: Sequence[str]) -> str:
        drawn = zip(kinds or [""] * len(texts), texts, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{escape(text)}</{tag}>' for kind, text in drawn)}</tr>"

    body = "".join(cells("td", line) for line in lines)
    return f"<table><thead>{cells('th', head)}</thead><tbody>{body}</tbody></table>"


def show_seconds(seconds: float) -> str:
    """Seconds."""
    return f"{seconds:,.1f} s"


def show_bytes(size: float) -> str:
    """Bytes."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"
