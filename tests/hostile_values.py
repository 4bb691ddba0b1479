"""What somebody may write where a name, a text or a number is asked for; and how to see that nothing of this machine is told."""

import os
import re
import sys
import tempfile
from pathlib import Path

TRAVERSALS = [
    *(
        "../",
        "../../../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "..\\..\\windows\\win.ini",
        "..%5c..%5c",
        "%2e%2e%2f%2e%2e%2fetc",
        "....//....//etc",
    ),
    *(
        "/etc/passwd",
        "C:\\Windows\\win.ini",
        "\\\\host\\share",
        "file:///etc/passwd",
        "http://127.0.0.1:1/",
        "~/.ssh/id_rsa",
        "/proc/self/environ",
        "/dev/zero",
    ),
    *("model/../model", "./model", "model/", "model\x00", "\x00", "model%00.json", "con", "nul", ".", "..", "-", "--help"),
]
INJECTIONS = [
    *(
        "' OR 1=1 --",
        '" OR ""="',
        "'; DROP TABLE vocabulary; --",
        "read_csv('/etc/passwd')",
        "ATTACH '/etc/passwd' AS x",
        "x' UNION SELECT * FROM read_text('/etc/passwd')",
    ),
    *("COPY (SELECT 1) TO '/tmp/x'", "e' AND 1=(SELECT count(*) FROM range(1e12))--", "PRAGMA version", "\\'; SELECT 1"),
    *(
        "%s%s%s%n",
        "{0}",
        "{0.__class__}",
        "{self}",
        "${7*7}",
        "{{7*7}}",
        "$(id)",
        "`id`",
        "; id",
        "| id",
        "__import__('os').system('id')",
    ),
    *(
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "]]>",
        "\r\nset-cookie: x=1",
        "%0d%0aset-cookie:%20x=1",
    ),
]
PATTERNS = [
    "(a+)+$",
    "(a|aa)+$" + "a" * 60,
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(" * 5_000,
    "[" * 100,
    "*",
    "\\",
    "(?P<x>",
    "a{99999}",
    "(a{1000}){1000}",
    "(?<=a)b",
    "\\1",
    "~(a+)+$",
]
TEXTS = [
    *(
        "\u202e\u2066abc\u2069",
        "\u200b",
        "\ufeff",
        "é\u0301" * 50,
        "👩‍👩‍👧‍👦" * 20,
        "\u0000\u0001\u001b[31m",
        "\x7f",
        " ",
        "\n\n\n",
        "𐀀",
        "ﷺ" * 100,
        "a" * 10_000,
        "\ufffd",
    ),
    *(
        "\ud800",
        "\udfff\ud800",
        "null",
        "undefined",
        "None",
        "true",
        "[]",
        "{}",
        '{"a":' * 500,
        "[" * 100_000,
        "ids:",
        "ids:-1",
        "ids:1e9",
        "ids:99999999999",
        "ids:" + "1," * 20_000,
    ),
    *(
        "ids:١",
        "#",
        "#-1",
        "#99999999999999999999",
        "#1.5",
        "#٣",
        "L0H99999",
        "L-1H0",
        "l0h0",
        "L0",
        "L0H0,L0H1",
        "L0H0\n",
        "embed@99999999",
        "L0.pattern",
        "*",
    ),
]
NUMBERS = [
    *(
        "0",
        "-0",
        "-1",
        "1" * 400,
        "-" + "9" * 400,
        "1e400",
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "1_000",
        "0x10",
        "1.5",
        "1e3",
        " 1 ",
        "１",
        "٣",
        "+1",
        "2147483648",
        "-2147483649",
    ),
    *("9223372036854775808", "1e-400", "", "true", "[1]", "'1'"),
]
BYTES = [
    b"%c0%ae%c0%ae/",
    b"%c0%af",
    b"%e0%80%af",
    b"%ff%fe",
    b"%",
    b"%zz",
    b"%u002e",
    b"%f8%88%80%80%80",
    b"%ed%a0%80",
    b"\xff",
    b"a%00b",
]
"""Not even text: written over-long, half written, no UTF-8."""
EVERY = [*TRAVERSALS, *INJECTIONS, *PATTERNS, *TEXTS, *NUMBERS, *BYTES]
SOME = [
    "../../../../etc/passwd",
    "model\x00",
    "read_csv('/etc/passwd')",
    "' OR 1=1 --",
    "(a|aa)+$" + "a" * 60,
    "\ud800",
    "1" * 400,
    "NaN",
    b"%c0%ae%c0%ae/",
    "a" * 10_000,
]
"""For a short run."""
PLACES = sorted(
    {
        str(place)
        for place in (
            Path.home(),
            Path.cwd(),
            Path(__file__).parents[1],
            Path(sys.prefix),
            Path(tempfile.gettempdir()),
            Path("/root"),
            Path("/home"),
            Path("/usr"),
        )
        if len(place.parts) > 1
    }
)


def places_told(body, given=()):
    """Places of this machine that stand in an answer, apart from those that stood in the question."""
    text = body.decode("utf-8", "replace")
    asked = " ".join(each if isinstance(each, str) else each.decode("latin-1") for each in given)
    found = [place for place in PLACES if place + os.sep in text and place not in asked]
    secrets = [secret for secret in ("root:x:0", "BEGIN OPENSSH", "LS_COLORS=", "PYTHONPATH=") if secret in text]
    return found + secrets + re.findall(r'File "[^"]+", line \d+', text)
