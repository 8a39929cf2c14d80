"""The package's README is its architecture: imports go downward only, and each layer keeps its promise."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "revfrf"
ROWS = re.findall(r"^\| (`.*?`) \|", (SOURCE / "README.md").read_text(), re.MULTILINE)
PLACE = {name: place for place, row in enumerate(ROWS) for name in re.findall(r"`(\w+)/?`", row)}
"""The row of the map in which each package, or module of the top level, is."""

FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in SOURCE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
}


def imports(path: Path) -> list[str]:
    """Every module that a file imports, wherever in the file."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def own(module: str) -> set[str]:
    """The modules of this package that a module imports."""
    return {name.removeprefix("revfrf.") for name in imports(FILES[module])} & FILES.keys()


def test_the_map_lists_every_package_once_and_fits_on_a_screen() -> None:
    assert sorted(PLACE) == sorted({module.split(".")[0] for module in FILES})
    assert len((SOURCE / "README.md").read_text().splitlines()) <= 30


def test_files_that_the_map_names_are_in_their_package() -> None:
    called = {"call", "fit", "predict", "predict_encrypted", "revoke", "save", "load", "open", "random_state"}
    for packages, named in re.findall(
        r"^\| (`.*?`) \| (.*) \|$", (SOURCE / "README.md").read_text(), re.MULTILINE
    ):
        package = SOURCE / packages.strip("`/")
        places = {path.stem for path in package.rglob("*") if path.suffix in ("", ".py")}
        assert {*re.findall(r"`(\w+)`", named)} - called <= places, packages


def test_the_map_names_every_protocol() -> None:
    [row] = re.findall(r"^\| `protocols/` \| (.*) \|$", (SOURCE / "README.md").read_text(), re.MULTILINE)
    named = {*re.findall(r"`(\w+)`", row)}
    assert {path.stem for path in (SOURCE / "protocols").glob("*.py")} - {"__init__"} <= named


def test_the_top_level_has_few_modules() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 8


@pytest.mark.parametrize("module", FILES)
def test_imports_go_downward_only(module: str) -> None:
    here = module.split(".")[0]
    wrong = {name for name in own(module) if PLACE[name.split(".")[0]] > PLACE[here]}
    assert not wrong, f"{module} imports {sorted(wrong)} from below itself"


def test_no_modules_import_each_other() -> None:
    assert list(TopologicalSorter({module: own(module) for module in FILES}).static_order())


def test_package_files_import_nothing_of_their_own_package() -> None:
    for path in set(SOURCE.rglob("__init__.py")) - {SOURCE / "__init__.py"}:
        assert not [name for name in imports(path) if name.startswith("revfrf")]


def test_importing_the_cryptosystem_loads_no_forest() -> None:
    """Worker processes that encrypt would need a hundred megabytes more each."""
    code = "import revfrf.crypto.dtpkc.dtpkc, sys; print({'numba', 'sklearn', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("library", "module"),
    [("gmpy2", "crypto.dtpkc.arithmetic"), ("numba", "forest.kernel"), ("grpc", "transport.grpc")],
)
def test_one_module_alone_imports_the_library(library: str, module: str) -> None:
    assert [name for name, path in FILES.items() if library in imports(path)] == [module]


@pytest.mark.parametrize("module", [name for name in FILES if name.startswith("forest.")])
def test_forests_know_no_keys_and_no_messages(module: str) -> None:
    allowed = {"revfrf.crypto.canonical", "revfrf.crypto.encoding", "revfrf.record", "revfrf.parallel"}
    used = {name for name in imports(FILES[module]) if name.removeprefix("revfrf.") in FILES}
    assert not {name for name in used - allowed if not name.startswith(("revfrf.forest.", "revfrf.errors"))}


INPUT_OUTPUT = {"pathlib", "io", "socket", "tempfile", "shutil", "subprocess", "logging", "sqlite3", "rich"}


@pytest.mark.parametrize("module", [name for name in FILES if name.startswith(("crypto.", "forest."))])
def test_crypto_and_forest_do_no_input_or_output(module: str) -> None:
    tree = ast.parse(FILES[module].read_text())
    roots = {name.split(".")[0] for name in imports(FILES[module])}
    assert not roots & INPUT_OUTPUT
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "print", "input"}
    on_os = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert on_os <= {"register_at_fork"}


def test_nothing_deserialises_code() -> None:
    for path in FILES.values():
        assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(imports(path))


@pytest.mark.parametrize("module", FILES)
def test_modules_and_public_names_have_docstrings(module: str) -> None:
    tree = ast.parse(FILES[module].read_text())
    assert ast.get_docstring(tree)
    kinds = (ast.FunctionDef, ast.ClassDef)
    public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []
