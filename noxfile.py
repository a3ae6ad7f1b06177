"""The project's one entry point: `nox -l` lists the sessions, `nox -s tests` runs the tests.

Every environment is built from nothing under the pins of audit/environments/default.txt, but for those of the sessions
tests-rtx4090 and first-gpu, where rtx4090.txt comes first.
"""

import hashlib
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PINS = ROOT / "audit" / "environments" / "default.txt"
RTX4090 = ROOT / "audit" / "environments" / "rtx4090.txt"
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
# The optional parts of packages that the tests exercise.
EXTRAS = {
    "alphabet-core": "[plots,onnx]",
    "alphabet-baselines": "[cpu]",
    "alphabet-learn": "[aeon,onnx,plots]",
    "alphabet-study": "[ray]",
}
PYTEST = ["hypothesis", "pytest", "pytest-benchmark", "pytest-xdist"]  # what conftest.py and the settings ask for
TEST_TOOLS = ["aeon", "import-linter", "onnxruntime", "scipy", *PYTEST]
# Workers that share the tests, each with one thread for torch; times are measured in `bench` sessions only.
IN_PARALLEL = ["-n", "auto", "--maxprocesses=8", "--dist=worksteal", "--benchmark-disable"]
ONE_THREAD = {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
# Sources of mamba-ssm, causal-conv1d and flash-attn without their CUDA extensions.
WITHOUT_CUDA = {
    f"{name}_{what}": "TRUE"
    for name in ("MAMBA", "CAUSAL_CONV1D", "FLASH_ATTENTION")
    for what in ("FORCE_BUILD", "SKIP_CUDA_BUILD")
}
INTERPRETED = "packages/alphabet-triton/tests/interpreted"  # a process that interprets kernels must not compile any

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "tests", "isolated", "build"]
nox.options.error_on_missing_interpreters = True


def install(session: nox.Session, *requirements: str) -> None:
    """Install under the pins, build environments included; progress is shown because torch takes a while."""
    pins = str(PINS)
    session.env["PIP_CONSTRAINT"] = pins
    session.env["PIP_BUILD_CONSTRAINT"] = pins
    session.log(f"installing {len(requirements)} requirements under {PINS.relative_to(ROOT)}")
    session.install("--quiet", *requirements)


def install_once(session: nox.Session, *requirements: str, by: Callable[..., None] = install) -> None:
    """Install into an environment that is reused, unless it was installed from the same pins and declarations."""
    declared = [
        PINS,
        RTX4090,
        Path(__file__),
        *sorted(ROOT.glob("packages/*/pyproject.toml")),
        ROOT / "testing/pyproject.toml",
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in declared)).hexdigest()
    stamp = Path(session.virtualenv.location) / "installed.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    by(session, *requirements)
    stamp.write_text(digest)


def packages(extras: dict[str, str] | None = None) -> list[str]:
    """All workspace packages as editable requirements."""
    extras = extras or {}
    return [part for name in PACKAGES for part in ("--editable", f"packages/{name}{extras.get(name, '')}")]


def with_siblings(package: str) -> list[str]:
    """A package behind the workspace packages that it declares, directly or not, which no index has."""
    declared = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in declared]
    siblings = [each for name in names if name in PACKAGES for each in with_siblings(name)]
    return list(dict.fromkeys([*siblings, package]))


OFFICIAL_MAMBA = ("mamba-ssm==2.3.2.post1", "causal-conv1d==1.6.1")


def install_official_mamba(session: nox.Session) -> None:
    """The sources of mamba-ssm and causal-conv1d without their CUDA extensions: what our Mamba is compared with."""
    install(session, "einops", "packaging", "setuptools", "triton; platform_system == 'Linux'")
    session.env.pop("PIP_BUILD_CONSTRAINT")  # pip refuses it where the build runs in this environment, pinned already
    session.install("--quiet", "--no-build-isolation", "--no-deps", *OFFICIAL_MAMBA, env=WITHOUT_CUDA)


