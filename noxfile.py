"""The project's one entry point: `nox -l` lists the sessions, `nox -s tests` runs the tests.

Every environment is built from nothing under the pins of audit/environments/default.txt.
"""

import re
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PINS = ROOT / "audit" / "environments" / "default.txt"
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
# The optional parts of packages that the tests exercise.
EXTRAS = {"alphabet-core": "[plots,onnx]"}

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "tests", "isolated"]
nox.options.error_on_missing_interpreters = True


def install(session: nox.Session, *requirements: str) -> None:
    """Install under the pins, build environments included; progress is shown because torch takes a while."""
    pins = str(PINS)
    session.env["PIP_CONSTRAINT"] = pins
    session.env["PIP_BUILD_CONSTRAINT"] = pins
    session.log(f"installing {len(requirements)} requirements under {PINS.relative_to(ROOT)}")
    session.install("--quiet", *requirements)


def packages(extras: dict[str, str] | None = None) -> list[str]:
    """All workspace packages as editable requirements."""
    extras = extras or {}
    return [part for name in PACKAGES for part in ("--editable", f"packages/{name}{extras.get(name, '')}")]


def with_siblings(package: str) -> list[str]:
    """A package and the workspace packages that it declares, which no index has, as local requirements."""
    declared = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in declared]
    siblings = [path for name in names if name in PACKAGES for path in with_siblings(name)]
    return [*siblings, f"./packages/{package}"]


def install_official_mamba(session: nox.Session) -> None:
    """The sources of mamba-ssm and causal-conv1d without their CUDA extensions: what our Mamba is compared with."""
    install(session, "einops", "packaging", "setuptools", "triton; platform_system == 'Linux'")
    session.env.pop("PIP_BUILD_CONSTRAINT")  # pip refuses it where the build runs in this environment, pinned already
    skip = {
        f"{name}_{what}": "TRUE" for name in ("MAMBA", "CAUSAL_CONV1D") for what in ("FORCE_BUILD", "SKIP_CUDA_BUILD")
    }
    session.install(
        "--quiet", "--no-build-isolation", "--no-deps", "mamba-ssm==2.3.2.post1", "causal-conv1d==1.6.1", env=skip
    )


@nox.session
def tests(session: nox.Session) -> None:
    """Every test of every package; arguments go to pytest."""
    install(
        session,
        *packages(EXTRAS),
        "aeon",
        "hypothesis",
        "onnxruntime",
        "pytest",
        "pytest-benchmark",
        "scipy",
    )
    install_official_mamba(session)
    session.run("pytest", *session.posargs, env={"MPLBACKEND": "agg"})
    if not session.posargs:
        interpreted = "packages/alphabet-triton/tests/interpreted"  # a process that interprets must not compile
        session.run("pytest", interpreted, env={"TRITON_INTERPRET": "1"})


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting by ruff; `nox -s lint -- fix` repairs what it can."""
    install(session, "ruff")
    if "fix" in session.posargs:
        session.run("ruff", "check", "--fix", ".")
        session.run("ruff", "format", ".")
        return
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict type checking of the packages by mypy."""
    install(session, "mypy", "matplotlib", *packages())
    session.run("mypy", *(f"packages/{name}/src" for name in PACKAGES))


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """One package alone in a fresh environment: installed, imported, its README example run."""
    install(session, *with_siblings(package))
    session.run("pip", "check")
    script, readme = ROOT / "testing" / "run_isolated.py", ROOT / "packages" / package / "README.md"
    # -I: neither the working directory nor the user's site-packages can stand in for a missing dependency.
    session.run("python", "-I", str(script), package, str(readme))


@nox.session(name="spectral-control")
def spectral_control(session: nox.Session) -> None:
    """The moment-matched spectral control, five seeds, some minutes: `nox -s spectral-control -- --eps 0.4`."""
    install(session, "./packages/alphabet-core")
    session.run("python", "-m", "alphabet_core.spectral_control", *session.posargs)


@nox.session(name="gpu-static")
@nox.parametrize("triton", ["default", "rtx4090"], ids=["default", "rtx4090"])
def gpu_static(session: nox.Session, triton: str) -> None:
    """Every GPU kernel compiled for three architectures without a GPU, by either pinned Triton; some minutes each."""
    install(session, *(f"./packages/{name}" for name in ("alphabet-core", "alphabet-ptx", "alphabet-triton")))
    if triton == "rtx4090":
        pins = (PINS.parent / "rtx4090.txt").read_text()
        (version,) = re.findall(r"^triton==([\d.]+)", pins, flags=re.MULTILINE)
        session.install("--quiet", "--no-deps", f"triton=={version}", env={"PIP_CONSTRAINT": ""})
    session.run("python", "packages/alphabet-triton/bench/static_report.py", *session.posargs)


@nox.session
def parity(session: nox.Session) -> None:
    """Every gate for every runtime that this machine can run, some minutes; the exit code is the verdict."""
    install(session, *packages())
    session.run("alphabet-audit", "parity", *session.posargs)


@nox.session(name="runtime-ledger")
def runtime_ledger(session: nox.Session) -> None:
    """ALPHABET against the nine families, 90 cells; `-- --row same-width` is nine of them. The same command resumes."""
    install(session, *packages())
    session.run("alphabet-audit", "ledger", *session.posargs)


@nox.session(name="bench-cpu")
def bench_cpu(session: nox.Session) -> None:
    """alphabet-cpu against the nine families, exploratory; `-- --row same-width --eager` takes about a minute."""
    install(session, *packages(), "pytest", "pytest-benchmark", "hypothesis")
    session.run("pytest", "packages/alphabet-cpu/tests/test_speed.py", "--benchmark-only", "-q")
    session.run("python", "packages/alphabet-audit/bench/compare_cpu.py", *session.posargs)
