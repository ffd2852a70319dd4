"""`python -m trtlab` is `trtlab`."""

from trtlab.cli import main

main()
