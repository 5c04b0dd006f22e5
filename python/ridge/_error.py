"""The exception type."""
import os


class Error(ValueError):
    """An invalid program, machine, array or call.

    ``str(error)`` is the message of the command line: the position with a caret, what was expected and found, a hint.
    ``kind`` is "usage", "input", "absent" or "mismatch"; ``code`` is the exit code of the command line.
    """

    KINDS = {1: "finding", 2: "usage", 3: "input", 4: "absent", 5: "mismatch"}

    def __init__(self, code, message, hint, source, line, column, text):
        super().__init__(text.rstrip("\n"))
        self.code = code
        self.kind = self.KINDS[code]
        self.message = message
        self.hint = hint
        self.source = source
        self.line = line
        self.column = column


def usage_error(message):
    return Error(2, message, "", "", 0, 0, message)


def text_of(what, given, such_as):
    """Returns a string, or a path as string; raises Error for other types."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if not isinstance(given, str):
        raise usage_error(f"expected {what}, such as {such_as!r}, found {given!r}")
    return given
