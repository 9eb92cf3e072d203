"""Several tokens with roles, what each may do, guessing, logging out, proxies, and the record of who did what."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from visil.errors import UsageError
from visil.web import callers
from visil.web.access import AccessStore
from visil.web.callers import Tokens, network_of, new_session
from visil.web.guard import OPEN, role_needed
from visil.web.problems import Problem
from visil.web.settings import Token, read_tokens, settle

from .conftest import Running, in_a_thread, is_problem, running

TOKENS = [
    Token("crawler", "reader", "a-long-token-of-the-crawler"),
    Token("anna", "reviewer", "annas-word"),
    Token("boss", "admin", "the-token-of-the-boss-himself"),
]


@pytest.fixture(scope="module")
def server(built: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = shutil.copytree(built, tmp_path_factory.mktemp("roles") / "all.visil")
    log = str(Path(folder).parent / "requests.log")
    with running(Path(folder), root, tokens=TOKENS, proxies=["127.0.0.1"], access_log=log) as server:
        yield server


def call(server: Running, name: str, method: str, path: str, **more: object) -> httpx.Response:
    """A call with the token of that name, and nothing else that a browser would send."""
    (secret,) = (token.secret for token in TOKENS if token.name == name)
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx.request(method, f"{server.url}{path}", headers=headers, timeout=60, **more)  # type: ignore[arg-type]


def test_a_role_may_do_what_it_is_for(server: Running, root: Path) -> None:
    videos = call(server, "crawler", "GET", "/api/v1/videos?state=ready").json()["videos"]
    a, b = videos[0]["id"], videos[1]["id"]
    said = {"a": a, "b": b, "verdict": "different"}
    refused = call(server, "crawler", "PUT", "/api/v1/judgements", json=said)
    is_problem(refused, 403, "role reviewer", "crawler")
    assert call(server, "anna", "PUT", "/api/v1/judgements", json=said).json()["verdict"] == "different"
    is_problem(call(server, "anna", "POST", "/api/v1/add", json={"path": str(root)}), 403, "role admin")
    is_problem(call(server, "anna", "GET", "/api/v1/audit"), 403, "role admin")
    assert call(server, "crawler", "GET", "/api/session").json()["role"] == "reader"

    found = call(server, "boss", "GET", "/api/v1/audit?action=judgements").json()
    assert found["total"] == 1  # what was refused never got so far
    (entry,) = found["entries"]
    assert (entry["who"], entry["role"], entry["action"]) == ("anna", "reviewer", "PUT /api/judgements")
    assert (entry["said"], entry["status"]) == (said, 200)
    assert entry["at"].endswith("Z")
    log = map(json.loads, (server.folder.parent / "requests.log").read_text().splitlines())
    assert [one["caller"] for one in log if one["status"] == 403] == ["crawler", "anna", "anna"]
    assert call(server, "boss", "GET", "/api/audit?who=anna&limit=1&offset=1").json()["entries"] == []


def test_jobs_belong_to_who_started_them(server: Running) -> None:
    video = call(server, "crawler", "GET", "/api/videos?state=ready").json()["videos"][0]["id"]
    job = call(server, "boss", "POST", "/api/search", json={"video": video}).json()["job"]
    assert job["caller"] == "boss"
    is_problem(call(server, "crawler", "DELETE", f"/api/jobs/{job['id']}"), 403, "someone else")
    page = call(server, "crawler", "GET", "/api/jobs?mine=true").json()
    assert (page["total"], page["jobs"]) == (0, [])
    page = call(server, "boss", "GET", "/api/jobs?mine=true&kind=search&limit=1").json()
    assert (page["total"], page["jobs"][0]["id"]) == (1, job["id"])


def test_wrong_tokens_are_limited_and_right_ones_are_taken_all_the_same(server: Running) -> None:
    def ask(secret: str, address: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {secret}", "X-Forwarded-For": address}
        return httpx.get(f"{server.url}/api/videos", headers=headers)

    wrong = [ask(f"guess-number-{n}", "203.0.113.7").status_code for n in range(11)]
    assert wrong == [401] * 11
    assert ask("a-long-token-of-the-crawler", "203.0.113.7").status_code == 200
    assert ask("annas-word", "203.0.113.7").status_code == 200  # a second later
    assert ask("guess", "198.51.100.1").status_code == 401
    is_problem(
        httpx.post(f"{server.url}/api/login", json={"token": "x"}, headers={"X-Visil": "1"}), 401, "not valid"
    )


def test_short_tokens_are_looked_at_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "GUESS_EVERY_S", 0.1)
    monkeypatch.setattr(callers, "GUESSES_WAITING", 5)

    async def scene(tokens: Tokens) -> list[object]:
        async def guess(given: str) -> object:
            try:
                return await tokens.find(given, "203.0.113.7")
            except Problem as problem:
                return problem.status

        for number in range(10):
            assert await guess(f"wrong-{number}") is None
        return await asyncio.gather(
            *(guess("wrong") for _ in range(4)), guess("annas-word"), guess("late"), guess("x")
        )

    assert in_a_thread(scene(Tokens(tuple(TOKENS), 30))) == [None, None, None, None, TOKENS[1], 429, 429]
    assert in_a_thread(scene(Tokens((TOKENS[0],), 30))) == [429] * 7
    assert (
        network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::1") != network_of("2001:db8:1:3::1")
    )


def test_every_call_has_the_role_it_should(shared: Running) -> None:
    said = shared.http.get("/api/openapi.json").json()
    calls = [(m.upper(), p.replace("/api/v1/", "/api/")) for p, ways in said["paths"].items() for m in ways]
    changing = {f"{m} {p}": role_needed(m, p) for m, p in calls if m != "GET" and p not in OPEN}
    readers = {name for name, role in changing.items() if role == "reader"}
    assert readers <= {
        *("POST /api/search", "POST /api/batches", "POST /api/compare", "POST /api/uploads"),
        *("DELETE /api/uploads/{upload}", "DELETE /api/jobs/{job}"),
    }
    assert {"POST /api/add", "DELETE /api/videos/{video}"} <= {n for n, r in changing.items() if r == "admin"}
    assert changing["PUT /api/judgements"] == "reviewer"


def test_what_was_logged_out_stays_so_over_a_restart(tmp_path: Path) -> None:
    cookie, other = new_session("secret"), new_session("secret")
    store = AccessStore(tmp_path / "access.sqlite", 1e9)
    store.log_out(cookie, 2**33)
    store.note("anna", "reviewer", "::1", "PUT /api/judgements", "not json", 200)
    store.close()
    store = AccessStore(tmp_path / "access.sqlite", -1.0)
    assert (store.logged_out(cookie), store.logged_out(other)) == (True, False)
    assert store.audit(0, 10)[1][0]["said"] is None
    store.note("anna", "reviewer", "::1", "PUT /api/judgements", "{}", 200)
    assert store.audit(0, 10) == (0, [])  # all are older than they are kept
    store.close()


def test_files_of_tokens(tmp_path: Path) -> None:
    assert read_tokens(" only-one-token\n") == [Token("token", "admin", "only-one-token")]
    text = "# who may ask\n\ncrawler reader a-long-token-of-the-crawler\nanna reviewer annas-word\n"
    assert read_tokens(text) == TOKENS[:2]
    for bad, words in (
        ("", "empty"),
        ("a reader", "NAME ROLE TOKEN"),
        ("a king long-enough", "no role"),
        ("ä reader long-enough", "no name"),
        ("a reader short", "8 characters"),
        ("a reader long-enough\na admin long-enough-too", "same name"),
        ("a reader long-enough\nb admin long-enough", "same secret"),
    ):
        with pytest.raises(UsageError, match=words):
            read_tokens(bad)
    with pytest.raises(UsageError, match="--proxy-headers"):
        settle(tmp_path / "i", proxies=["example.org"])
    assert settle(tmp_path / "i", proxies=["10.0.0.0/8"]).token is not None  # others may come through it


def test_how_the_server_is_may_be_asked_from_its_own_machine_or_with_a_token(server: Running) -> None:
    for place in ("healthz", "readyz", "metrics"):
        url, there = f"{server.url}/{place}", {"X-Forwarded-For": "203.0.113.9"}
        assert httpx.get(url).status_code == 200
        is_problem(httpx.get(url, headers=there), 401)
        there["Authorization"] = "Bearer a-long-token-of-the-crawler"
        assert httpx.get(url, headers=there).status_code == 200
