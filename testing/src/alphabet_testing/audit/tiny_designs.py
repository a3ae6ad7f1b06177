"""Declarations and a clock with which the real bench runs in seconds."""

from alphabet_audit import read_declarations
from alphabet_audit.measure.clock import MonotonicClock
from alphabet_baselines import FAMILIES


def write_tiny_declarations(folder):
    """Write the project's declarations but for one small design and two families; returns the folder."""
    contents = read_declarations().contents
    text = contents["designs.toml"].decode()
    families = "".join(f'{name} = "{FAMILIES[name].title}"\n' for name in ("cnn1d", "s5"))
    head = text[: text.index("[families]")].replace("[4, 256, 64]", "[2, 24, 16]")
    (folder / "designs.toml").write_text(f"{head}[families]\n{families}[shapes]\nsame-width = [[2, 40, 16]]\n")
    (folder / "tolerances.toml").write_bytes(contents["tolerances.toml"])
    return folder


class FastForward(MonotonicClock):
    """The real clock without its pause, running ten times as fast: a block of 25 ms by it is over in 2.5 ms."""

    pause = 0.0

    def measure(self, call, repeats):
        return 10.0 * super().measure(call, repeats)
