"""What goes wrong, as an exception."""
import os


class Error(ValueError):
    """A program, a machine, an array or a call that ridge cannot take.

    ``str(error)`` is what the command line prints: the place with a caret, what was expected and found, the cure.
    ``kind`` is "usage", "input", "absent" or "mismatch", and ``code`` the exit code that the command line gives it.
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
    """A text, or a path as one."""
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if not isinstance(given, str):
        raise usage_error(f"expected {what}, such as {such_as!r}, found {given!r}")
    return given
