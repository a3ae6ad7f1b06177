"""Loops of a program, from where its instructions go next."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Where an instruction goes: to the next one, if it `falls` through, and to `target`, if it has one."""

    target: int | None = None
    falls: bool = True


@dataclass(frozen=True)
class Loop:
    """A natural loop: the number of its first instruction, all of them, and how many loops it lies in."""

    header: int
    body: frozenset[int]
    depth: int


def find_loops(steps: Sequence[Step]) -> list[Loop]:
    """The natural loops of a program by their headers, in the order of the program; unreachable code has none."""
    followers = [_followers(step, number, len(steps)) for number, step in enumerate(steps)]
    order = _order(followers)
    over = _dominators(followers, order)
    bodies: dict[int, set[int]] = {}
    before: dict[int, list[int]] = {}
    for number in order:
        for after in followers[number]:
            before.setdefault(after, []).append(number)
    for number in order:
        for after in followers[number]:
            if _dominates(after, number, over) and after != number:
                body = bodies.setdefault(after, {after})
                pending = [number]
                while pending:
                    one = pending.pop()
                    if one not in body:
                        body.add(one)
                        pending += before.get(one, [])
    return [
        Loop(header, frozenset(body), sum(header in other for first, other in bodies.items() if first != header))
        for header, body in sorted(bodies.items())
    ]


def _followers(step: Step, number: int, count: int) -> list[int]:
    after = [number + 1] if step.falls and number + 1 < count else []
    return after if step.target is None else [*after, step.target]


def _order(followers: list[list[int]]) -> list[int]:
    """Reachable instructions in reverse postorder."""
    seen, finished, pending = {0}, [], [(0, iter(followers[0]))]
    while pending:
        number, rest = pending[-1]
        after = next((each for each in rest if each not in seen), None)
        if after is None:
            finished.append(number)
            pending.pop()
        else:
            seen.add(after)
            pending.append((after, iter(followers[after])))
    return finished[::-1]


def _dominators(followers: list[list[int]], order: list[int]) -> dict[int, int]:
    """The immediate dominator of each reachable instruction (Cooper, Harvey, Kennedy: a simple, fast algorithm)."""
    place = {number: i for i, number in enumerate(order)}
    before: dict[int, list[int]] = {number: [] for number in order}
    for number in order:
        for after in followers[number]:
            before[after].append(number)
    over, changed = {0: 0}, True
    while changed:
        changed = False
        for number in order[1:]:
            known = [each for each in before[number] if each in over]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    while place[new] > place[other]:
                        new = over[new]
                    while place[other] > place[new]:
                        other = over[other]
            if over.get(number) != new:
                over[number], changed = new, True
    return over


def _dominates(first: int, second: int, over: dict[int, int]) -> bool:
    while second != first and second != 0:
        second = over[second]
    return second == first
