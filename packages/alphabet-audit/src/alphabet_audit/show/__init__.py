"""What people see: the terminal, the report of a run, and what changed between runs."""

PAGE, TABLE = "report.html", "report.md"
