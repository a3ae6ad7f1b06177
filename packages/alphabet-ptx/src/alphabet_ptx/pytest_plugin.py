"""Pytest: tests of Triton kernels that run without a GPU. Mark a test `ptx`, or let it take the fixture `ptx_device`.

Such a test fails on a fault, even if it was caught, and on a race that changes results; other races become warnings.
"""

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from alphabet_ptx.driver import PtxDevice, ptx_device
from alphabet_ptx.errors import PtxError
from alphabet_ptx.verdicts import judge

FIXTURE = "ptx_device"
DEVICE = pytest.StashKey[PtxDevice]()


class PtxWarning(UserWarning):
    """A race whose order did not change the results."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    group = parser.getgroup("alphabet-ptx", "Triton kernels without a GPU")
    group.addoption("--ptx-arch", default="sm_89", metavar="ARCH", help="architecture that kernels are compiled for")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "ptx(arch=..., strict=..., order=..., ...): run Triton kernels as compiled PTX on the CPU; "
        "options are those of alphabet_ptx.ptx_device",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test has the device, whether it asks for it or not, and before its other fixtures."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("ptx") and FIXTURE not in names:
            names.insert(0, FIXTURE)


@pytest.fixture(name=FIXTURE)
def make_device(request: pytest.FixtureRequest) -> Iterator[PtxDevice]:
    """The device that the test's kernels run on; `report` has its launches."""
    marker = request.node.get_closest_marker("ptx")
    options: dict[str, Any] = {"arch": request.config.getoption("--ptx-arch"), **(marker.kwargs if marker else {})}
    if marker and marker.args:
        raise PtxError(f"the marker ptx takes options by name, such as arch='sm_80'; got {marker.args[0]!r}")
    try:
        block = ptx_device(**options)
    except TypeError as error:
        raise PtxError(f"the marker ptx takes the options of ptx_device: {error}") from error
    with block as device:
        request.node.stash[DEVICE] = device
        yield device
        report_findings(request.node, device)  # of other fixtures, which end before this one


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Judge what a test launched once it has passed; if it has not, its own error says more."""
    yield
    device = item.stash.get(DEVICE, None)
    if device is not None:
        report_findings(item, device)


def report_findings(item: pytest.Item, device: PtxDevice) -> None:
    """Warn of races that do not matter, and fail on anything worse, for the launches that were not judged yet."""
    verdict = judge(device.report.take_new())
    for warning in verdict.warnings:
        item.warn(PtxWarning(warning))
    if verdict.errors:
        pytest.fail("\n".join(verdict.errors), pytrace=False)
