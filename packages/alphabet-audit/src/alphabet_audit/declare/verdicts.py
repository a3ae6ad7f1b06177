"""The words for a verdict, in evidence, on screens and in reports."""

PASS, FAIL = "pass", "fail"
NOT_RUN = "not-run"  # of a gate for which this machine lacks the device
PARTIAL = "partial"  # of a run that holds but is not the whole
TIMED, GATE_FAILED, CRASHED = "timed", "gate-failed", "crashed"  # of a row
