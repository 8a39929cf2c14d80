"""A party's configuration: one TOML file, written once with comments, and edited by its operator.

Every mistake in it is a ConfigError that names the file, the line, the key, what is wrong and what to write
instead. Flags of the command line pass the same checks.
"""

import difflib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import FieldInfo, asdict, fields

from revfrf.errors import ConfigError, UsageError
from revfrf.forest.books import MAX_CUTS
from revfrf.io.files import create, writing
from revfrf.io.party_data import Task
from revfrf.names import (
    CC,
    CS,
    KGC,
    PARTICIPANT,
    REQUESTER,
    SERVERS,
    Protocol,
    Role,
    check_address,
    check_name,
)
from revfrf.node.logs import Format, Level
from revfrf.node.toml_source import Source, Tables, read_toml, shown, toml_text
from revfrf.protocols.columns import MAX_BUDGET, MAX_EPSILON, MIN_EPSILON, ColumnSettings
from revfrf.protocols.common.request import RequestPolicy

_MANY, _MONTH = 2**31 - 1, 31 * 24 * 3600


def _key(note: str, wants: str, example: object = None, **limits: Any) -> Meta:
    """Describe a key: what it is for, what is allowed, and an example. `_told` reads these again."""
    return Meta(title=note, description=wants, examples=[example], **limits)


def _choice(literal: Any) -> str:
    return " or ".join(f'"{choice}"' for choice in get_args(literal))


def _number(note: str, least: int, most: int) -> Meta:
    return _key(note, f"a whole number from {least} to {most}", ge=least, le=most)


Method = Literal["quantile", "uniform"]
Text = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]
Texts = tuple[Text, ...]
Decimals = Annotated[int, Meta(ge=0, le=18)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
KeyBits = Annotated[int, Meta(ge=64, le=16384, multiple_of=16)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
MaxFeatures = Literal["sqrt", "log2"] | Annotated[int, Meta(ge=1, le=_MANY)] | Fraction
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)] | Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]

Epsilon = Annotated[float, Meta(ge=MIN_EPSILON, le=MAX_EPSILON)]
Budget = Annotated[float, Meta(ge=MIN_EPSILON, le=MAX_BUDGET)]

_NAME = "1 to 100 printable characters without '/' and '->'"
_NAMES = 'a list of names, like ["clinic"]'
_HOST = 'host:port, like "cs.example.org:8470" or "[::1]:8470"'
_ID = 'a column, like "id"'
_COLUMNS = 'a list of columns, like ["age", "sex"]'
_PLACES = 'a whole number from 0 to 18, or a table like { "age" = 0 }'
_SHARE = '"sqrt", "log2", a whole number from 1, or a fraction up to 1.0 (all columns)'
_SEED = f"a whole number from 0 to {2**32 - 1}, or 64 hex digits in quotes"
_BITS = "a multiple of 16 from 64 to 16384"
_SWITCH = "true or false"
_NOISE = f"a number from {MIN_EPSILON} (much noise) to {MAX_EPSILON:g}"
_SPENDING = f"a number from {MIN_EPSILON} to {MAX_BUDGET:,}, not less than epsilon"


class PartySection(Struct, frozen=True):
    """Who this is."""

    federation: Annotated[str, _key("the federation", _NAME)]
    role: Annotated[Role, _key("what it does", _choice(Role))]
    name: Annotated[str, _key("its name", _NAME)]


class NetworkSection(Struct, frozen=True):
    """How to reach the other parties, and how long to wait for them."""

    coordinator: Annotated[str | None, _key("the address of CS", _HOST)] = None
    listen: Annotated[str | None, _key("the address where CS listens", _HOST)] = None
    patience: Annotated[int, _number("seconds to wait for a party before a job stops", 1, _MONTH)] = 600
    heartbeat: Annotated[int, _number("seconds between heartbeats", 1, 3600)] = 10
    call: Annotated[int, _number("seconds that one exchange may take", 1, _MONTH)] = 3600


class DataSection(Struct, frozen=True):
    """This party's columns."""

    file: Annotated[Text, _key("the table", 'a path from here, like "rows.csv"')] = "rows.csv"
    id_column: Annotated[Text, _key("the column that names rows for all parties", _ID)] = "id"
    target: Annotated[Text | None, _key("what to predict", 'a column, like "outcome"')] = None
    task: Annotated[Task | None, _key("what the target holds", _choice(Task))] = None
    decimals: Annotated[Decimals | dict[str, Decimals], _key("decimals that are not derived", _PLACES)] = {}
    categories: Annotated[Texts, _key("columns that hold categories", _COLUMNS)] = ()
    drop: Annotated[Texts, _key("columns to leave out", _COLUMNS)] = ()


