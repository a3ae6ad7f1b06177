"""What is run once on a GPU: stages that fail, hang, are stopped or cannot run; what is left of them; going on."""

import csv
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from alphabet_audit.first_gpu.campaign import exit_code, run_campaign
from alphabet_audit.first_gpu.running import Outcome, load
from alphabet_audit.first_gpu.stages import GPU_TESTS, KERNEL_TIMES, Stage, list_stages
from alphabet_audit.first_gpu.summary import write_summary

ROOT = Path(__file__).parents[3]
RELATIVE = "relative to the largest entry"  # as the suite names the column
NO_GPU = "no GPU: torch finds no CUDA device"


def stage(name, code, **options):
    """A stage that runs Python code."""
    return Stage(name, f"what {name} shows", options.pop("limit", 1.0), (sys.executable, "-c", code), **options)


def run(stages, out, **options):
    said = []
    options.setdefault("no_gpu", None)
    outcomes, archive = run_campaign(stages, ROOT, out, show=said.append, **options)
    return {outcome.stage: outcome for outcome in outcomes}, archive, said


def test_a_failure_is_recorded_and_the_rest_runs(tmp_path):
    stages = [
        stage("bad", "import sys; print('what went wrong'); sys.exit(3)"),
        Stage("absent", "cannot start", 1.0, ("a-program-that-does-not-exist",)),
        stage("good", "print('fine')"),
    ]
    outcomes, archive, _ = run(stages, tmp_path / "run")
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "bad": "failed", "absent": "failed", "good": "passed"
    }  # fmt: skip
    assert outcomes["bad"].reason == "exit code 3; see logs/bad.txt"
    assert outcomes["absent"].reason.startswith("it did not start: ")
    assert exit_code(list(outcomes.values())) == 1
    with tarfile.open(archive) as packed:
        assert b"what went wrong" in packed.extractfile("run/logs/bad.txt").read()
        assert b"what went wrong" in packed.extractfile("run/summary.md").read()
    assert archive == tmp_path / "run.tar.gz"


def test_the_same_command_goes_on_and_repeats_only_what_has_no_outcome(tmp_path):
    count = "import pathlib; p = pathlib.Path({!r}); p.write_text(p.read_text() + 'x' if p.exists() else 'x')"
    files = {name: str(tmp_path / name) for name in ("first", "second")}
    stages = [stage(name, count.format(path)) for name, path in files.items()]
    run(stages, tmp_path / "run")
    (tmp_path / "run" / "outcomes" / "second.json").write_text("half a fi")  # as after a fault of the disk
    outcomes, _, said = run(stages, tmp_path / "run")
    assert [Path(path).read_text() for path in files.values()] == ["x", "xx"]
    assert any("first" in line and line.endswith("passed before") for line in said)
    run(stages, tmp_path / "run", again=["first"])
    assert Path(files["first"]).read_text() == "xx"
    assert all(outcome.status == "passed" for outcome in outcomes.values())


def test_another_command_of_the_same_name_is_run(tmp_path):
    run([stage("one", "print(1)")], tmp_path / "run")
    outcomes, _, _ = run([stage("one", "raise SystemExit(1)")], tmp_path / "run")
    assert outcomes["one"].status == "failed"


def test_without_a_gpu_or_a_tool_a_stage_is_not_run_and_tried_again_later(tmp_path):
    stages = [stage("needs", "print('ran')"), stage("watched", "print('ran')", tool="no-such-tool", needs_gpu=False)]
    outcomes, _, _ = run(stages, tmp_path / "run", no_gpu=NO_GPU)
    assert [(outcome.status, outcome.reason) for outcome in outcomes.values()] == [
        ("not-run", NO_GPU),
        ("not-run", "no-such-tool is not installed"),
    ]
    assert exit_code(list(outcomes.values())) == 0
    assert run(stages, tmp_path / "run")[0]["needs"].status == "passed"


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc whether a process has ended")
def test_a_stage_that_hangs_ends_with_its_children(tmp_path):
    sleep = "import subprocess, time; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); time.sleep(600)"
    hangs = stage("hangs", sleep, limit=0.25)
    outcomes, _, _ = run([hangs, stage("next", "print('ran')")], tmp_path / "run")
    assert outcomes["hangs"].status == "failed"
    assert "not ready after 0.25 minutes; --again hangs" in outcomes["hangs"].reason
    assert outcomes["next"].status == "passed"
    grandchild = int((tmp_path / "run" / "logs" / "hangs.txt").read_text().split()[0])
    deadline = time.monotonic() + 20
    while is_alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(grandchild)


