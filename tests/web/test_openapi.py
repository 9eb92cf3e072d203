"""Every call of the OpenAPI description, asked with made-up arguments: it answers as described, and never breaks."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from .conftest import Running


def test_every_call_answers_as_described(shared: Running) -> None:
    import schemathesis  # half a second, which all processes would pay when they collect the tests
    from schemathesis import checks
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi import checks as openapi_checks

    expected = [
        checks.not_a_server_error,
        openapi_checks.status_code_conformance,
        openapi_checks.content_type_conformance,
        openapi_checks.response_schema_conformance,
    ]
    api = schemathesis.openapi.from_url(f"{shared.url}/api/openapi.json")
    asked = 0
    for found in api.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            max_examples=3,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(headers={"X-Visil": "1"}, timeout=30, checks=expected)

        ask()
        asked += 1
    assert asked >= 30
    for job in shared.client.jobs(200):
        if job["state"] in ("waiting", "running"):
            shared.client.cancel(job["id"])


def test_every_call_is_described(shared: Running) -> None:
    said = shared.http.get("/api/openapi.json").json()
    assert all(path.startswith("/api/v1/") for path in said["paths"])
    calls = {
        f"{method.upper()} {path.replace('/api/v1/', '/api/')}"
        for path, ways in said["paths"].items()
        for method in ways
    }
    assert calls == {
        *("GET /api/folders", "GET /api/files/stream", "GET /api/files/thumbnail"),
        *("GET /api/session", "POST /api/login", "POST /api/logout", "GET /api/audit"),
        *("POST /api/videos/remove", "POST /api/videos/retry", "POST /api/uploads/{upload}/add"),
        *("GET /api/videos", "GET /api/videos/{video}", "DELETE /api/videos/{video}"),
        *("GET /api/videos/{video}/thumbnail", "GET /api/videos/{video}/stream"),
        *("GET /api/videos/{video}/frames.jpg", "POST /api/uploads", "DELETE /api/uploads/{upload}"),
        *("GET /api/uploads/{upload}/stream", "GET /api/uploads/{upload}/thumbnail"),
        *("POST /api/search", "POST /api/compare", "POST /api/add", "POST /api/duplicates"),
        *("GET /api/duplicates", "GET /api/duplicates/export", "GET /api/review"),
        *("PUT /api/review/decisions", "POST /api/review/accept", "POST /api/review/undo"),
        *("GET /api/comparisons/{comparison}/{matrix}.png", "GET /api/comparisons/{comparison}/{matrix}.bin"),
        *("GET /api/comparisons/{comparison}/attention.png", "GET /api/judgements", "PUT /api/judgements"),
        *("GET /api/comparisons/{comparison}", "GET /api/comparisons/{comparison}/report.html"),
        *("PUT /api/comparisons/{comparison}/keep", "DELETE /api/comparisons/{comparison}/keep"),
        *(
            "GET /api/comparisons/{comparison}/stretches.{form}",
            "GET /api/comparisons/{comparison}/{side}.mp4",
        ),
        *("GET /api/comparisons/{comparison}/thumbnail", "GET /api/videos/{video}/small.mp4"),
        *("GET /api/uploads/{upload}/small.mp4", "GET /api/files/small.mp4"),
        *("GET /api/jobs", "GET /api/jobs/{job}", "DELETE /api/jobs/{job}", "GET /api/jobs/{job}/events"),
        *("POST /api/batches", "GET /api/jobs/{job}/results", "GET /api/banks", "POST /api/banks"),
        *("GET /api/banks/{bank}", "PATCH /api/banks/{bank}", "DELETE /api/banks/{bank}"),
        *("GET /api/banks/{bank}/references", "POST /api/banks/{bank}/references"),
        *("PATCH /api/banks/{bank}/references/{video}", "DELETE /api/banks/{bank}/references/{video}"),
    }
    bodies = [
        way["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        for ways in said["paths"].values()
        for way in ways.values()
        if "application/json" in way.get("requestBody", {}).get("content", {})
    ]
    without = [name for name in bodies if not said["components"]["schemas"][name].get("examples")]
    assert without == []
