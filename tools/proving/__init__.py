"""What `make test` stands on: the table of stages, their inputs, the proofs that are kept, the runner, and the report.

Standard library and syntax of Python 3.9: the python3 of the machine runs this before any environment exists.
"""
