"""Parts of HTML pages that load nothing from outside."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from revfrf.report import drawing

THEME = """
:root{--paper:#fbfbf9;--card:#fff;--ink:#1d2226;--soft:#5b646c;--line:#d9dcde;--leaf:#a9b0b6;
--gone:#c2500a;--gone-tint:#c2500a14;--new:#3a5fa8;--new-tint:#3a5fa814}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e7e9ea;--soft:#9ea8b0;
--line:#343a40;--leaf:#6b747c;--gone:#f08a4b;--gone-tint:#f08a4b1f;--new:#8fb0ee;--new-tint:#8fb0ee1f}}
"""

_HASH = re.compile("[0-9a-f]{16,}")

STYLE = """
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
*{box-sizing:border-box}main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 2rem}
h1{font-size:clamp(1.5rem,5vw,2.1rem);line-height:1.2;margin:.5rem 0}h3{font-size:.9rem;margin:0 0 .4rem}
h2{font-size:1.2rem;margin:2rem 0 .5rem}p{margin:.3rem 0 .8rem;max-width:46rem}small{color:var(--soft)}
footer{color:var(--soft);margin-top:2rem;border-top:1px solid var(--line);padding-top:.8rem;font-size:.85rem}
.facts,table,pre{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem}
.trees{display:grid;gap:.8rem 1rem;align-items:start;
grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:0;font-size:.9rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
code,pre{font:.85em ui-monospace,Menlo,Consolas,monospace}pre{white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer}details{margin:.3rem 0}details[open]>summary{margin-bottom:.5rem}
.legend{display:flex;flex-wrap:wrap;gap:0 1rem}.left{color:var(--gone);font-size:.85rem}
.key{width:1.4rem;height:1.4rem;vertical-align:middle}
figure{margin:0}figcaption{font-weight:600;margin:.3rem 0}.tree{width:100%;height:auto;display:block}
table{width:100%;border-spacing:0;font-size:.9rem;font-variant-numeric:tabular-nums;padding:.4rem}
th,td{padding:.25rem .4rem;text-align:left;vertical-align:top}.n{text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600}tbody td{border-top:1px solid var(--line)}
@media (max-width:34rem){body{font-size:.9rem;line-height:1.4}h2{margin-top:1.4rem}}
"""


def document(title: str, summary: str, sections: Iterable[str], footer: str) -> str:
    """Return a page."""
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<meta name="color-scheme" content="light dark"/><title>{escape(title)}</title>'
        f"<style>{THEME}{drawing.STYLE}{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>'
        f"<header><h1>{escape(title)}</h1><p>{escape(summary)}</p></header>\n"
        f"{''.join(sections)}<footer>{escape(footer)}</footer></main></body></html>\n"
    )


def section(title: str, body: str) -> str:
    """Return a section of a page."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>\n"


def facts(values: Mapping[str, Any]) -> str:
    """Return names and values; underscores of identifiers become spaces."""
    rows = "".join(
        f"<dt>{escape(what.replace('_', ' ') if what.isidentifier() else what)}</dt><dd>{_shown(fact)}</dd>"
        for what, fact in values.items()
    )
    return f'<dl class="facts">{rows}</dl>'


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return "; ".join(f"{escape(name)}: {_shown(each)}" for name, each in value.items()) or "none"
    text = escape(value if isinstance(value, str) else ", ".join(value) or "none")
    return f"<code>{text}</code>" if _HASH.fullmatch(text) else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    lines = list(rows)
    columns = zip(*lines, strict=True)
    kinds = [' class="n"' if all(cell[:1].isdigit() for cell in column) else "" for column in columns]

    def cells(tag: str, texts: Sequence[str]) -> str:
        drawn = zip(kinds or [""] * len(texts), texts, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{escape(text)}</{tag}>' for kind, text in drawn)}</tr>"

    body = "".join(cells("td", line) for line in lines)
    return f"<table><thead>{cells('th', head)}</thead><tbody>{body}</tbody></table>"