class ColumnsSection(Struct, frozen=True):
    """What CS sees of this party's columns (protocol "shares"). [columns.NAME] is for one column."""

    n_cuts: Annotated[int, _number("cuts of a column's book at the most", 1, MAX_CUTS)] = MAX_CUTS
    epsilon: Annotated[
        Epsilon | None, _key("noise on the bins, by column or if all are numbers", _NOISE, 1.0)
    ] = None
    epsilon_budget: Annotated[
        Budget | None, _key("epsilon that may be spent on a column", _SPENDING, 10.0)
    ] = None
    forget_bins: Annotated[bool, _key("whether CS erases the bins when the forest is grown", _SWITCH)] = False


class PolicySection(RequestPolicy, frozen=True):
    """Whose requests this party answers. Default: everybody's, any number of rows."""

    accepts: Annotated[Texts | None, _key("only these", _NAMES, ("clinic",))] = None
    refuses: Annotated[Texts, _key("none of these", _NAMES)] = ()
    max_rows: Annotated[Count | None, _key("rows of each per epoch", "a whole number from 0", 10_000)] = None


class ForestSection(Struct, frozen=True):
    """The forest to grow, in scikit-learn's words. Participants need no `random_state` but in experiments."""

    n_estimators: Annotated[int, _number("trees", 1, _MANY)] = 100
    max_depth: Annotated[int, _number("depth of the deepest leaf", 1, 62)] = 10
    max_features: Annotated[MaxFeatures, _key("columns tried at a node", _SHARE)] = "sqrt"
    min_samples_split: Annotated[int, _number("rows of a node that is split", 2, _MANY)] = 2
    min_samples_leaf: Annotated[int, _number("rows of a leaf", 1, _MANY)] = 5
    bootstrap: Annotated[bool, _key("whether each tree draws its own rows", _SWITCH)] = True
    candidates: Annotated[Method, _key("how thresholds are proposed", _choice(Method))] = "quantile"
    n_candidates: Annotated[int, _number("thresholds proposed for a column", 1, 255)] = 32
    n_sampled: Annotated[int, _number("rows from which they are proposed", 2, 2**20)] = 128
    random_state: Annotated[Seed | None, _key("where randomness starts", _SEED, 0)] = None


class KeysSection(Struct, frozen=True):
    """The keys that the key centre deals."""

    protocol: Annotated[Protocol, _key("how forests are trained and asked", _choice(Protocol))] = "paper"
    key_bits: Annotated[KeyBits | None, _key('bits of a key, with "paper"', _BITS, 3072)] = None
    allow_insecure: Annotated[bool, _key("for tests: keys that protect nothing", _SWITCH)] = False

    @property
    def modulus_bits(self) -> int:
        """Bits of a key under the paper protocol."""
        return 3072 if self.key_bits is None else self.key_bits


class WorkSection(Struct, frozen=True):
    """Where the computing is done."""

    workers: Annotated[int, _number("how many at a time, -1 for all cores", -1, 4096)] = -1
    backend: Annotated[str, _key("a backend of joblib, if not its own", 'text, like "ray"')] = ""
    address: Annotated[str, _key("where that backend's cluster is", "text")] = ""


class LogSection(Struct, frozen=True):
    """The log."""

    level: Annotated[Level, _key("how much is logged", _choice(Level))] = "info"
    format: Annotated[Format, _key("for people or for programs", _choice(Format))] = "text"


_ONLY: dict[tuple[str, ...], tuple[str, ...]] = {
    ("network", "coordinator"): (KGC, CC, PARTICIPANT, REQUESTER),
    ("network", "listen"): (CS,),
    ("data",): (PARTICIPANT, CS),
    **{("data", key): (CS,) for key in ("target", "task")},
    **{("data", key): (PARTICIPANT,) for key in ("decimals", "categories", "drop")},
    ("columns",): (PARTICIPANT,),
    ("policy",): (PARTICIPANT, CS, CC),
    ("forest",): (CS, PARTICIPANT),
    **{("forest", key): (CS,) for key in ForestSection.__struct_fields__ if key != "random_state"},
    ("keys",): (KGC,),
}
"""The roles of sections and keys that not all roles have. Such a key without a default must be given."""


