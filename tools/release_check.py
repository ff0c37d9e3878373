"""Build what a release would publish, and check it as a stranger who installs it would.

`python3 tools/release_check.py [STEP...]` runs all steps or those named, in their order, and
stops at the first that fails. Files go to `dist/`; everything else stays in a temporary folder.
It publishes nothing. `make release-check` runs it in an environment that has the tools.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
WORKFLOWS = ROOT / ".github/workflows"
PROJECTS = {"demur": ROOT, "demur-models": ROOT / "models"}
# Packages that a core install brings, and no others.
CORE = {"demur", "google-re2", "msgspec", "pyyaml", "rfc8785"}
MAX_WHEEL_BYTES = 3_000_000
# What a page test reads, beside the pages that a newcomer reads first.
PAGES = ("README.md", "CONTRIBUTING.md", "spec/semantics.md", "docs/README.md", "examples")
PAGES_OF_NEWCOMERS = ("docs/start", "docs/tutorial")
PAGE_TEST = "tests/docs/test_pages.py"
SUPPORT = "tests/support/example_programs.py"
# Each word that a licence of a dependency may consist of; `AND`, `OR` and `;` stand between.
LICENCES = (
    "Apache", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CNRI-Python", "0BSD", "ISC",
    "ISC License (ISCL)", "LGPL-3.0-only", "MIT", "MIT-0", "MIT License", "MPL-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)", "PSF-2.0", "Python Software Foundation License",
    "Apache Software License", "BSD License", "GNU Lesser General Public License v3 (LGPLv3)",
    "Zlib", "Apache License 2.0", "3-Clause BSD License", "CC0-1.0", "Unlicense",
    "The Unlicense (Unlicense)",
)  # fmt: skip
SMOKE = """
import demur
from demur import ReasonCode, format_refusal, parse_refusal
from demur.version import __version__
line = format_refusal(ReasonCode.SCOPE_MISSING, "which table?")
assert parse_refusal(line).code is ReasonCode.SCOPE_MISSING, line
assert parse_refusal("all good") is None
print(f"demur {__version__}: {line}")
"""


class ReleaseError(Exception):
    """A step found something that a release must not have."""


def main(names: list[str]) -> int:
    """Run the steps that are named, or all; return the exit status."""
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"unknown step {', '.join(sorted(unknown))}; known: {', '.join(STEPS)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="demur-release-") as folder:
        for name, step in STEPS.items():
            if names and name not in names:
                continue
            print(f"== {name}", flush=True)
            try:
                step(Path(folder))
            except ReleaseError as error:
                print(f"release-check: {name}: {error}", file=sys.stderr)
                return 1
    return 0


def check_workflows(_: Path) -> None:
    """Hold the workflow files against their schema, and against known holes."""
    files = sorted(str(path) for path in WORKFLOWS.glob("*.yml"))
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files)
    run(tool("zizmor"), "--offline", "--quiet", *files)


def build_twice(folder: Path) -> None:
    """Build each distribution from the tree, and again from its sdist; both have one hash."""
    shutil.rmtree(DIST, ignore_errors=True)
    for project, tree in PROJECTS.items():
        first, second = folder / "first" / project, folder / "second" / project
        build(tree, first)
        unpacked = folder / "unpacked"
        shutil.unpack_archive(one_file(first, "*.tar.gz"), unpacked, filter="data")
        build(next(unpacked.glob(f"{project.replace('-', '_')}-*")), second)
        for path in sorted(first.iterdir()):
            digest, again = digest_of(path), digest_of(second / path.name)
            if digest != again:
                raise ReleaseError(f"two builds of `{path.name}` differ: {digest} and {again}")
            print(f"  {path.name}: {path.stat().st_size:,} bytes, sha256 {digest}")
            DIST.mkdir(exist_ok=True)
            shutil.copy(path, DIST)


def check_metadata(_: Path) -> None:
    """Let twine read the metadata, and look at size and content of the wheel."""
    run(tool("twine"), "check", "--strict", *map(str, dist_files("*")))
    wheel = wheel_of("demur")
    check_wheel(wheel)
    print(f"  {wheel.name}: {wheel.stat().st_size:,} of {MAX_WHEEL_BYTES:,} bytes")


def check_wheel(wheel: Path) -> None:
    """Raise if a wheel is too large, or holds a file that is not of the package.

    Raises:
        ReleaseError: It is, or it does.
    """
    size = wheel.stat().st_size
    if size > MAX_WHEEL_BYTES:
        raise ReleaseError(f"`{wheel.name}` has {size:,} bytes; at most {MAX_WHEEL_BYTES:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    package = wheel.name.partition("-")[0]
    foreign = [name for name in names if not name.startswith((f"{package}/", f"{package}-"))]
    if foreign or any("__pycache__" in name for name in names):
        raise ReleaseError(f"`{wheel.name}` has files outside the package: {foreign[:5]}")


def install_core(folder: Path) -> None:
    """Install the wheel alone into a clean environment, and use it there."""
    python = make_environment(folder / "core", str(wheel_of("demur")))
    found = {entry["name"].lower() for entry in installed(python)} - {"pip", "setuptools"}
    if found != CORE:
        raise ReleaseError(f"a core install brings {sorted(found)}; expected {sorted(CORE)}")
    run(python, "-I", "-c", SMOKE, cwd=folder)
    run(python.with_name("demur"), "demo", cwd=folder, quiet=True)


def install_all(folder: Path) -> None:
    """Install the wheels with all extras, and run the first pages of a newcomer elsewhere."""
    python = make_environment(
        folder / "all", f"{wheel_of('demur')}[all]", str(wheel_of("demur-models")), "pytest"
    )
    run(python, "-I", "-c", SMOKE, cwd=folder)
    place = folder / "pages"
    for name in (*PAGES, *PAGES_OF_NEWCOMERS, PAGE_TEST, SUPPORT):
        copy(ROOT / name, place / name)
    kinds = "every_python_block_runs or every_command_prints"
    common = ("-q", "-c", "/dev/null", "--rootdir", str(place), "-p", "no:cacheprovider")
    paths = ("-o", f"pythonpath={place / 'tests'}")
    marks = "not (adapters or frameworks or litellm)"
    run(
        python,
        "-m",
        "pytest",
        *common,
        *paths,
        "-W",
        "ignore",
        "-k",
        kinds,
        "-m",
        marks,
        place / PAGE_TEST,
    )


def check_licences(folder: Path) -> None:
    """Raise if a dependency has a licence that demur's users may not accept."""
    python = environment_of_all(folder)
    report = capture(tool("pip-licenses"), "--python", python, "--format", "json")
    bad = list_licence_problems(json.loads(report))
    if bad:
        raise ReleaseError("licences to look at: " + "; ".join(bad))
    print(f"  {len(json.loads(report))} packages")


