"""Configurations: what is written is read back, and every mistake is named with its line and the remedy."""

import os
import stat
import tomllib
import unicodedata
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from revfrf import RevocableForestClassifier
from revfrf.errors import ConfigError, UsageError
from revfrf.names import Role, check_name
from revfrf.node import config as module
from revfrf.node.config import (
    ColumnsSection,
    Config,
    DataSection,
    ForestSection,
    KeysSection,
    LogSection,
    NetworkSection,
    PartySection,
    PolicySection,
    WorkSection,
    load_config,
    new_config,
    with_overrides,
    write_config,
)
from revfrf.node.toml_source import MAX_SIZE, toml_text

ROLES: tuple[str, ...] = get_args(Role)
PARTICIPANT = '[party]\nfederation = "f"\nrole = "participant"\nname = "clinic"\n'
NETWORK = '[network]\ncoordinator = "cs:8470"\n'
CS = '[party]\nfederation = "f"\nrole = "CS"\nname = "CS"\n[data]\ntarget = "y"\ntask = "classes"\n'
KGC = f'[party]\nfederation = "f"\nrole = "KGC"\nname = "KGC"\n{NETWORK}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "revfrf.toml"


def made(role: str, **flags: Any) -> Config:
    needed = {"target": "y", "task": "classes"} if role == "CS" else {"coordinator": "cs:8470"}
    name = "clinic" if role in ("participant", "requester") else role
    return new_config(**{"federation": "f", "role": role, "name": name, **needed, **flags})


def refusal(path: Path, text: str | bytes) -> ConfigError:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert isinstance(caught.value, UsageError)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.__cause__ is None
    return caught.value


def loaded(path: Path, text: str) -> Config:
    path.write_text(text)
    return load_config(path)


# -- written and read back --------------------------------------------------------------------------


def is_name(text: str) -> bool:
    try:
        check_name("name", text)
    except UsageError:
        return False
    return True


NAMES = (
    st.text(
        st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="/"), min_size=1, max_size=20
    )
    .map(lambda text: unicodedata.normalize("NFKC", text).strip())
    .filter(is_name)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ADDRESSES = st.builds(
    "{}:{}".format, st.sampled_from(["cs", "10.0.0.1", "[::1]", "a-b.org"]), st.integers(1, 65535)
)
PLACES = st.integers(0, 18)
COUNT = st.integers(1, 2**31 - 1)
SEEDS = st.none() | st.integers(0, 2**32 - 1) | st.binary(min_size=32, max_size=32).map(bytes.hex)
FORESTS = st.builds(
    ForestSection,
    n_estimators=COUNT,
    max_depth=st.integers(1, 62),
    max_features=st.sampled_from(["sqrt", "log2"]) | COUNT | st.floats(0, 1, exclude_min=True),
    min_samples_split=st.integers(2, 2**31 - 1),
    min_samples_leaf=COUNT,
    bootstrap=st.booleans(),
    candidates=st.sampled_from(["quantile", "uniform"]),
    n_candidates=st.integers(1, 255),
    n_sampled=st.integers(2, 2**20),
    random_state=SEEDS,
)
POLICIES = st.builds(
    PolicySection,
    accepts=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    refuses=st.lists(TEXTS, max_size=3).map(tuple),
    max_rows=st.none() | st.integers(0, 2**63 - 1),
)

EPSILON = st.floats(0.001, 32)
COLUMN_TABLES = st.fixed_dictionaries(
    {},
    optional={
        "n_cuts": st.integers(1, 255),
        "epsilon": EPSILON,
        "epsilon_budget": st.floats(0.001, 10**6),
        "forget_bins": st.booleans(),
    },
)

