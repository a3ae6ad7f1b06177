"""What the pages promise: their snippets run and their commands exist."""

import contextlib
import functools
import io
import re
import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt
import pytest
from alphabet_learn import AlphabetClassifier
from alphabet_ptx import Report
from alphabet_study.protocol.records import Record
from alphabet_testing.places import ROOT
from run_isolated import python_blocks
from torch import nn

PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
PAGES = [
    path
    for path in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
    if python_blocks(path)
]


@functools.cache
def run_page(page):
    """What a page's snippets leave behind and what they print. They run once, as written, in an empty folder."""
    namespace = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for block in python_blocks(page):
                exec(compile(block, str(page), "exec"), namespace)
    plt.close("all")
    return namespace, printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_runs(page):
    namespace, _ = run_page(page)
    # The snippets did their work in this process: each page leaves one of these.
    left = {"model": nn.Module, "classifier": AlphabetClassifier, "report": Report, "record": Record}
    assert any(isinstance(namespace.get(name), kind) for name, kind in left.items())


@pytest.mark.slow
def test_the_readme_example_explains_its_prediction():
    (block,) = python_blocks(ROOT / "README.md")
    assert len(block.strip().splitlines()) <= 9  # six lines behind the imports
    namespace, printed = run_page(ROOT / "README.md")
    (accuracy,) = re.findall(r"accuracy (\d\.\d+)", printed)
    assert float(accuracy) >= 0.98
    why = namespace["why"]
    assert why.margin == pytest.approx(why.baseline + why.contributions.sum(axis=1), abs=1e-6)


def test_every_page_that_the_readme_links_exists():
    for page in [ROOT / "README.md", *ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/*.md")]:
        prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_continuous_integration_runs_the_readmes_command():
    script = subprocess.run(
        ["bash", "-c", "sed -n '/^command=/p' .ci/run | bash -c 'source /dev/stdin; echo \"$command\"'"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "nox -s tests" in script.stdout
    assert script.stdout.strip() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_only_what_it_declares(package):
    code = (
        "import sys; sys.path.insert(0, 'testing'); from run_isolated import undeclared_imports; "
        f"extra = undeclared_imports('{package.replace('-', '_')}', '{package}'); sys.exit(str(extra) if extra else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
