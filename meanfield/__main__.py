"""`python -m meanfield`: the command line."""

from meanfield.cli.app import main

if __name__ == "__main__":
    main()