def install_for_rtx4090(session: nox.Session, *requirements: str) -> None:
    """Install under rtx4090.txt, and what that does not name under default.txt; torch brings some 3 GB of CUDA."""
    own = {project(line): line for line in RTX4090.read_text().splitlines() if project(line)}
    others = [line for line in PINS.read_text().splitlines() if project(line) and project(line) not in own]
    pins = Path(session.create_tmp()) / "rtx4090-and-default.txt"
    pins.write_text("\n".join([*others, *own.values()]) + "\n")
    session.env["PIP_CONSTRAINT"] = session.env["PIP_BUILD_CONSTRAINT"] = str(pins)
    session.log(f"installing {len(requirements)} requirements under {RTX4090.relative_to(ROOT)}: some 3 GB, minutes")
    session.install("--quiet", *requirements)
    session.env.pop("PIP_BUILD_CONSTRAINT")


def project(line: str) -> str:
    """The project that a line of constraints names, as indexes spell it; of a comment, nothing."""
    return re.split(r"[^\w.-]", line.partition("#")[0].strip())[0].lower().replace("_", "-")


@nox.session
def tests(session: nox.Session) -> None:
    """Every test of every package on all cores, minutes; arguments go to pytest, which then runs in one process."""
    install(session, *packages(EXTRAS), "--editable", "testing", *TEST_TOOLS)
    install_official_mamba(session)
    if session.posargs:
        session.run("pytest", *session.posargs, env={"MPLBACKEND": "agg"})
        return
    session.run("pytest", *IN_PARALLEL, "--durations=25", env=ONE_THREAD)
    session.run("pytest", *IN_PARALLEL, "--durations=5", INTERPRETED, env={**ONE_THREAD, "TRITON_INTERPRET": "1"})


@nox.session(reuse_venv=True)
def quick(session: nox.Session) -> None:
    """Lint, types and every test that is fast, within two minutes once the environment exists: the inner loop."""
    install_once(session, *packages(EXTRAS), "--editable", "testing", *TEST_TOOLS, "mypy", "ruff")
    check_style(session)
    check_types(session)
    session.run("pytest", *IN_PARALLEL, "-m", "not slow", "-q", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting by ruff, import arrows by import-linter; `nox -s lint -- fix` repairs what it can."""
    install(session, "ruff", "import-linter")
    if "fix" in session.posargs:
        session.run("ruff", "check", "--fix", ".")
        session.run("ruff", "format", ".")
        return
    check_style(session)


def check_style(session: nox.Session) -> None:
    """Ruff's rules and format, and the arrows between packages, which import-linter reads from pyproject.toml."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = [*(f"packages/{name}/src" for name in PACKAGES), "testing/src"]
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": os.pathsep.join(sources)})
    session.run("python", "testing/versions.py")


@nox.session
def types(session: nox.Session) -> None:
    """Strict type checking of the packages by mypy."""
    install(session, "mypy", "matplotlib", "pytest", *packages())
    check_types(session)


def check_types(session: nox.Session) -> None:
    """Mypy over all packages."""
    session.run("mypy", *(f"packages/{name}/src" for name in PACKAGES))


@nox.session
def build(session: nox.Session) -> None:
    """Wheels and sdists of all packages, each installed outside the checkout, where its README example runs."""
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    install(session, "build", "hatchling", "virtualenv")
    for name in PACKAGES:
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(out), f"packages/{name}", silent=True)
    session.run("python", "testing/check_wheels.py", str(out))
    for name in session.posargs or PACKAGES:
        with tempfile.TemporaryDirectory() as elsewhere:
            run_wheel(session, name, Path(elsewhere))


