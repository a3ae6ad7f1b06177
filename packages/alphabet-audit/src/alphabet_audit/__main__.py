"""`python -m alphabet_audit` is `alphabet-audit`."""

from alphabet_audit.cli import main

main()
