"""Compiled kernels that are kept between runs: found again, and never in place of what would be compiled now."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import alphabet_ptx.compiling
import pytest
import triton
from alphabet_ptx import cache, compile_kernel
from alphabet_testing.ptx.kernels import pointers

NUMBERS = "FACTOR = tl.constexpr(2.0)\n"
SOURCE = """
import {numbers} as numbers
import triton
import triton.language as tl

SCALE = tl.constexpr(3.0)
KIND = tl.float32
DEFAULT = 5.0


@triton.jit
def twice(x, more: tl.constexpr = DEFAULT):
    return x + x + more


@triton.jit
def kernel(x, out, N: tl.constexpr):
    o = tl.arange(0, N)
    v = twice(tl.load(x + o)).to(KIND)
    tl.store(out + o, v * SCALE * numbers.FACTOR)
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty cache of the test's own."""
    place = tmp_path / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(place))
    return place


@pytest.fixture
def compilations(monkeypatch):
    """The names of the kernels that Triton compiled since."""
    names = []
    compile_now = triton.compile

    def compile_and_count(source, **options):
        names.append(source.name)
        return compile_now(source, **options)

    monkeypatch.setattr(triton, "compile", compile_and_count)
    return names


@pytest.fixture
def load_source(tmp_path):
    """A function that writes SOURCE, changed, to one file and imports it again, as another run would."""
    numbers = f"numbers_of_{tmp_path.name.replace('-', '_')}"
    sys.path.insert(0, str(tmp_path))

    def load(old="", new="", name="source.py"):
        texts = [text.replace(old, new) if old else text for text in (NUMBERS, SOURCE)]
        assert not old or texts != [NUMBERS, SOURCE]
        # Python recognises a changed file by its size and time, which a quick change may leave as they were.
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        sys.modules.pop(numbers, None)
        (tmp_path / f"{numbers}.py").write_text("import triton.language as tl\n" + texts[0], encoding="utf-8")
        path = tmp_path / name
        path.write_text(texts[1].format(numbers=numbers), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("source", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.path.remove(str(tmp_path))
    sys.modules.pop(numbers, None)


def compile_source(module, signature=None, constants=None, **options):
    return compile_kernel(module.kernel, signature or pointers("x out"), constants or {"N": 64}, **options)


def test_a_kernel_is_compiled_once(folder, compilations, load_source):
    first = compile_source(load_source())
    assert compile_source(load_source()) == first
    assert compilations == ["kernel"]
    assert len(list(folder.iterdir())) == 1


def test_another_process_finds_it(folder, load_source):
    module = load_source()
    first = compile_source(module)
    code = (
        "import sys, triton\n"
        f"sys.path.insert(0, {str(Path(module.__file__).parent)!r})\n"
        "from alphabet_ptx import compile_kernel\n"
        "triton.compile = None\n"
        "from source import kernel\n"
        "compiled = compile_kernel(kernel, {'x': '*fp32', 'out': '*fp32'}, {'N': 64})\n"
        "sys.stdout.write(compiled.ptx)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == first.ptx


CHANGES = {
    "the kernel": ("* SCALE *", "/ SCALE *"),
    "a function that it calls": ("return x + x", "return x * x"),
    "a constant": ("tl.constexpr(3.0)", "tl.constexpr(4.0)"),
    "a constant of another module": ("tl.constexpr(2.0)", "tl.constexpr(8.0)"),
    "a type": ("KIND = tl.float32", "KIND = tl.float16"),
    "a default value": ("DEFAULT = 5.0", "DEFAULT = 6.0"),
    "the line": ("KIND =", "\nKIND ="),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_source_is_a_new_compilation(change, folder, compilations, load_source):
    before = compile_source(load_source())
    after = compile_source(load_source(*CHANGES[change]))
    assert len(compilations) == 2
    assert before.ptx != after.ptx
    assert compile_source(load_source()) == before  # and both are kept
    assert len(compilations) == 2


def test_a_changed_global_is_seen_in_the_running_process(folder, compilations, load_source, monkeypatch):
    module = load_source()
    before = compile_source(module)
    monkeypatch.setattr(module, "SCALE", triton.language.constexpr(7.0))
    assert compile_source(module).ptx != before.ptx
    assert len(compilations) == 2


def test_a_renamed_file_is_a_new_compilation(folder, compilations, load_source):
    before, after = (compile_source(load_source(name=name)) for name in ("source.py", "renamed.py"))
    assert "source.py" in before.ptx
    assert "renamed.py" in after.ptx
    assert len(compilations) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"signature": pointers("x out", "*fp16")},
        {"constants": {"N": 128}},
        {"arch": "sm_80"},
        {"warps": 1},
        {"stages": 3},
        {"unaligned": ("x",)},
        {"fp_fusion": False},
        {"maxnreg": 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_the_call_is_a_new_compilation(change, folder, compilations, load_source):
    module = load_source()
    compile_source(module)
    compile_source(module, **change)
    assert len(compilations) == 2


def change_version(monkeypatch, tmp_path):
    monkeypatch.setattr(triton, "__version__", "99.0")


def change_ptxas(monkeypatch, tmp_path):
    changed = tmp_path / "ptxas"
    shutil.copy(triton.knobs.nvidia.ptxas.path, changed)
    with changed.open("ab") as file:
        file.write(b"another build")  # behind the end, where nothing reads it
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(changed))


def change_a_switch(monkeypatch, tmp_path):
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")


def change_this_package(monkeypatch, tmp_path):
    changed = tmp_path / "compiling.py"
    shutil.copy(alphabet_ptx.compiling.__file__, changed)
    with changed.open("a", encoding="utf-8") as file:
        file.write("\n")
    monkeypatch.setattr(alphabet_ptx.compiling, "__file__", str(changed))


@pytest.mark.parametrize("change", [change_version, change_ptxas, change_a_switch, change_this_package])
def test_a_change_of_the_toolchain_is_a_new_compilation(
    change, folder, compilations, load_source, monkeypatch, tmp_path
):
    module = load_source()
    compile_source(module)
    change(monkeypatch, tmp_path)
    compile_source(module)
    assert len(compilations) == 2


def damage_by_a_bit(data):
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


DAMAGES = {
    "a flipped bit": damage_by_a_bit,
    "a wrong digest": lambda data: b"0" * 64 + data[64:],
    "a lost end": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "something else": lambda data: b"{}",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_compiled_again(damage, folder, compilations, load_source):
    first = compile_source(load_source())
    (entry,) = folder.iterdir()
    intact = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](intact))
    again = compile_source(load_source())
    assert again.ptx == first.ptx
    assert compile_source(load_source()) == again
    assert len(compilations) == 2


def test_an_entry_under_another_name_is_not_taken(folder, compilations, load_source):
    module = load_source()
    compile_source(module)
    (first,) = folder.iterdir()
    other = compile_source(module, warps=1)
    (second,) = set(folder.iterdir()) - {first}
    shutil.copy(first, second)
    assert compile_source(module, warps=1).ptx == other.ptx
    assert len(compilations) == 3


def test_the_cache_can_be_switched_off(folder, compilations, load_source, monkeypatch):
    module = load_source()
    monkeypatch.setenv(cache.VARIABLE, "off")
    assert compile_source(module).ptx == compile_source(module).ptx
    assert len(compilations) == 2
    assert not folder.exists()


def test_a_folder_that_cannot_be_used_costs_only_time(folder, compilations, load_source):
    folder.write_text("a file where the folder should be", encoding="utf-8")
    module = load_source()
    assert compile_source(module).ptx == compile_source(module).ptx
    assert len(compilations) == 2


def test_the_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.folder() == Path.home() / ".cache" / "alphabet-ptx"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "alphabet-ptx"


def test_what_was_used_least_recently_goes_first(folder, monkeypatch):
    contents = {"value": list(range(100))}
    for age, key in enumerate(["newest", "middle", "oldest"]):
        cache.save(key, contents)
        os.utime(folder / f"{key}.entry", (1000 - age, 1000 - age))
    other = folder / "notes.txt"
    other.write_text("not an entry", encoding="utf-8")
    assert cache.load("oldest") == contents  # which makes it the one that was used last
    size = (folder / "newest.entry").stat().st_size
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * size)
    cache.save("another", contents)
    assert {path.stem for path in folder.iterdir()} == {"another", "oldest", "newest", "notes"}


def test_processes_may_write_at_the_same_time(folder):
    """Each of them reads whole entries while the others replace them."""
    code = (
        "from alphabet_ptx import cache\n"
        "for i in range(50):\n"
        "    cache.save('key', {'text': 'x' * 50000})\n"
        "    assert cache.load('key') == {'text': 'x' * 50000}"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert [path.name for path in folder.iterdir()] == ["key.entry"]


def test_tritons_own_cache_is_left_alone(folder, load_source, monkeypatch, tmp_path):
    theirs = tmp_path / "triton"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(theirs))
    compile_source(load_source())
    assert not theirs.exists()
    assert os.environ["TRITON_CACHE_DIR"] == str(theirs)
    assert triton.knobs.cache.dir == str(theirs)


def test_without_a_home_nothing_is_kept(monkeypatch):
    for name in (cache.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("Could not determine home directory."))
    )
    assert cache.folder() is None