def run_wheel(session: nox.Session, package: str, home: Path) -> None:
    """Install a package from its built wheel in an environment of its own and use it as its README says."""
    session.run("virtualenv", "--quiet", str(home / "venv"))
    python = str(home / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    wheels = [str(next(ROOT.glob(f"dist/{name.replace('-', '_')}-*.whl"))) for name in with_siblings(package)]
    session.run(python, "-m", "pip", "install", "--quiet", *wheels, external=True)
    readme = ROOT / "packages" / package / "README.md"
    with session.chdir(home):
        session.run(python, "-I", str(ROOT / "testing" / "run_isolated.py"), package, str(readme), external=True)
        if package == "alphabet-audit":
            session.run(python, "-I", "-m", "alphabet_audit", "parity", external=True)


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """One package alone in a fresh environment: installed, imported, its README example run."""
    install(session, *(f"./packages/{name}" for name in with_siblings(package)))
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
    own = with_siblings("alphabet-audit")  # whose families are counted beside our kernels
    install(session, *(f"./packages/{name}" for name in (*own, "alphabet-ptx")), "./testing")
    if triton == "rtx4090":
        pins = RTX4090.read_text()
        (version,) = re.findall(r"^triton==([\d.]+)", pins, flags=re.MULTILINE)
        session.install("--quiet", "--no-deps", f"triton=={version}", env={"PIP_CONSTRAINT": ""})
    session.run("python", "packages/alphabet-triton/bench/static_report.py", *session.posargs)


# Warnings of torch 2.9.1 about the patch release of Python, and of numpy about Triton 3.5.1's interpreter.
OF_THE_PAST = [
    "-W", "ignore:Guards may run slower on Python 3.13.0:RuntimeWarning",
    "-W", "ignore:Conversion of an array with ndim > 0 to a scalar:DeprecationWarning",
]  # fmt: skip


@nox.session(name="tests-rtx4090", python="3.13")
def tests_rtx4090(session: nox.Session) -> None:
    """Core's tests and the interpreted kernels under the paper's versions, torch 2.9.1 and Triton 3.5.1; no GPU needed.

    Arguments go to pytest in place of core's tests.
    """
    install_for_rtx4090(session, *packages(EXTRAS), "--editable", "testing", *TEST_TOOLS)
    chosen = session.posargs or ["packages/alphabet-core"]
    session.run("pytest", *IN_PARALLEL, *OF_THE_PAST, *chosen, env=ONE_THREAD)
    if not session.posargs:
        interpreted = {**ONE_THREAD, "TRITON_INTERPRET": "1"}
        session.run("pytest", *IN_PARALLEL, *OF_THE_PAST, INTERPRETED, env=interpreted)


@nox.session(name="first-gpu", python="3.13", reuse_venv=True)
def first_gpu(session: nox.Session) -> None:
    """What is run once on an RTX 4090, under an hour: all of it goes to audit-runs/first-gpu and an archive beside it.

    The same command goes on after a stop. `-- FOLDER` writes elsewhere, `-- --on-ptx` runs the suite without a GPU.
    """
    needed = [*packages(), "--editable", "testing", *TEST_TOOLS, "einops", "packaging", "setuptools"]
    install_once(session, *needed, by=install_for_rtx4090)
    if shutil.which("nvidia-smi"):
        # Their CUDA extensions: a wheel from the projects' releases, or built by nvcc 12.8, which takes minutes.
        # Without them Mamba's official kernels are missing from the ledger, and nothing else.
        official = ["--no-build-isolation", "--no-deps", *OFFICIAL_MAMBA]
        session.run("pip", "install", "--quiet", *official, env={"MAX_JOBS": "4"}, success_codes=range(256))
    session.run("python", "-m", "alphabet_audit.first_gpu", *session.posargs)


@nox.session(name="ptx-gallery", reuse_venv=True)
def ptx_gallery(session: nox.Session) -> None:
    """Others' Triton launchers on alphabet-ptx, half an hour; resumes. `-- --triton-tests FOLDER` adds Triton's own.

    Without arguments faults that are planted in Liger's kernels run first.
    """
    folder = ROOT / "packages" / "alphabet-ptx" / "gallery"
    install(
        session, "--editable", "packages/alphabet-ptx", "torch", "einops", "packaging", "setuptools", "scipy", *PYTEST
    )
    pins = [line for line in (folder / "pins.txt").read_text().splitlines() if not line.startswith("#")]
    session.env.pop("PIP_BUILD_CONSTRAINT")  # pip refuses it where the build runs in this environment, pinned already
    session.env.pop("PIP_CONSTRAINT")
    session.install("--quiet", "--no-build-isolation", "--no-deps", *pins, env=WITHOUT_CUDA)
    if not session.posargs:
        session.run("pytest", "-q", "packages/alphabet-ptx/tests/test_planted.py", env={"OMP_NUM_THREADS": "1"})
    session.run("python", str(folder / "run.py"), *session.posargs, env={"OMP_NUM_THREADS": "1"})


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


@nox.session
def forge(session: nox.Session) -> None:
    """100,000 generated forgeries of the ledger's evidence, minutes; none that contradicts itself may pass."""
    install(session, *packages(), "--editable", "testing", *PYTEST)
    chosen = session.posargs or ["packages/alphabet-audit/tests/test_forgeries.py"]
    session.run("pytest", *IN_PARALLEL, *chosen, env={**ONE_THREAD, "ALPHABET_FORGERIES": "100000"})


@nox.session
def kills(session: nox.Session) -> None:
    """1,000 SIGKILLs at random moments of ledgers on a fake bench, nothing lost or doubled; minutes."""
    install(session, *packages(), "--editable", "testing", *PYTEST)
    chosen = session.posargs or ["packages/alphabet-audit/tests/test_ledger.py", "-k", "kills"]
    session.run("pytest", *IN_PARALLEL, *chosen, env={**ONE_THREAD, "ALPHABET_KILLS": "1000"})


@nox.session(name="bench-cpu")
def bench_cpu(session: nox.Session) -> None:
    """alphabet-cpu against the nine families, exploratory; `-- --row same-width --eager` takes about a minute."""
    install(session, *packages(), "--editable", "testing", *PYTEST)
    session.run("pytest", "packages/alphabet-cpu/tests/test_speed.py", "--benchmark-only", "-q")
    session.run("python", "packages/alphabet-audit/bench/compare_cpu.py", *session.posargs)


@nox.session(name="bench-ptx")
def bench_ptx(session: nox.Session) -> None:
    """alphabet-ptx: kernels in batches of programs and one by one, ratios; `-- --against TREE` another checkout's."""
    install(session, "--editable", "packages/alphabet-ptx", "--editable", "testing")
    session.run("python", "packages/alphabet-ptx/bench/ptx_bench.py", *session.posargs)


@nox.session
def study(session: nox.Session) -> None:
    """The evaluation study: `nox -s study -- run` takes minutes on embedded data; arguments go to alphabet-study."""
    install(session, *packages())
    session.run("alphabet-study", *(session.posargs or ["run"]))


@nox.session(name="bench-study")
def bench_study(session: nox.Session) -> None:
    """The study's overhead per fit, the gain of a second worker, and every family's 18 candidates on GunPoint."""
    install(session, *packages(), "pytest", "pytest-benchmark")
    session.run("python", "packages/alphabet-study/bench/study_overhead.py", *session.posargs)


@nox.session(name="bench-learn")
def bench_learn(session: nox.Session) -> None:
    """alphabet-learn against MiniRocket and others, one thread: `nox -s bench-learn -- OUT.csv --data ROOT`."""
    install(session, "./packages/alphabet-core", "./packages/alphabet-cpu", "./packages/alphabet-learn[aeon]")
    arguments = session.posargs or [str(Path(session.create_tmp()) / "learn.csv")]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    session.run("python", "packages/alphabet-learn/bench/learn_bench.py", *arguments, env=one_thread)
