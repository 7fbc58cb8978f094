"""docs/security.md names a test for each thing that somebody cannot do. A name that no test has
would be a promise without one."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cannot_rows():
    for line in (ROOT / "docs/security.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 2 and cells[0] not in ("cannot", "---"):
            yield cells


def all_tests():
    names, files = set(), set()
    for path in ROOT.glob("**/*"):
        if "build" in path.relative_to(ROOT).parts[:1] or path.suffix not in (".py", ".cc"):
            continue
        files.add(str(path.relative_to(ROOT)))
        text = path.read_text(errors="replace")
        names |= set(re.findall(r"^def test_(\w+)", text, re.MULTILINE))
        names |= {".".join(pair) for pair in re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", text,
                                                        re.MULTILINE)}
    return names, files


def test_every_test_that_the_page_names_exists():
    names, files = all_tests()
    rows = list(cannot_rows())
    assert len(rows) > 20
    for what, shown_by in rows:
        words = re.findall(r"[\w./*]+", shown_by)
        suites = [word for word in words if re.fullmatch(r"[A-Z]\w+\.[\w*]+", word)]
        plain = [word for word in words if re.fullmatch(r"[a-z0-9]\w+_\w+_\w+|T\d+", word)]
        for suite in suites:
            pattern = re.compile(suite.replace(".", r"\.").replace("*", ".*"))
            assert any(pattern.fullmatch(name) for name in names), (what, suite)
        for word in plain:
            assert any(name == word or name.startswith(word) for name in names), (what, word)
        for path in (word for word in words if word.startswith(("tests/", "server/"))):
            assert path in files, (what, path)
