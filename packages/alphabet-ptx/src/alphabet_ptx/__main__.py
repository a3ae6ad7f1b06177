"""`alphabet-ptx run SCRIPT.py`: a script whose Triton kernels run without a GPU; `alphabet-ptx inspect`: one kernel."""

import argparse
import ast
import importlib
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from alphabet_ptx.arguments import ELEMENTS
from alphabet_ptx.compiling import compile_kernel
from alphabet_ptx.driver import ptx_device
from alphabet_ptx.errors import PtxError
from alphabet_ptx.execution import list_unknown
from alphabet_ptx.resources import resources
from alphabet_ptx.verdicts import judge


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 if a script's kernels are wrong, 2 if the command is."""
    options = make_parser().parse_args(arguments)
    try:
        return run(options) if options.command == "run" else inspect(options)
    except PtxError as error:
        print(f"alphabet-ptx: {error}", file=sys.stderr)
        return 2


def make_parser() -> argparse.ArgumentParser:
    """The options of both commands."""
    parser = argparse.ArgumentParser(prog="alphabet-ptx", description="Triton kernels on a machine without a GPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    script = commands.add_parser("run", help="run a script; its kernels are executed as compiled PTX on the CPU")
    script.add_argument("script", type=Path)
    script.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")
    kernel = commands.add_parser("inspect", help="registers, spills and instruction mix of a kernel")
    kernel.add_argument("kernel", metavar="MODULE:KERNEL")
    kernel.add_argument("values", nargs="*", metavar="NAME=VALUE", help="a type (x=*fp32, n=i32) or a constant (B=64)")
    kernel.add_argument("--warps", type=int, default=4)
    kernel.add_argument("--stages", type=int, default=3)
    for command in (script, kernel):
        command.add_argument("--arch", default="sm_89", help="architecture to compile for (default: %(default)s)")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run a script as Python does, then print what its launches did."""
    if not options.script.is_file():
        raise PtxError(f"there is no script {options.script}")
    outer = sys.argv, sys.path[:]
    sys.argv, sys.path[0] = [str(options.script), *options.arguments], str(options.script.resolve().parent)
    code = 0
    try:
        with ptx_device(options.arch) as device:
            try:
                runpy.run_path(str(options.script), run_name="__main__")
            except PtxError:
                pass  # a fault, which the report has
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path[:] = outer
    verdict = judge(device.report)
    print(f"\n{device.arch}, {len(device.report)} launches:\n{device.report}")
    for warning in verdict.warnings:
        print(f"warning: {warning}")
    for found in verdict.errors:
        print(f"error: {found}")
    return 1 if verdict.errors else code


def inspect(options: argparse.Namespace) -> int:
    """Compile a kernel and print what it needs."""
    module, _, name = options.kernel.partition(":")
    sys.path.insert(0, "")
    try:
        kernel = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PtxError(f"kernel must be MODULE:KERNEL, such as my.kernels:softmax; {error}") from error
    finally:
        del sys.path[0]
    signature, constants = {}, {}
    for given in options.values:
        key, separator, value = given.partition("=")
        if not separator:
            raise PtxError(f"give each argument as NAME=VALUE; got {given!r}")
        if value.lstrip("*") in ELEMENTS:
            signature[key] = value
        else:
            constants[key] = read_constant(value)
    compiled = compile_kernel(
        kernel, signature, constants, arch=options.arch, warps=options.warps, stages=options.stages
    )
    needs = resources(compiled)
    print(f"{compiled.name} for {compiled.arch}, {compiled.warps} warps")
    print(f"  registers {needs.registers}, stack {needs.stack} bytes, shared memory {needs.shared} bytes")
    print(f"  spilled: {needs.spill_stores} bytes stored, {needs.spill_loads} bytes loaded")
    print("  instructions: " + ", ".join(f"{name} {count}" for name, count in needs.instructions.most_common()))
    unknown = list_unknown(compiled)
    if unknown:
        print(f"  not executable here: {', '.join(unknown)}")
    return 0


def read_constant(text: str) -> object:
    """A constant as Python writes it; anything else is a string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    sys.exit(main())
