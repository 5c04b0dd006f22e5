"""What docs/python.md and the notebook show is what happens."""
import doctest
import json
import pathlib
import re
import subprocess
import sys
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


class Documents(unittest.TestCase):
    def test_the_reference_is_what_the_docstrings_say(self):
        found = subprocess.run([sys.executable, ROOT / "tools/write_python_api.py", "--check"], capture_output=True, text=True)
        self.assertEqual((found.returncode, found.stderr), (0, ""))

    def test_examples_of_python_md(self):
        text = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"(?:<!-- only where (\w+) is installed -->\n)?```python\n(.*?)```", text, re.S)
        shown = "\n".join(block for module, block in blocks if not module or has(module))
        test = doctest.DocTestParser().get_doctest(shown, {}, "docs/python.md", "docs/python.md", 0)
        self.assertGreater(len(test.examples), 10)
        said = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
        self.assertEqual("".join(said), "")

    def test_the_notebook_runs(self):
        notebook = json.loads((ROOT / "docs/explain_a_layer.ipynb").read_text())
        names, shown, pictures = {}, 0, 0
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            source = "".join(cell["source"])
            if "torch" in source and not has("torch") or "pandas" in source and not has("pandas"):
                continue
            *statements, last = source.rstrip("\n").split("\n")
            is_value = not re.match(r"\s|import |from |[\w, ]+ = |\)|#", last)
            exec("\n".join(statements if is_value else [*statements, last]), names)
            value = eval(last, names) if is_value else None
            if hasattr(value, "_repr_html_"):
                shown += 1
                page = value._repr_html_()
                self.assertIn("<t", page)
                if "<img" in page:
                    pictures += 1
                    xml.dom.minidom.parseString(page)
        self.assertGreaterEqual(shown, 2)
        self.assertEqual(pictures, 2 + has("torch"))


if __name__ == "__main__":
    unittest.main()
