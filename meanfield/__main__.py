"""`python -m meanfield`: the command line."""

from meanfield.cli import main

if __name__ == "__main__":
    main()
