"""What must not get in: other hosts and sites, callers without the token, paths outside, hostile and endless files."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import visil
from synthetic import stamped_frames, write_video
from visil.errors import UsageError
from visil.web.callers import COOKIE, SESSION_S, Rate, new_session, session_valid
from visil.web.problems import Problem
from visil.web.roots import Roots
from visil.web.settings import settle
from visil.web.uploads import clean_name

from .conftest import Running, Serve, is_problem

# ---------------------------------------------------------------------- who asks


def test_headers_on_every_answer(shared: Running) -> None:
    for address in ("/", "/api/session", "/api/nothing", "/static/nothing.js"):
        headers = shared.http.get(address).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers
    assert "paths" in shared.http.get("/api/openapi.json").json()
    whole, head = shared.http.get("/healthz"), shared.http.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    other = shared.http.post("/api/banks/none")
    is_problem(other, 405)
    assert other.headers["allow"] == "DELETE, GET, PATCH"  # each is another route
    assert shared.http.put("/api/videos/remove").headers["allow"] == "POST"  # which is no video


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Visil": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[bad"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8765"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "["}, 421),
    ],
)
def test_another_web_site_cannot_ask(shared: Running, headers: dict[str, str], status: int) -> None:
    before = [job["id"] for job in shared.client.jobs()]
    is_problem(shared.http.post("/api/duplicates", json={}, headers=headers), status)
    assert [job["id"] for job in shared.client.jobs()] == before


def test_the_page_itself_can_ask(shared: Running) -> None:
    here = {"Origin": shared.url, "Sec-Fetch-Site": "same-origin"}
    is_problem(shared.http.post("/api/search", json={"video": "0" * 32}, headers=here), 404)


def test_a_token_keeps_others_out(serve: Serve) -> None:
    server = serve(token="a-secret-word")
    asked = server.http.get("/api/session").json()
    assert (asked["authenticated"], asked["token_needed"], asked["roots"]) == (False, True, [])
    assert asked["index"]["name"] == ""
    for address in ("videos", "jobs", "duplicates", "judgements", "openapi.json", "nothing"):
        answer = server.http.get(f"/api/{address}")
        is_problem(answer, 401, "token")
        assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("Bearer", "Bearer wrong", "Basic a-secret-word", "Bearer a-secret-wor", "Bearer ünï"):
        headers = {b"Authorization": wrong.encode("latin-1")}
        assert server.http.get("/api/videos", headers=headers).status_code == 401
    assert server.http.get("/").status_code != 401  # the page asks for the token
    assert server.client.videos()["total"] == 4
    assert (
        server.http.get("/api/videos", headers={"Authorization": "bearer a-secret-word"}).status_code == 200
    )

    is_problem(server.http.post("/api/login", json={"token": "wrong"}), 401)
    login = server.http.post("/api/login", json={"token": "a-secret-word"})
    assert login.json()["authenticated"]
    cookie = login.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert server.http.get("/api/videos").status_code == 200
    copied = server.http.cookies[COOKIE]
    server.http.post("/api/logout")
    assert server.http.get("/api/videos").status_code == 401
    server.http.cookies.set(COOKIE, copied)
    is_problem(server.http.get("/api/videos"), 401)  # for who has copied it, too


def test_a_session_ends_and_cannot_be_made_up() -> None:
    made = new_session("token-one", now=1000.0)
    assert session_valid(made, "token-one", now=1001.0)
    assert not session_valid(made, "token-one", now=1001.0 + SESSION_S)
    assert not session_valid(made, "token-two", now=1001.0)
    until, _, signature = made.partition(".")
    for forged in (f"{int(until) + 1}.{signature}", until, "", ".", f"{until}.", f"x.{signature}", "9" * 500):
        assert not session_valid(forged, "token-one", now=1001.0)
    assert COOKIE == "visil_session"


def test_settings(tmp_path: Path) -> None:
    index = tmp_path / "i.visil"
    assert settle(index).token is None
    assert settle(index).roots == (tmp_path.resolve(),)
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        made = settle(index, host=host).token
        assert made is not None
        assert len(made) >= 24
    assert settle(index, host="::1").token is settle(index, host="localhost").token is None
    with pytest.raises(UsageError, match="--root"):
        settle(index, roots=[tmp_path / "nothing"])
    with pytest.raises(UsageError, match="8 characters"):
        settle(index, token="short")


def test_rates_fill_up_again() -> None:
    rate = Rate(60)
    for _ in range(20):
        rate.take("a", now=0.0)
    with pytest.raises(Problem) as refused:
        rate.take("a", now=0.0)
    assert refused.value.status == 429
    assert refused.value.retry_after == pytest.approx(1.0)
    rate.take("b", now=0.0)
    rate.take("a", now=1.01)
    with pytest.raises(Problem):
        rate.take("a", now=1.02)


def test_expensive_calls_are_counted(serve: Serve) -> None:
    server = serve(searches_per_minute=6, long_jobs_per_minute=3)
    asked = {"video": "0" * 32}
    for _ in range(2):
        is_problem(server.http.post("/api/search", json=asked), 404)
    last = server.http.post("/api/search", json=asked)
    is_problem(last, 429)
    assert int(last.headers["retry-after"]) > 0


# ---------------------------------------------------------------------- paths


@pytest.fixture
def outside(tmp_path: Path, root: Path) -> Iterator[Path]:
    """A video outside the root, and ways to it: a link to the file and one to its folder, both inside."""
    folder = tmp_path / "private"
    folder.mkdir()
    write_video(folder / "secret.mp4", stamped_frames(8), 4)
    links = [(root / "more" / "link.mp4", folder / "secret.mp4"), (root / "more" / "folder", folder)]
    for link, target in links:
        link.symlink_to(target)
    yield folder / "secret.mp4"
    for link, _ in links:
        link.unlink()


def test_no_path_leads_out(shared: Running, root: Path, outside: Path) -> None:
    inside = root / "videos"
    ways = [
        str(outside),
        "/etc/passwd",
        str(root / "more" / "link.mp4"),
        str(root / "more" / "folder" / "secret.mp4"),
        f"{inside}/../../{outside.relative_to('/')}",
        f"{inside}/" + "../" * 30 + "etc/passwd",
        f"{root}x/a.mp4",
        "videos/cat.mp4",
        "",
        ".",
        "/",
        "~",
        str(inside / "cat.mp4") + "\0.mp4",
        "file://" + str(inside / "cat.mp4"),
        "/dev/zero",
        "/proc/self/environ",
        "a" * 4000,
    ]
    for way in ways:
        answers = [
            shared.http.post("/api/search", json={"path": way}),
            shared.http.post("/api/add", json={"path": way}),
            shared.http.post("/api/compare", json={"query": {"path": way}, "target": {"path": way}}),
        ]
        for answer in answers:
            is_problem(answer, 422)
            assert "root:" not in answer.text
    there = shared.http.post("/api/search", json={"path": str(outside)}).json()["detail"]
    not_there = shared.http.post("/api/search", json={"path": f"{outside}x"}).json()["detail"]
    assert there.replace(str(outside), "") == not_there.replace(f"{outside}x", "")


def test_addresses_lead_nowhere_else(shared: Running) -> None:
    for path in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/api/videos/..%2f..%2fetc%2fpasswd/stream",
        "/api/uploads/..%2f..%2fjobs.sqlite/stream",
        "/api/comparisons/..%2f..%2fx/frame_matrix.png",
        "/api/comparisons/%2e%2e/frame_matrix.png",
        "/api/jobs/..%2f..%2fjobs",
    ):
        raw = _raw(shared, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert raw.startswith(b"HTTP/1.1 404"), raw[:200]


def test_only_the_file_that_was_added_is_streamed(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    clip = write_video(folder / "clip.mp4", stamped_frames(8), 4)
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    server = serve(folder)
    with visil.Index(server.folder) as index:
        index.add(clip)
    video = server.id("clip.mp4")
    assert server.http.get(f"/api/videos/{video}/stream").status_code == 200
    os.utime(clip, (1, 1))  # touched, or copied back from elsewhere: the same bytes
    assert server.http.get(f"/api/videos/{video}/stream").content == clip.read_bytes()
    changed = clip.read_bytes()[:-1] + b"?"
    clip.write_bytes(changed)  # as long as before
    is_problem(server.http.get(f"/api/videos/{video}/stream"), 404, "changed")
    clip.unlink()
    clip.symlink_to(secret)
    is_problem(server.http.get(f"/api/videos/{video}/stream"), 404, "changed")
    is_problem(server.http.get(f"/api/videos/{video}/thumbnail?at=1"), 404)
    assert not server.video("clip.mp4")["playable"]


def test_roots(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    file = tmp_path / "a" / "b" / "x"
    file.write_text("")
    roots = Roots([tmp_path / "a"])
    assert roots.resolve(str(file)) == file.resolve()
    assert roots.resolve(f"{tmp_path}/a/../a/b") == file.resolve().parent
    with pytest.raises(UsageError):
        roots.resolve(str(tmp_path / "ab"))
    os.mkfifo(tmp_path / "a" / "pipe")
    with pytest.raises(UsageError):
        roots.resolve(str(tmp_path / "a" / "pipe"))


# ---------------------------------------------------------------------- uploads


def test_uploads_are_bounded(serve: Serve, root: Path) -> None:
    server = serve(upload_bytes=100_000, uploads=2, upload_idle_s=0.5, uploads_under_way=2)
    held = server.folder / "serve" / "uploads"
    is_problem(server.http.post("/api/uploads?name=a.mp4", content=b"x" * 100_001), 413, "0.1 MB")

    def endless() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 10_000

    is_problem(server.http.post("/api/uploads?name=a.mp4", content=endless()), 413)
    is_problem(server.http.post("/api/uploads?name=a.mp4", content=b""), 422, "empty")
    is_problem(server.http.post("/api/uploads?name=a.mp4", content=b"#EXTM3U\n/etc/passwd"), 422, "playlist")
    head = b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nX-Visil: 1\r\nContent-Length: 500\r\n\r\nabc"
    assert _raw(server, head).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", server.server.port)) as line:
        line.sendall(head)  # and goes away
    deadline = time.monotonic() + 20
    while list(held.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)

    data = (root / "cut.mp4").read_bytes()
    assert len(data) < 100_000
    sent = [server.http.post("/api/uploads?name=a.mp4", content=data).json()["upload"] for _ in range(3)]
    left = [one for one in sent if server.http.get(f"/api/uploads/{one}/stream").status_code == 200]
    assert left == sent[1:]
    assert len(list(held.iterdir())) == 2
    is_problem(server.http.post("/api/search", json={"video": "x" * 2**20}), 413)


def test_uploads_are_deleted_after_use(serve: Serve, root: Path) -> None:
    server = serve(upload_kept_s=0.3)
    held = server.folder / "serve" / "uploads"
    sent = server.client.upload(root / "cut.mp4")
    assert sent
    deadline = time.monotonic() + 20
    while list(held.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_names_never_become_paths() -> None:
    for name, clean in (
        ("../../etc/passwd", "passwd"),
        ("C:\\videos\\a.mp4", "a.mp4"),
        ("a\0b\n.mp4", "a\\x00b\\n.mp4"),
        ("/", "video"),
        ("", "video"),
    ):
        assert clean_name(name) == clean
    assert len(clean_name("x" * 5000)) == 200


def _raw(server: Running, data: bytes) -> bytes:
    """What a server answers to bytes that no client would send."""
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=20) as line:
        line.sendall(data)
        answer = b""
        while part := line.recv(65536):
            answer += part
            if b"\r\n\r\n" in answer:
                break
    return answer