def list_licence_problems(packages: Iterable[dict[str, str]]) -> list[str]:
    """Return each package of which a licence is not on the list."""
    problems = []
    for package in packages:
        text = package["License"]
        words = text.replace(" AND ", ";").replace(" OR ", ";").replace("(MPL", "\0MPL").split(";")
        named = [word.replace("\0MPL", "(MPL").strip() for word in words]
        if not all(word in LICENCES or word.strip("()") in LICENCES for word in named):
            problems.append(f"{package['Name']}: {text}")
    return problems


def write_components(folder: Path) -> None:
    """Write the bill of materials of an install with all extras, as CycloneDX."""
    target = DIST / "components.cdx.json"
    python = environment_of_all(folder)
    options = ("--output-reproducible", "--of", "JSON", "-o", str(target))
    run(tool("cyclonedx-py"), "environment", *options, python)
    components = json.loads(target.read_text("utf-8"))["components"]
    print(f"  {target.name}: {len(components)} components")


STEPS: dict[str, Callable[[Path], None]] = {
    "workflows": check_workflows,
    "build": build_twice,
    "metadata": check_metadata,
    "core": install_core,
    "all": install_all,
    "licences": check_licences,
    "components": write_components,
}


def build(tree: Path, target: Path) -> None:
    """Build sdist and wheel of a tree with the packages of this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, tree, quiet=True)


def make_environment(folder: Path, *requirements: str) -> Path:
    """Install requirements into a new environment, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return python


def environment_of_all(folder: Path) -> Path:
    """Return the Python of the environment with all extras; install it if a step skipped that."""
    python = folder / "all/bin/python"
    if python.exists():
        return python
    return make_environment(
        folder / "all", f"{wheel_of('demur')}[all]", str(wheel_of("demur-models"))
    )


def installed(python: Path) -> list[dict[str, str]]:
    """Return name and version of each package of an environment."""
    listed: list[dict[str, str]] = json.loads(
        capture(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
    )
    return listed


def dist_files(pattern: str) -> list[Path]:
    """Return the distributions that were built.

    Raises:
        ReleaseError: There are none.
    """
    found = [path for path in sorted(DIST.glob(pattern)) if path.suffix in {".whl", ".gz"}]
    if not found:
        raise ReleaseError("nothing is built; run the step `build` first")
    return found


def wheel_of(project: str) -> Path:
    """Return the wheel of a project."""
    return dist_files(f"{project.replace('-', '_')}-*.whl")[0]


def one_file(folder: Path, pattern: str) -> Path:
    """Return the only file of a folder that fits."""
    (found,) = folder.glob(pattern)
    return found


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, if it is there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy(source, target)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tool(name: str) -> Path:
    """Return the command of this environment."""
    return Path(sys.executable).with_name(name)


def run(*command: str | Path, cwd: Path | None = None, quiet: bool = False) -> None:
    """Run a command; raise with its output if it fails.

    Raises:
        ReleaseError: It failed.
    """
    output = subprocess.DEVNULL if quiet else None
    status = subprocess.run(
        [str(word) for word in command], cwd=cwd, check=False, stdout=output
    ).returncode
    if status:
        words = " ".join(str(word) for word in command[:4])
        raise ReleaseError(f"`{words} …` ended with status {status}")


def capture(*command: str | Path) -> str:
    """Return what a command prints.

    Raises:
        ReleaseError: It failed.
    """
    ran = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True
    )
    if ran.returncode:
        raise ReleaseError(f"`{command[0]}` ended with status {ran.returncode}: {ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
