"""A browser that opens a report runs nothing and fetches nothing, whatever the evidence holds."""

import http.server
import os
import re
import shutil
import subprocess
import threading

import pytest
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.scripted_run import find_active_markup, plant_scripts
from markupsafe import escape

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium: the page's markup is read by test_scripts.py anywhere"),
]
# Ways out of text, an attribute, a style and a title; {at} is an address that would hear of it.
ATTACKS = (
    "<script>document.title='RAN';fetch('{at}/1')</script>",
    "<img src={at}/2 onerror=document.title='RAN'>",
    "\"><svg onload=document.title='RAN'>",
    "' onmouseover='document.title=1' autofocus onfocus=document.title='RAN' x='",
    "</style><script src={at}/3></script>",
    "</title></table><iframe src={at}/4></iframe>",
    "<link rel=stylesheet href={at}/5><base href={at}/>",
    "<a href=\"javascript:document.title='RAN'\">x</a>",
    "{{{{ 7*7 }}}}",
)


class Listening(http.server.BaseHTTPRequestHandler):
    heard: list = []  # noqa: RUF012

    def do_GET(self):
        self.heard.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    """An address that is listened to, and what it was asked for."""
    Listening.heard = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", Listening.heard
        server.shutdown()
        thread.join()


def open_page(page, home):
    """The document as it is once a browser has opened a page and run what it runs."""
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom",
        f"--user-data-dir={home}", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=180, check=True, env={**os.environ, "HOME": str(home)})
    return done.stdout.decode()


def title_of(document):
    return re.search("<title>(.*?)</title>", document, flags=re.DOTALL).group(1)


def test_the_attacks_work_on_a_page_that_does_not_escape_them(listener, tmp_path):
    """Or the test below could not fail; and the policy of our pages alone would stop them."""
    address, heard = listener
    body = "".join(f"<p title='{attack}'>{attack}</p>" for attack in ATTACKS).format(at=address)
    (tmp_path / "page.html").write_text(f"<title>quiet</title>{body}")
    assert title_of(open_page(tmp_path / "page.html", tmp_path / "home")) == "RAN"
    assert heard
    heard.clear()
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    (tmp_path / "page.html").write_text(f"{policy}<title>quiet</title>{body}")
    assert title_of(open_page(tmp_path / "page.html", tmp_path / "home")) == "quiet"
    assert heard == []


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("spared", [(), ("opponent",)], ids=["every string", "all but families"])
def test_a_script_in_every_string_of_a_run_is_text_in_a_browser(spared, attack, listener, part, tmp_path):
    address, heard = listener
    planted = attack.format(at=address)
    plant_scripts(part, planted, spared)
    assert command("report", part).exit_code == 1
    assert command("compare", part, part, "--out", part).exit_code == 0
    for name, least in (("report.html", 60 if spared else 20), ("compare.html", 18)):
        page = (part / name).read_text()
        assert page.count(str(escape(planted[-6:]))) >= least
        # The policy stops scripts; without it, nothing may be left to stop.
        (part / name).write_text(re.sub("<meta http-equiv.*?>", "", page, count=1))
        document = open_page(part / name, tmp_path / "home")
        assert title_of(document).startswith("ALPHABET systems audit")
        assert find_active_markup(document) == set()
    assert heard == []