KEYS = st.just(KeysSection(protocol="shares")) | st.builds(
    KeysSection, key_bits=st.none() | st.integers(128, 1024).map(lambda n: 16 * n)
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    role: Any = draw(st.sampled_from(ROLES))
    ours: Any = {"target": draw(TEXTS), "task": draw(st.sampled_from(["classes", "numbers"]))}
    data = DataSection(
        file=draw(TEXTS),
        id_column=draw(TEXTS),
        decimals=draw(PLACES | st.dictionaries(PLAIN, PLACES, max_size=3)),
        categories=tuple(f"{name} " for name in draw(st.lists(st.sampled_from("ab\n'\"\\\x7f"), max_size=3))),
        drop=tuple(f"{name} " for name in draw(st.lists(NAMES, max_size=3))),
        **(ours if role == "CS" else {}),
    )
    if role == "CS":
        data = msgspec.structs.replace(data, decimals={}, categories=(), drop=())
    patience = draw(st.integers(1, 10**6))
    return Config(
        party=PartySection(
            federation=draw(NAMES),
            role=role,
            name=draw(NAMES) if role in ("participant", "requester") else role,
        ),
        network=NetworkSection(
            coordinator=None if role == "CS" else draw(ADDRESSES),
            listen=draw(ADDRESSES) if role == "CS" else None,
            patience=patience,
            heartbeat=draw(st.integers(1, min(patience, 3600))),
            call=draw(st.integers(1, 10**6)),
        ),
        data=data if role in ("CS", "participant") else DataSection(),
        columns=draw(
            {
                "participant": st.builds(
                    ColumnsSection,
                    n_cuts=st.integers(1, 255),
                    epsilon=EPSILON,
                    epsilon_budget=st.none() | EPSILON,
                    forget_bins=st.booleans(),
                )
            }.get(role, st.just(ColumnsSection()))
        ),
        of_column=draw(st.dictionaries(TEXTS, COLUMN_TABLES, max_size=3)) if role == "participant" else {},
        policy=draw(POLICIES) if role in ("CS", "CC", "participant") else PolicySection(),
        forest=draw(
            {"CS": FORESTS, "participant": st.builds(ForestSection, random_state=SEEDS)}.get(
                role, st.just(ForestSection())
            )
        ),
        keys=draw(KEYS) if role == "KGC" else KeysSection(),
        work=WorkSection(workers=draw(st.sampled_from([-1, 1, 7])), backend=draw(PLAIN), address=draw(PLAIN)),
        log=LogSection(
            level=draw(st.sampled_from(["debug", "error"])), format=draw(st.sampled_from(["text", "json"]))
        ),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(config=configs())
def test_what_is_written_is_read_back(path: Path, config: Config) -> None:
    path.unlink(missing_ok=True)
    back = load_config(write_config(path, config))
    assert back == config
    assert back.path == path


@pytest.mark.parametrize("role", ROLES)
def test_a_new_file_has_the_sections_of_its_role_alone_each_key_with_a_comment(path: Path, role: str) -> None:
    text = write_config(path, made(role)).read_text()
    assert list(tomllib.loads(text)) == [
        section for section in module._SECTIONS if role in module._ONLY.get((section,), ROLES)
    ]
    rows = text.splitlines()
    keys = [n for n, row in enumerate(rows) if " = " in row and not row.startswith("# ")]
    assert len(keys) > 10
    assert all(rows[n - 1].startswith("# ") for n in keys)
    assert ("coordinator = " in text, "listen = " in text) == (role != "CS", role == "CS")


def test_keys_without_a_value_are_there_as_comments_that_hold_when_they_are_made_keys(path: Path) -> None:
    text = write_config(path, made("CS")).read_text()
    for key in ("accepts", "max_rows", "random_state"):
        assert f"\n# {key} = " in text
        text = text.replace(f"\n# {key} = ", f"\n{key} = ")
    config = loaded(path, text)
    assert config.policy == PolicySection(accepts=("clinic",), max_rows=10_000)
    assert config.forest == ForestSection(random_state=0)


def test_a_file_is_its_owners_alone_and_never_overwritten(path: Path) -> None:
    write_config(path, made("CS"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        write_config(path, made("CC"))
    assert caught.value.kind == "exists"
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    for nowhere in (path / "x", "\0"):
        with pytest.raises(ConfigError) as caught:
            write_config(nowhere, made("CC"))
        assert caught.value.kind == "io"
    assert list(path.parent.iterdir()) == [path]


def test_what_is_left_out_has_its_default(path: Path) -> None:
    config = loaded(path, CS)
    assert config.network == NetworkSection(listen="0.0.0.0:8470", patience=600, heartbeat=10, call=3600)
    assert config.forest == ForestSection()
    assert (config.policy, config.work, config.log) == (PolicySection(), WorkSection(), LogSection())
    participant = loaded(path, PARTICIPANT + NETWORK)
    assert participant.data == DataSection(file="rows.csv", id_column="id", decimals={})
    assert participant.forest == ForestSection()


def test_the_forests_keys_and_defaults_are_those_of_the_estimators() -> None:
    theirs = RevocableForestClassifier().get_params()
    ours = msgspec.structs.asdict(ForestSection())
    assert ours == {name: theirs.get(name, "not there") for name in ours}


@pytest.mark.parametrize("max_features", ["1", "1.0", "0.3", '"sqrt"', "7"])
def test_whole_numbers_and_shares_of_columns_stay_apart(path: Path, max_features: str) -> None:
    config = loaded(path, f"{CS}[forest]\nmax_features = {max_features}")
    assert toml_text(config.forest.max_features) == max_features


def test_tables_are_found_from_the_files_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PARTICIPANT + NETWORK
    monkeypatch.chdir("/")
    assert loaded(path, text).data_file == path.parent / "rows.csv"
    assert loaded(path, f'{text}[data]\nfile = "../a.csv"').data_file == path.parent / "../a.csv"
    assert loaded(path, f'{text}[data]\nfile = "/b.csv"').data_file == Path("/b.csv")


def test_files_as_windows_writes_them_are_read(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + (PARTICIPANT + NETWORK).replace("\n", "\r\n").encode())
    assert load_config(path).party.name == "clinic"


# -- mistakes ---------------------------------------------------------------------------------------

BASE = PARTICIPANT + NETWORK
TEXTS_BY_NAME = {"<BASE>": BASE, "<PARTICIPANT>": PARTICIPANT, "<CS>": CS, "<KGC>": KGC, "\\n": "\n"}
MISTAKES = r"""
key     | <BASE>patiense = 5 | line 7, [network] patiense | did you mean patience?
section | <BASE>[plicy] | line 7, [plicy] | did you mean policy?
key     | <BASE>[log]\npatience = 5 | line 8, [log] patience | below [network]
section | patience = 5\n<BASE> | line 1, [patience] | below [network]
key     | <CS>[forest]\ntrees = 5 | line 9, [forest] trees | did you mean n_estimators?
key     | <BASE>[log]\nzzz = 5 | line 8, [log] zzz | there are level, format
section | log = 5\n<BASE> | line 1, [log] | write [log] on a line
section | <BASE>[[log]] | line 7, [log] | write [log] on a line
key     | <BASE>[forest]\nmax_depth = 5 | line 8, [forest] max_depth | only CS has max_depth
section | <CS>[keys] | line 8, [keys] | only KGC has [keys]
section | <KGC>[data] | line 7, [data] | only participant and CS have [data]
key     | <BASE>listen = "a:1" | line 7, [network] listen | only CS has listen
key     | <CS>[network]\ncoordinator = "cs:1" | line 9, [network] coordinator | requester have coordinator
key     | <BASE>[data]\ntarget = "y" | line 8, [data] target | only CS has target
key     | <PARTICIPANT>[network] | line 5, [network] coordinator | is missing; give host
key     | <PARTICIPANT> | toml, [network] coordinator | is missing; give host:port
key     | [party]\nname = "x"\nfederation = "f" | line 1, [party] role | is missing; give "KGC"
key     |  | toml, [party] federation | is missing
value   | <BASE>patience = "9" | line 7, [network] patience | not '9'
value   | <BASE>patience = 9.0 | line 7, [network] patience | not 9.0
value   | <BASE>patience = true | line 7, [network] patience | not True
value   | <BASE>[data]\nfile = 2026-01-02 | line 8, [data] file | like
value   | <BASE>patience = 0 | line 7, [network] patience | from 1 to
value   | <BASE>call = 9999999999999999999999 | line 7, [network] call | from 1 to
value   | <PARTICIPANT>[network]\ncoordinator = "cs" | line 6 | host:port
value   | <PARTICIPANT>[network]\ncoordinator = "cs:0" | line 6 | host:port
value   | <PARTICIPANT>[network]\ncoordinator = "cs:65536" | line 6 | host:port
value   | <PARTICIPANT>[network]\ncoordinator = "http://cs:1" | line 6 | host:port
value   | <PARTICIPANT>[network]\ncoordinator = "::1:80" | line 6 | "[::1]:8470"
value   | <BASE>\nheartbeat = 700 | line 8, [network] heartbeat | lower the one
value   | <BASE>\npatience = 5 | line 8, [network] patience | lower the one
value   | <BASE>[data]\ndrop = "a" | line 8, [data] drop | a list of columns
value   | <BASE>[data]\ndrop = [\n"a",\n5] | line 8, [data] drop | list of columns
value   | <BASE>[data]\ndrop = [""] | line 8, [data] drop | list of columns
value   | <BASE>[data]\nfile = "a\u0000" | line 8, [data] file | a path
value   | <BASE>[data]\ndecimals = 19 | line 8, [data] decimals | from 0 to 18
value   | <BASE>[data.decimals]\nage = 0\n"a b" = 19 | line 7, [data] decimals | from 0 to 18
value   | <BASE>[policy]\naccepts = "a" | line 8, [policy] accepts | list of names
value   | <BASE>[policy]\nmax_rows = -1 | line 8, [policy] max_rows | from 0
value   | <CS>[forest]\nn_estimators = 0 | line 9, [forest] n_estimators | from 1 to
value   | <CS>[forest]\nmax_depth = 63 | line 9, [forest] max_depth | from 1 to 62
value   | <CS>[forest]\nmax_features = 0.0 | line 9, [forest] max_features | fraction up to 1.0
value   | <CS>[forest]\nmax_features = nan | line 9, [forest] max_features | not nan
value   | <CS>[forest]\nmax_features = 1.5 | line 9, [forest] max_features | up to 1.0
value   | <CS>[forest]\nrandom_state = "ab" | line 9, [forest] random_state | 64 hex
value   | <KGC>[keys]\nkey_bits = 1024 | line 8, [keys] key_bits | 2048 or more
value   | <KGC>[keys]\nkey_bits = 3073 | line 8, [keys] key_bits | multiple of 16
value   | <KGC>[keys]\nprotocol = "plain" | line 8, [keys] protocol | must be "shares" or "paper", not 'plain'
value   | <KGC>[keys]\nprotocol = "shares"\nkey_bits = 3072 | line 9, [keys] key_bits | remove it
value   | <BASE>[work]\nworkers = 0 | line 8, [work] workers | -1 for all cores
value   | <BASE>[log]\nlevel = "loud" | line 8, [log] level | or "warning" or
syntax  | <BASE>patience = | toml: not TOML: Invalid value | key = value
syntax  | <BASE>listen = cs | line 7 | text in quotes
syntax  | <BASE>call = 1\ncall = 2\n | line 8 | each once
syntax  | <BASE>[network] | line 7 | each once
syntax  | <BASE>x = [1,\n2\n | end of document | Unclosed array
""".strip().splitlines()
"""The kind of the error, what is in the file, where it is wrong, and a part of the message."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_the_remedy(path: Path, mistake: str) -> None:
    kind, text, where, what = (part.strip(" ") for part in mistake.split(" | "))
    for name, content in TEXTS_BY_NAME.items():
        text = text.replace(name, content)
    check_mistake(path, text, kind, where, what)


def check_mistake(path: Path, text: str | bytes, kind: str, where: str, what: str) -> None:
    error = refusal(path, text)
    assert error.kind == kind
    assert where in str(error)
    assert what in str(error)


WRONG_NAMES = {
    "CS": "reserved names",
    "ｃlinic": "NFKC",
    "a/b": "without '/'",
    "": "1 to 100",
    "a\\nb": r"'a\nb': ",
}


@pytest.mark.parametrize(
    ("text", "kind", "where", "what"),
    [
        (CS.replace("task", "# task"), "key", "line 5, [data] task", '"classes" or "numbers"'),
        (BASE.replace("partic", "antic"), "value", "line 3, [party] role", 'or "participant"'),
        (CS.replace('name = "CS"', 'name = "boss"'), "value", "line 4, [party] name", "must be CS"),
        (f"{BASE}call = 0x{'f' * 9000}", "value", "line 7, [network] call", "too long to show"),
        (f"{BASE}call{'.a' * 9000} = 1", "value", "line 5, [network] call", "too long to show"),
        (f"x = {'[' * 9000}", "syntax", "toml: a number", "nested too deeply; no key"),
        (f"x = {'9' * 9000}", "syntax", "toml: a number", "thousands of digits"),
        (BASE.encode() + b'[data]\nfile = "\xff"\n', "syntax", "line 8", "not UTF-8"),
        *(
            (BASE.replace("clinic", name), "value", "line 4, [party] name", what)
            for name, what in WRONG_NAMES.items()
        ),
    ],
    ids=["task", "role", "name of CS", "huge number", "table", "depth", "digits", "bytes", *WRONG_NAMES],
)
def test_other_mistakes_are_named_likewise(
    path: Path, text: str | bytes, kind: str, where: str, what: str
) -> None:
    check_mistake(path, text, kind, where, what)


def test_what_is_no_file_of_reasonable_size_is_refused(path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    faults = {path: "missing", tmp_path: "not-regular", tmp_path / "pipe": "not-regular", Path("\0"): "io"}
    for wrong, kind in faults.items():
        with pytest.raises(ConfigError) as caught:
            load_config(wrong)
        assert caught.value.kind == kind
    assert refusal(path, "#" * (MAX_SIZE + 1)).kind == "too-large"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_in_a_file_is_a_configuration_or_a_config_error(path: Path, data: st.DataObject) -> None:
    good = (CS + "[network]\npatience = 5\nheartbeat = 1\n").encode()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(start + 8, len(good))))
    new = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"[", b'"', b"'''", b"\n", b"=", b"{}", b"[[log]]"])
    )
    path.write_bytes(good[:start] + new + good[end:])
    problem = None
    try:
        load_config(path)
    except ConfigError as error:
        problem = error
    assert problem is None or str(problem).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"{BASE}\n\n  patience\t=0", "line 9, "),
        (f"{PARTICIPANT}[ network ] # here\n# patience = 1\ncall = 5\npatience = 0", "line 8, "),
        (f"{PARTICIPANT}[network]\r\npatience = 0\r\n", "line 6, "),
        ('network = { coordinator = "cs:1", patience = 0 }\n' + PARTICIPANT, "line 1, "),
        (f'{BASE}"patience" = 0', "line 5, "),
        (f'network.coordinator = "cs:1"\nnetwork.patience = 0\n{PARTICIPANT}', "toml, "),
    ],
)
def test_a_key_is_found_in_its_line_or_else_its_section_or_file(path: Path, text: str, where: str) -> None:
    assert f"{where}[network] patience: " in str(refusal(path, text))


# -- flags ------------------------------------------------------------------------------------------


def test_flags_take_the_place_of_what_the_file_says() -> None:
    config = made("CS")
    flags = {"patience": 20, "log_level": "debug", "n_estimators": 5, "id_column": "a", "name": None}
    changed = with_overrides(config, **flags)
    assert changed.network == NetworkSection(listen="0.0.0.0:8470", patience=20)
    assert (changed.log.level, changed.forest) == ("debug", ForestSection(n_estimators=5))
    assert (changed.party, changed.data.id_column) == (config.party, "a")
    assert config == made("CS")
    assert with_overrides(config) == config


FLAGS: list[tuple[str, dict[str, Any], str, str]] = [
    ("CS", {"patience": 0}, "--patience: ", "from 1 to"),
    ("CS", {"patience": "600"}, "--patience: ", "not '600'"),
    ("CS", {"patience": 5}, "--patience: ", "heartbeat=10 is more than patience=5"),
    ("CS", {"log_level": "loud"}, "--log-level: ", '"debug" or'),
    ("CS", {"max_features": "all"}, "--max-features: ", "fraction up to 1.0"),
    ("participant", {"decimals": {"age": 19}}, "--decimals: ", "from 0 to 18"),
    ("CS", {"decimals": 2}, "--decimals: ", "only participant has decimals"),
    ("CC", {"n_estimators": 5}, "--n-estimators: ", "only CS and participant have [forest]"),
    ("CC", {"listen": "a:1"}, "--listen: ", "only CS has listen"),
    ("CC", {"file": "a.csv"}, "--data: ", "only participant and CS have [data]"),
    ("participant", {"accepts": "clinic"}, "--policy: ", "a list of names"),
    ("CS", {"backend": 3}, "--workers: ", "text"),
    ("KGC", {"protocol": "plain"}, "--protocol: ", '"shares" or "paper"'),
    ("KGC", {"protocol": "shares", "key_bits": 2048}, "--key-bits: ", 'only protocol "paper"'),
    ("CS", {"protocol": "shares"}, "--protocol: ", "only KGC has [keys]"),
]


@pytest.mark.parametrize(("role", "flags", "where", "what"), FLAGS)
def test_a_wrong_flag_is_named(role: str, flags: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_overrides(made(role), **flags)
    assert str(caught.value).startswith(where)
    assert what in str(caught.value)


def test_a_file_named_by_a_flag_is_one_of_the_current_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = loaded(path, BASE)
    (path.parent / "elsewhere").mkdir()
    monkeypatch.chdir(path.parent / "elsewhere")
    assert with_overrides(config, file="a.csv").data_file == path.parent / "elsewhere" / "a.csv"
    assert with_overrides(config, data_file=Path("a.csv")).data_file == path.parent / "elsewhere" / "a.csv"
    assert with_overrides(config, patience=20).data_file == path.parent / "rows.csv"


def test_no_flag_is_the_name_of_two_keys() -> None:
    assert len(module._KEYS) == 2 * sum(len(struct.__struct_fields__) for struct in module._SECTIONS.values())


def test_a_new_party_says_what_it_is() -> None:
    with pytest.raises(ConfigError, match=r"\[party\] name: is missing"):
        new_config(role="CS", federation="f")
    with pytest.raises(ConfigError, match="--role: must be"):
        new_config(role="boss", federation="f", name="x")