@dataclass(frozen=True)
class Config:
    """A party's configuration, made from `tables`. Sections that its role does not have have defaults.

    `of_column` has the tables [columns.NAME], by name.
    """

    party: PartySection
    network: NetworkSection
    data: DataSection
    columns: ColumnsSection
    policy: PolicySection
    forest: ForestSection
    keys: KeysSection
    work: WorkSection
    log: LogSection
    of_column: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    path: Path | None = field(default=None, compare=False)
    tables: Tables = field(default_factory=dict, compare=False, repr=False)

    @property
    def data_file(self) -> Path:
        return Path(self.path.parent if self.path else "") / self.data.file

    def column_settings(self, columns: Collection[str]) -> dict[str, ColumnSettings]:
        """Return the settings of these columns, and of others that have a table. A budget is for noise."""
        every = asdict(self.columns)
        found = {name: every | dict(self.of_column.get(name, {})) for name in {*columns, *self.of_column}}
        for name, chosen in found.items():
            if chosen["epsilon"] is None and "epsilon_budget" not in self.of_column.get(name, {}):
                chosen["epsilon_budget"] = None
        return {name: ColumnSettings(**chosen) for name, chosen in sorted(found.items())}


_SECTIONS: dict[str, type[Struct]] = {
    name: kind for name, kind in get_type_hints(Config).items() if name not in ("path", "tables", "of_column")
}
_KEYS = {
    flag: (section, key)
    for section, struct in _SECTIONS.items()
    for key in struct.__struct_fields__
    for flag in (key, f"{section}_{key}")
}
"""The key that each flag of the command line sets."""

_FLAGS = {"file": "data", "accepts": "policy", "backend": "workers", "address": "workers"}
"""What the command line calls some of them."""

_SYNONYMS = {"trees": "n_estimators", "n_trees": "n_estimators", "depth": "max_depth"}
"""What others call our keys."""


def load_config(path: str | os.PathLike[str]) -> Config:
    """Read a configuration file. Raises ConfigError, of any kind but `exists`."""
    return _checked(*read_toml(Path(path)))


def new_config(**flags: Any) -> Config:
    """Return the configuration of a new party, from `role`, `federation`, `name` and other flags."""
    return with_overrides(None, **flags)


def with_overrides(config: Config | None, **flags: Any) -> Config:
    """Return the configuration with flags of the command line in place of keys; None leaves a key as it is.

    A flag is called as its key or, longer, `log_format`. `file` is relative to the current directory. Raises
    ConfigError, which names the flag.
    """
    tables, path = ({}, None) if config is None else (config.tables, config.path)
    names: dict[tuple[str, ...], str] = {}
    for flag, value in flags.items():
        if value is not None:
            section, key = _KEYS[flag]
            names[(section,)] = names[section, key] = f"--{_FLAGS.get(flag, flag).replace('_', '-')}"
            value = str(Path.cwd() / value) if key == "file" else value
            tables = {**tables, section: {**tables.get(section, {}), key: value}}
    return _checked(tables, Source(path, flags=names))


def write_config(path: str | os.PathLike[str], config: Config) -> Path:
    """Write the configuration to a new file, with comments, that only its owner can read. Return its path.

    Raises ConfigError, of kind `exists` or `io`.
    """
    lines = ["# A party of a RevFRF federation. Keys that are left out have their defaults."]
    for section, struct in _SECTIONS.items():
        if config.party.role in _roles(section):
            lines += ["", f"# {struct.__doc__}", f"[{section}]"]
        for key, info in _fields(section, config.party.role).items():
            note, wants, example = _told(info)
            value = getattr(getattr(config, section), key)
            line = f"{key} = {toml_text(example if value is None else value)}"
            lines += [f"# {note}: {wants}", f"# {line}" if value is None else line]
        for name, own in config.of_column.items() if section == "columns" else ():
            lines += [f"[columns.{toml_text(name)}]", *(f"{key} = {toml_text(own[key])}" for key in own)]
    target = Path(path)
    with writing(target, ConfigError):
        create(target, "\n".join([*lines, ""]).encode())
    return target


# -- checks -----------------------------------------------------------------------------------------


