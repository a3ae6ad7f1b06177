"""`python -m alphabet_study` is `alphabet-study`."""

from alphabet_study.cli import main

if __name__ == "__main__":
    main()
