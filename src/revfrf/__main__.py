"""The command line, as `python -m revfrf`."""

from revfrf.cli.app import app

if __name__ == "__main__":
    app(prog_name="revfrf")
