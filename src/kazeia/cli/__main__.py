"""`python -m kazeia.cli` is `kazeia`."""

from kazeia.cli import main

main()
