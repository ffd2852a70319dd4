"""`python -m solutions.pipeline` is `trtlab`."""

from solutions.pipeline.cli import main

main()
