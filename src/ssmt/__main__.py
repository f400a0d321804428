"""`python -m ssmt` is `ssmt`."""

from ssmt.cli import main

if __name__ == "__main__":
    main()
