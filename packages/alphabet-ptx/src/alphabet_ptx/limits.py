"""What a GPU of an architecture takes: programs of a grid, shared memory of a block."""

from alphabet_ptx.errors import PtxError

# Bytes of shared memory that one block may have: the CUDA C++ Programming Guide, "Compute Capabilities", table
# "Technical Specifications per Compute Capability", row "Maximum amount of shared memory per thread block".
SHARED_MEMORY = {
    70: 98_304,
    75: 65_536,
    80: 166_912,
    86: 101_376,
    87: 166_912,
    89: 101_376,
    90: 232_448,
    100: 232_448,
    120: 101_376,
}
# The same table, rows "Maximum x-dimension of a grid" and "Maximum y- or z-dimension".
GRID = (2**31 - 1, 65_535, 65_535)


def check_shared(kernel: str, target: int, size: int) -> None:
    """Raise PtxError if a kernel asks for more shared memory than a block of sm_`target` can have."""
    most = SHARED_MEMORY.get(target)
    if most is not None and size > most:
        raise PtxError(
            f"kernel {kernel} asks for {size} bytes of shared memory; a block of sm_{target} has {most}: "
            "take smaller blocks or fewer stages"
        )


def check_grid(kernel: str, grid: tuple[int, int, int], limit: int) -> None:
    """Raise PtxError for a grid that no GPU takes, or whose programs alone are more than the steps of a launch."""
    shown = " x ".join(map(str, grid))
    for size, most, axis in zip(grid, GRID, "xyz", strict=True):
        if not 0 <= size <= most:
            raise PtxError(f"the grid of {kernel} is {shown}; along {axis} a GPU takes from 0 to {most} programs")
    if grid[0] * grid[1] * grid[2] > limit:
        raise PtxError(
            f"the grid of {kernel} is {shown}, more programs than the {limit} steps that a launch may take; "
            "a larger `limit` allows more"
        )
