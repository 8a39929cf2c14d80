"""The package's README is its architecture: imports go downward only, and each layer keeps its promise."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "revfrf"
LISTED = re.findall(r"^\| `([\w.]+)` \|", (SOURCE / "README.md").read_text(), re.MULTILINE)
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in SOURCE.rglob("*.py")
    if path.name != "__init__.py"
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


def test_the_readme_lists_every_module_once() -> None:
    assert sorted(LISTED) == sorted(FILES)


@pytest.mark.parametrize("module", LISTED)
def test_imports_go_downward_only(module: str) -> None:
    allowed = {f"revfrf.{name}" for name in LISTED[: LISTED.index(module)]}
    own = {name for name in imports(FILES[module]) if name.removeprefix("revfrf.") in FILES}
    assert own <= allowed, f"{module} imports {sorted(own - allowed)} from below itself"


def test_package_files_import_nothing_of_their_own_package() -> None:
    for path in set(SOURCE.rglob("__init__.py")) - {SOURCE / "__init__.py"}:
        assert not [name for name in imports(path) if name.startswith("revfrf")]


def test_importing_the_cryptosystem_loads_no_forest() -> None:
    """Worker processes that encrypt would need a hundred megabytes more each."""
    code = "import revfrf.crypto.dtpkc, sys; print({'numba', 'sklearn', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("library", "module"),
    [("gmpy2", "crypto.arithmetic"), ("numba", "forest.kernel"), ("grpc", "transport.tls")],
)
def test_one_module_alone_imports_the_library(library: str, module: str) -> None:
    assert [name for name, path in FILES.items() if library in imports(path)] == [module]


@pytest.mark.parametrize("module", [name for name in LISTED if name.startswith("forest.")])
def test_forests_know_no_keys_and_no_messages(module: str) -> None:
    allowed = {"revfrf.crypto.canonical", "revfrf.crypto.encoding", "revfrf.record"}
    used = {name for name in imports(FILES[module]) if name.removeprefix("revfrf.") in FILES}
    assert not {name for name in used - allowed if not name.startswith(("revfrf.forest.", "revfrf.errors"))}


INPUT_OUTPUT = {"pathlib", "io", "socket", "tempfile", "shutil", "subprocess", "logging", "sqlite3", "rich"}


@pytest.mark.parametrize("module", [name for name in LISTED if name.startswith(("crypto.", "forest."))])
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


@pytest.mark.parametrize("module", LISTED)
def test_modules_and_public_names_have_docstrings(module: str) -> None:
    tree = ast.parse(FILES[module].read_text())
    assert ast.get_docstring(tree)
    kinds = (ast.FunctionDef, ast.ClassDef)
    public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("module", LISTED)
def test_files_stay_readable(module: str) -> None:
    assert len(FILES[module].read_text().splitlines()) <= 400