CAMPAIGN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a test run in the background would have ignored
from pathlib import Path
from alphabet_audit.first_gpu.campaign import exit_code, run_campaign
from alphabet_audit.first_gpu.stages import Stage
code = "import time; print('begun', flush=True); time.sleep(600)" if sys.argv[2] == "slow" else "print('ran')"
stages = [
    Stage("first", "", 1.0, (sys.executable, "-c", "print('ran')")),
    Stage("second", "", 20.0, (sys.executable, "-c", code)),
    Stage("third", "", 1.0, (sys.executable, "-c", "print('ran')")),
]
outcomes, _ = run_campaign(stages, Path.cwd(), Path(sys.argv[1]), no_gpu=None)
sys.exit(exit_code(outcomes))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal here")
def test_ctrl_c_ends_the_stage_keeps_what_there_is_and_the_same_command_goes_on(tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", CAMPAIGN, str(out), "slow"], stdout=subprocess.DEVNULL)
    log = out / "logs" / "second.txt"
    deadline = time.monotonic() + 120
    try:
        while not (log.exists() and "begun" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    states = {each: load(stage(each, ""), out) for each in ("first", "second", "third")}
    assert (states["first"].status, states["second"].status, states["third"]) == ("passed", "interrupted", None)
    assert (tmp_path / "run.tar.gz").exists()
    result = subprocess.run(
        [sys.executable, "-c", CAMPAIGN, str(out), "quick"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert "first: : passed before" in result.stdout


def test_the_summary_lists_what_differed_and_says_if_nothing_was_compared(tmp_path):
    stages = [stage("suite", ""), stage("times", "")]
    assert "Nothing was compared." in write_summary([], [], tmp_path)
    (tmp_path / "suite").mkdir()
    with (tmp_path / "suite" / "differences.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["what", "tensor", "largest difference", "relative to the largest entry", "tolerance", "verdict"]
        )
        writer.writerow(["launch scan", "states", "1e-3", "2e-3", "1e-5", "DIFFERS"])
        writer.writerow(["launch scan", "sums", "0", "0", "1e-5", "same"])
    (tmp_path / "times.csv").write_text(
        'design,phase,kernel,us,"us, estimated",bound\n'
        '"(1, 2, 3)",step,slow_kernel,30.0,10.0,serial\n"(1, 2, 3)",step,good_kernel,11.0,10.0,issue\n'
        '"(1, 2, 3)",step,broken_kernel,failed: an error,10.0,issue\n'
    )
    text = write_summary(list(run(stages, tmp_path)[0].values()), stages, tmp_path)
    assert "4 comparisons, 2 differ" in text
    assert "states" in text
    assert "3.00 times the estimate" in text
    assert "good_kernel" not in text
    with (tmp_path / "differences.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2


def test_the_stages_fit_into_an_hour_and_name_what_is_there(tmp_path):
    stages = list_stages(tmp_path)
    assert sum(stage.limit for stage in stages) <= 60
    assert len({stage.name for stage in stages}) == len(stages)
    assert (ROOT / GPU_TESTS).is_dir()
    assert (ROOT / KERNEL_TIMES).is_file()
    assert [stage.name for stage in stages if not stage.needs_gpu] == ["environment"]


def test_what_was_executed_without_a_gpu_is_not_taken_for_a_native_run(tmp_path):
    native, executed = list_stages(tmp_path), list_stages(tmp_path, on_ptx=True)
    assert [stage.needs_gpu for stage in executed] == [False, False]
    assert {stage.name for stage in native if stage.needs_gpu}.isdisjoint(stage.name for stage in executed)
    for stages, title in ((native, "First run on a GPU"), (executed, "Executed PTX in place of a GPU")):
        outcomes = [Outcome(each.name, "passed", "", 1.0) for each in stages]
        text = write_summary(outcomes, stages, tmp_path)
        assert text.startswith(f"# {title}\n")
        assert ("of a GPU this shows nothing" in text) == (stages is executed)


@pytest.mark.slow
def test_without_a_gpu_the_command_runs_to_its_end_and_shows_nothing(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, "-m", "alphabet_audit.first_gpu", str(tmp_path / "run")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"{len(list_stages(tmp_path)) - 1} not-run" in result.stdout
    assert "Nothing was compared." in result.stdout
    assert f"ready to be sent: {tmp_path / 'run.tar.gz'}" in result.stdout


def test_a_wrong_folder_or_stage_is_refused_by_name(tmp_path):
    command = [sys.executable, "-m", "alphabet_audit.first_gpu", str(tmp_path / "run")]
    elsewhere = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert elsewhere.returncode == 2
    assert "run it in the root of a checkout" in elsewhere.stderr
    wrong = subprocess.run([*command, "--again", "leger"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no stage is named leger" in wrong.stderr