def _checked(given: Tables, source: Source) -> Config:
    tables = given
    for name, table in tables.items():
        if name not in _SECTIONS:
            what = f"there is no such section; {_instead(name, _SECTIONS)}"
            raise source.error(what, (name,), kind="section")
        if not isinstance(table, dict):
            what = f"is a section; write [{name}] on a line of its own, and its keys below"
            raise source.error(what, (name,), kind="section")
    party = PartySection(**_values(tables, "party", KGC, source))
    for name in tables:
        if party.role not in _roles(name):
            raise source.error(_only(party.role, name), (name,), kind="section")
    if party.role == CS:
        tables = {**tables, "network": {"listen": "0.0.0.0:8470", **tables.get("network", {})}}
    of_column = {name: own for name, own in tables.get("columns", {}).items() if isinstance(own, dict)}
    if of_column:
        every = {key: value for key, value in tables["columns"].items() if key not in of_column}
        tables = {**tables, "columns": every}
    own_settings = {
        name: _values({f"columns.{name}": own}, f"columns.{name}", party.role, source)
        for name, own in of_column.items()
    }
    sections: dict[str, Any] = {
        name: struct(**_values(tables, name, party.role, source)) for name, struct in _SECTIONS.items()
    }
    config = Config(**sections, of_column=own_settings, path=source.path, tables=given)
    for what, *keys in _faults(config):
        raise source.error(what, *keys)
    return config


def _values(tables: Tables, section: str, role: str, source: Source) -> dict[str, Any]:
    """Return the checked values of a section."""
    table, known, values = tables.get(section, {}), _fields(section, role), {}
    for key, value in table.items():
        if key not in known:
            only = _only(role, section, key) if (section, key) in _ONLY else ""
            what = only or f"there is no such key; {_instead(key, known)}"
            raise source.error(what, (section, key), kind="key")
        try:
            values[key] = convert(value, known[key].type)
        except ValidationError:
            what = f"must be {_told(known[key])[1]}, not {shown(value)}"
            raise source.error(what, (section, key)) from None
    for key, info in known.items():
        if key not in table and (info.required or ((section, key) in _ONLY and info.default is None)):
            raise source.error(f"is missing; give {_told(info)[1]}", (section, key), kind="key")
    return values


def _faults(config: Config) -> Iterator[tuple[Any, ...]]:
    """Yield what is wrong although each value has the right type: a reason, and its keys."""
    party, network, keys = config.party, config.network, config.keys
    server = party.role in SERVERS
    for key in ("federation",) if server else ("federation", "name"):
        try:
            check_name(key, getattr(party, key))
        except UsageError as error:
            yield str(error).removeprefix(f"{key} "), ("party", key)
    if server and party.name != party.role:
        yield f"must be {party.role}, like its role, not {shown(party.name)}", ("party", "name")
    for key, address, least in (("coordinator", network.coordinator, 1), ("listen", network.listen, 0)):
        try:
            if address is not None:
                check_address(address, least)
        except UsageError:
            yield f"must be {_HOST}, not {shown(address)}", ("network", key)
    if network.heartbeat > network.patience:
        what = f"heartbeat={network.heartbeat} is more than patience={network.patience}"
        yield f"{what}; lower the one or raise the other", ("network", "heartbeat"), ("network", "patience")
    if config.work.workers == 0:
        yield "must be a number of workers, or -1 for all cores, not 0", ("work", "workers")
    noisy = config.columns.epsilon or any("epsilon" in own for own in config.of_column.values())
    if config.columns.epsilon_budget is not None and not noisy:
        yield "there is no noise whose epsilon counts; give epsilon, too", ("columns", "epsilon_budget")
    if keys.protocol == "shares" and keys.key_bits is not None:
        yield 'only protocol "paper" has such keys; remove it', ("keys", "key_bits")
    if keys.modulus_bits < 2048 and not keys.allow_insecure:
        remedy = "give 2048 or more, or, to try it, --allow-insecure"
        yield f"{keys.modulus_bits}-bit keys protect nothing; {remedy}", ("keys", "key_bits")


def _roles(*key: str) -> tuple[str, ...]:
    return _ONLY.get(key, get_args(Role))


def _only(role: str, *key: str) -> str:
    *most, last = _roles(*key)
    roles = f"{', '.join(most)} and {last} have" if most else f"{last} has"
    what = f"[{key[0]}]" if len(key) == 1 else key[1]
    return f"only {roles} {what}, and this is a configuration of role {role}; remove it"


def _fields(section: str, role: str) -> dict[str, FieldInfo]:
    """Return the keys that a section has for this role."""
    name = section.partition(".")[0]
    infos = fields(_SECTIONS[name]) if role in _roles(name) else ()
    return {info.name: info for info in infos if role in _roles(name, info.name)}


def _told(info: FieldInfo) -> tuple[str, str, Any]:
    meta = info.type.__metadata__[-1]
    return meta.title, meta.description, meta.examples[0]


def _instead(name: str, known: Collection[str]) -> str:
    """Return what to do with a section or key that is unknown where it is."""
    if name in _KEYS:
        return f"put it below [{_KEYS[name][0]}]"
    near = [key for key in known if key == _SYNONYMS.get(name)] or difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
