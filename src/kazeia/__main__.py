"""`python -m kazeia`."""

from kazeia.cli import main

main()
