"""The command line without its script on the path: `python -m engram COMMAND`."""

from engram.cli import main

if __name__ == "__main__":  # a worker that starts anew imports this file as well
    main()
