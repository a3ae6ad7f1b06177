"""Sessions of noxfile.py that run pytest install what it then asks for."""

import ast

from alphabet_testing.places import ROOT

SOURCE = (ROOT / "noxfile.py").read_text()
FUNCTIONS = {node.name: node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)}
SESSIONS = [
    name for name, node in FUNCTIONS.items() if any("nox.session" in ast.unparse(each) for each in node.decorator_list)
]


def test_every_session_that_runs_pytest_installs_its_plugins():
    running = [name for name in SESSIONS if "run('pytest'" in ast.unparse(FUNCTIONS[name])]
    assert {"tests", "quick", "forge", "kills", "ptx_gallery", "bench_cpu", "tests_rtx4090"} <= {*running}
    for name in running:
        installed = {node.id for node in ast.walk(FUNCTIONS[name]) if isinstance(node, ast.Name)}
        assert installed & {"PYTEST", "TEST_TOOLS"}, f"{name} runs pytest without installing PYTEST"


def test_what_they_install_is_what_conftest_imports():
    (listed,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PYTEST"
    ]
    imported = {
        alias.name
        for node in ast.walk(ast.parse((ROOT / "conftest.py").read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported <= {*listed, "torch"}  # torch comes with every package of ours that is tested
