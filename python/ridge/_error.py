"""The exception type, and checks of arguments that are not arrays."""
import os
import re


class Error(ValueError):
    """An invalid program, machine, array or call.

    ``str(error)`` is the message of the command line: the position with a caret, what was expected and found, a hint.
    ``kind`` is "usage", "input", "absent" or "mismatch"; ``code`` is the exit code of the command line. Errors can be
    pickled, so that those of worker processes reach the caller.
    """

    KINDS = {1: "finding", 2: "usage", 3: "input", 4: "absent", 5: "mismatch"}

    code: int
    kind: str
    message: str
    hint: str
    source: str
    line: int
    column: int

    def __init__(self, code: int, message: str, hint: str, source: str, line: int, column: int, text: str) -> None:
        super().__init__(text.rstrip("\n"))
        self.code = code
        self.kind = self.KINDS[code]
        self.message = message
        self.hint = hint
        self.source = source
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[type["Error"], tuple[object, ...]]:
        return type(self), (self.code, self.message, self.hint, self.source, self.line, self.column, str(self))


# Terms of the command line, and Python's: "after --memory" is "for memory=", "-d N=64" is "N=64".
_TERMS = ((r"(?:with|after) --([a-z]+)", r"for \1="), (r"--([a-z]+)", r"\1="), (r"-d (\w+=)", r"\1"),
          (r"`ridge ([a-z]+)`", r"ridge.\1()"))


def from_library(code, message, hint, source, line, column, text):
    """Returns an Error of the compiled library, whose messages are those of the command line, in Python's terms."""
    for pattern, replacement in _TERMS:
        message, hint, text = (re.sub(pattern, replacement, each) for each in (message, hint, text))
    return Error(code, message, hint, source, line, column, text)


def usage_error(message: str) -> Error:
    """Returns an Error of kind "usage"."""
    return Error(2, message, "", "", 0, 0, message)


def input_error(message: str) -> Error:
    """Returns an Error of kind "input"."""
    return Error(3, message, "", "", 0, 0, message)


def text_of(what, given, such_as):
    """Returns a string, or a path as string; raises Error for other types."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if not isinstance(given, str):
        raise usage_error(f"expected {what}, such as {such_as!r}, found {given!r}")
    return given
