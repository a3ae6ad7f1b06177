"""Run inside an environment that holds one package alone: import it, look at what it loaded, run its README example.

Usage: python -I run_isolated.py DISTRIBUTION README
"""

import importlib
import importlib.metadata
import re
import sys
from pathlib import Path

# Dependencies that look for optional parts of their own when these modules are imported: numba for scipy, scikit-learn
# for pandas and rich.
FOREIGN = {"numba": ("numba",), "scikit-learn": ("sklearn.base", "sklearn.metrics")}


def declared_closure(distribution: str) -> set[str]:
    """Normalized names of the distribution and of everything that it needs, directly or not."""
    found: set[str] = set()
    queue = [distribution]
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in found:
            continue
        found.add(name)
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        # Only the name is read, since an environment with one package alone has no parser of requirements installed.
        queue += [re.split(r"[^\w.-]", text)[0] for text in requirements if "extra ==" not in text]
    return found


def undeclared_imports(module: str, distribution: str) -> set[str]:
    """Distributions that importing `module` loads although `distribution` does not declare them.

    What its dependencies load by themselves, if it happens to be installed, is their business: they are imported first.
    """
    owners = importlib.metadata.packages_distributions()
    allowed = declared_closure(distribution)
    for name in allowed & FOREIGN.keys():
        for foreign in FOREIGN[name]:
            importlib.import_module(foreign)
    before = set(sys.modules)
    importlib.import_module(module)
    loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
    used = {owner for name in loaded for owner in owners.get(name, [])}
    return {owner for owner in used if re.sub(r"[-_.]+", "-", owner).lower() not in allowed}


def python_blocks(readme: Path) -> list[str]:
    """The fenced python snippets of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", readme.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def main() -> None:
    distribution, readme = sys.argv[1], Path(sys.argv[2])
    extra = undeclared_imports(distribution.replace("-", "_"), distribution)
    if extra:
        sys.exit(f"import of {distribution} loads undeclared distributions: {sorted(extra)}")
    blocks = python_blocks(readme)
    if not blocks:
        sys.exit(f"{readme} has no python example")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(readme), "exec"), namespace)
    print(f"{distribution}: imports only what it declares; {len(blocks)} README example(s) ran")


if __name__ == "__main__":
    main()
