"""What the tests share: the program beside which the module was built (RIDGE_BINARY), and plain references."""
import os


def binary():
    return os.environ["RIDGE_BINARY"]
