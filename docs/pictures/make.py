"""Draw a tree before and after a participant leaves, from a real run: `python docs/pictures/make.py`."""

from pathlib import Path

from sklearn.datasets import load_breast_cancer

from revfrf import RevocableForestClassifier
from revfrf.report.drawing import (
    STYLE,
    below,
    dot,
    draw,
    most_telling_tree,
    outline,
    size_of,
    tags_of,
    tops_of,
)
from revfrf.report.html import THEME

PICTURE = Path(__file__).with_name("leaving.svg")
PARTIES = {"clinic": range(10), "laboratory": range(10, 20), "archive": range(20, 30)}
LEAVER = "archive"
TEXT = "text{font:15px system-ui,sans-serif;fill:var(--ink)}.title{font-weight:600}.page{fill:var(--card)}"


def picture() -> str:
    """Train a forest, let a participant leave, and return one of the trees as SVG."""
    X, y = load_breast_cancer(return_X_y=True)
    toy = {
        "protocol": "paper",
        "key_bits": 256,
        "allow_insecure_keys": True,
    }  # the forest is the same for any key size
    model = RevocableForestClassifier(30, parties=PARTIES, max_depth=4, random_state=0, **toy).fit(X, y)
    before = outline(model.federation_.coordinator.side.forest)
    model.revoke(LEAVER)
    after = outline(model.federation_.coordinator.side.forest)

    number = most_telling_tree(before, after, [LEAVER])
    old, new = before[number], after[number]
    tops, tags = tops_of(old, [LEAVER]), tags_of([*PARTIES])
    width, height = size_of(old, new)
    gone, fresh = len(below(old, tops)), len(below(new, tops))
    trees = [
        (0, old, "gone", f"Before: {gone} nodes depend on the archive"),
        (width + 20, new, "new", f"After: {fresh} nodes are regrown without it"),
    ]
    parts = [
        f'<g transform="translate({x} 20)"><text class="title" x="22" y="14">{title}</text>'
        f'<g transform="translate(0 24)">{draw(tree, tops, tags, marked)}</g></g>'
        for x, tree, marked, title in trees
    ]
    for i, name in enumerate(PARTIES):
        x, y_key = 34 + 140 * i, height + 62
        parts.append(f'{dot(x, y_key, *tags[name])}<text x="{x + 18}" y="{y_key + 5}">{name}</text>')
    parts.append(
        f'<circle class="leaf" cx="{x + 140}" cy="{y_key}" r="4"/>'
        f'<text x="{x + 153}" y="{y_key + 5}">leaf</text>'
    )
    whole = f"{2 * width + 20} {height + 86}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole}" role="img">'
        f"<title>A tree before and after the archive leaves</title><style>{THEME}{STYLE}{TEXT}</style>"
        f'<rect class="page" width="100%" height="100%" rx="12"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
