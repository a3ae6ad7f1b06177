"""A web site of one file on this machine, which misbehaves as told."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from alphabet_study.registry.task import DataFile, Task

CONTENT = bytes(range(256)) * 2000
PATH = "General/Made/made.csv"


@dataclass
class Site:
    """What the server holds and how it misbehaves, and the requests that it saw as (path, Range)."""

    files: dict[str, bytes] = field(default_factory=dict)
    tag: str | None = None
    ranges: bool = True
    cut_at: int | None = None
    announce_length: bool = True
    silent: bool = False
    redirect: str | None = None
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


def handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.seen.append((self.path, wanted))
            if site.silent:
                threading.Event().wait(3)
                return
            if site.redirect is not None:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = 0
            if wanted and site.ranges and self.headers.get("If-Range") in (None, site.tag):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if site.announce_length:
                self.send_header("Content-Length", str(len(content) - start))
            if site.tag is not None:
                self.send_header("ETag", site.tag)
            self.end_headers()
            self.wfile.write(content[start : site.cut_at])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


@contextmanager
def serve() -> Iterator[Site]:
    """A site that a server on this machine shows until the block ends."""
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def made_task(*files: DataFile, embedded: str | None = None) -> Task:
    return Task(
        name="Made",
        suite="general",
        title="made for a test",
        objective="forecasting",
        metric="mse",
        selection_metric="mse",
        split="predefined",
        final_training="checkpoint",
        channels=1,
        length=1,
        outputs=1,
        train_size=None,
        test_size=None,
        source="https://example.org/made",
        citation="nobody",
        reader="forecasting-csv",
        files_train=files,
        files_test=files,
        embedded=embedded,
    )


def file_at(site: Site, *, sha: str | None = sha256(CONTENT), content: bytes = CONTENT) -> DataFile:
    site.files["/made.csv"] = content
    return DataFile(PATH, sha256=sha, address=f"{site.address}/made.csv")
