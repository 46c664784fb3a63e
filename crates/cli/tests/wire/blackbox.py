"""Drives a server from outside, over HTTP alone, as a program in any language would: every call of its document once with
success, and every refusal of a holder's verbs by its code. Takes the server's address; ends with 0 when all of it held.

Only the standard library is used, and nothing of the project but what the server says.
"""

import base64
import hashlib
import hmac
import http.client
import json
import re
import sys
import time
import uuid

HOST = sys.argv[1]
KIND = f"k{uuid.uuid4().hex[:8]}"
WRONG = "0" * 32
NOWHERE = "01890000-0000-7000-8000-000000000009"
PATIENCE = 120
called = set()
key = None


def call(method, path, body=None, headers=(), raw=None):
    """One request on a connection of its own: the status, the headers, and the body, read if it is JSON."""
    connection = http.client.HTTPConnection(HOST, timeout=PATIENCE)
    sent = {"content-type": "application/json", **dict(headers)}
    if key is not None:
        sent.setdefault("authorization", f"Bearer {key}")
    connection.request(method, path, raw if raw is not None else None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    kind = answer.headers.get("content-type", "")
    if answer.status < 300:
        called.add((method, path.split("?")[0]))
    return answer.status, answer.headers, json.loads(text) if "json" in kind else text.decode()


def ok(method, path, body=None, status=200, **more):
    got, _, answer = call(method, path, body, **more)
    assert got == status, f"{method} {path}: {got} {answer}"
    return answer


def refused(status, code, method, path, body=None, **more):
    got, headers, problem = call(method, path, body, **more)
    assert (got, problem.get("code")) == (status, code), f"{method} {path} {body}: {got} {problem}, not {status} {code}"
    assert headers["content-type"] == "application/problem+json" and problem["status"] == status
    assert problem["type"] == f"/errors/{code}" and problem["detail"] and problem["title"]
    assert ok("GET", problem["type"]).startswith(f"# {code}"), f"{code} has a page"
    return problem


def until(what, is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def enqueue(**more):
    return ok("POST", "/v1/jobs", {"kind": KIND, **more}, 201)["job"]["id"]


def hold(job, **more):
    return ok("POST", f"/v1/jobs/{job}/claim", {"worker_id": "w", **more})["job"]["lease"]["token"]


def held(**more):
    job = enqueue(**more)
    return job, hold(job)


def version(job):
    return ok("GET", f"/v1/jobs/{job}")["version"]


# Every verb that carries a lease: method, path behind the job's, body.
VERBS = [
    ("POST", "complete", {"result": {"n": 1}}),
    ("POST", "fail", {"error": "no"}),
    ("POST", "release", {}),
    ("POST", "wait", {"for": "signal", "name": "s"}),
    ("POST", "progress", {"progress": 50}),
    ("POST", "charge", {"units": 1}),
    ("POST", "logs", {"lines": ["a"]}),
    ("POST", "approvals", {"name": "a", "prompt": "?"}),
    ("POST", "events", {"type": "node_started"}),
    ("PUT", "steps/s", {"status": "finished", "value": 1}),
]


def verbs(job, token, status, code):
    """Every verb is refused so, also in a heartbeat and in a settle, and nothing is written."""
    before = None if code == "not_found" else version(job)
    for method, verb, body in VERBS:
        # Notes may be written to a finished job, but not under a lease that is no more.
        refused(status, code, method, f"/v1/jobs/{job}/{verb}", {"lease_token": token, **body})
    beat = {"worker_id": "w", "leases": [{"job_id": job, "token": token}]}
    answer = ok("POST", "/v1/heartbeat", beat)["leases"][0]
    assert (answer["ok"], answer["code"]) == (False, code), answer
    for outcome in ("complete", "fail", "release", "cancelled"):
        item = {"job_id": job, "lease_token": token, "outcome": outcome}
        answer = ok("POST", "/v1/settle", {"items": [item]})["items"][0]
        assert (answer["ok"], answer["code"]) == (False, code), answer
    assert before is None or version(job) == before, f"{code}: something was written"


def refusals_in_their_order():
    """Q6, J6: not found, finished, not leased, expired, mismatch; the first that holds is told."""
    verbs(NOWHERE, WRONG, 404, "not_found")
    job, token = held()
    verbs(job, WRONG, 409, "lease_mismatch")
    ok("POST", f"/v1/jobs/{job}/release", {"lease_token": token, "delay": "1h"})
    verbs(job, WRONG, 409, "not_leased")
    refused(409, "not_leased", "POST", f"/v1/jobs/{job}/complete", {"lease_token": token})
    job, token = held()
    ok("POST", f"/v1/jobs/{job}/complete", {"lease_token": token, "result": 7})
    verbs(job, WRONG, 409, "job_finished")
    assert ok("POST", f"/v1/jobs/{job}/complete", {"lease_token": token, "result": 7})["replayed"] is True
    job = enqueue()
    token = hold(job, lease="1s")
    beat = {"worker_id": "w", "extend": "1s", "leases": [{"job_id": job, "token": token}]}
    until("the lease is over", lambda: time.sleep(1.1) or not ok("POST", "/v1/heartbeat", beat)["leases"][0]["ok"])
    verbs(job, token, 409, "lease_expired")
    verbs(job, WRONG, 409, "lease_expired")
    assert hold(job) != token
    verbs(job, token, 409, "lease_mismatch")


def malformed_requests():
    for path in ("/v1/jobs/7", "/v1/jobs/7/events", "/v1/approvals/7"):
        refused(422, "invalid", "GET", path)
    refused(422, "invalid", "POST", "/v1/jobs/7/complete", {"lease_token": WRONG})
    refused(400, "malformed_json", "POST", "/v1/jobs", raw="{")
    refused(415, "unsupported_media_type", "POST", "/v1/jobs", {"kind": "a"}, headers={"content-type": "text/plain"})
    refused(422, "unknown_field", "POST", "/v1/jobs", {"kind": "a", "colour": "red"})
    refused(422, "unknown_field", "GET", "/v1/jobs?colour=red")
    for wrong in ({}, {"kind": 7}, {"kind": "a", "priority": "high"}, {"kind": "a", "priority": 6}, []):
        refused(422, "invalid", "POST", "/v1/jobs", wrong)
    for method, verb, body in VERBS:
        refused(404, "not_found", method, f"/v1/jobs/{NOWHERE}/{verb}", {"lease_token": "zz", **body})
    refused(413, "request_too_large", "POST", "/v1/jobs", headers={"content-length": str(17 << 20)}, raw="")
    refused(404, "route_not_found", "GET", "/v2/jobs")
    refused(405, "method_not_allowed", "DELETE", "/v1/jobs")
    refused(404, "not_found", "GET", f"/v1/jobs/{NOWHERE}")
    refused(422, "invalid", "GET", "/v1/jobs?cursor=nonsense")
    refused(422, "invalid", "GET", "/v1/jobs?limit=1001")
    refused(422, "invalid", "GET", "/v1/feed?after=nonsense")
    here = ok("GET", "/v1/feed", headers={"accept": "application/json"})["next_cursor"]
    elsewhere = here[:2] + "".join("1" if digit == "0" else "0" for digit in here[2:18]) + here[18:]
    refused(410, "cursor_expired", "GET", f"/v1/feed?after={elsewhere}")
    refused(404, "not_found", "GET", "/errors/none")


def enqueueing():
    once = {"kind": KIND, "payload": [1, {"a": None}], "unique": {"key": KIND}}
    named = {"idempotency-key": f"{KIND}-1"}
    first = ok("POST", "/v1/jobs", once, 201, headers=named)
    assert ok("POST", "/v1/jobs", once, 201, headers=named)["job"]["id"] == first["job"]["id"]
    refused(422, "idempotency_key_reused", "POST", "/v1/jobs", {"kind": "other"}, headers=named)
    again = ok("POST", "/v1/jobs", {**once, "payload": 2}, 200)
    assert again["existed"] and again["payload_differs"] and again["job"]["id"] == first["job"]["id"]
    own = {"kind": KIND, "id": "01890000-0000-7000-8000-" + uuid.uuid4().hex[:12], "payload": 1}
    ok("POST", "/v1/jobs", own, 201)
    assert ok("POST", "/v1/jobs", own, 200)["existed"]
    refused(409, "job_exists", "POST", "/v1/jobs", {**own, "payload": 2})
    refused(422, "parent_not_found", "POST", "/v1/jobs", {"kind": KIND, "parent_id": NOWHERE})
    many = ok("POST", "/v1/jobs/batch", {"jobs": [{"kind": KIND}] * 3}, 201)["results"]
    assert len({item["id"] for item in many}) == 3
    problem = refused(422, "invalid", "POST", "/v1/jobs/batch", {"jobs": [{"kind": KIND}, {"kind": "a b"}]})
    assert problem["index"] == 1
    page = ok("GET", f"/v1/jobs?kind={KIND}&limit=2")
    rest = ok("GET", f"/v1/jobs?kind={KIND}&limit=2&cursor={page['next_cursor']}")
    assert len(page["jobs"]) == 2 and not {j["id"] for j in page["jobs"]} & {j["id"] for j in rest["jobs"]}


def a_life():
    """Claimed with a wait, renewed, reported on, and completed; then read back."""
    queue = f"q-{KIND}"
    job = enqueue(queue=queue, payload={"n": 1}, max_retries=1)
    claim = {"queues": [queue], "worker_id": "w", "secret": uuid.uuid4().hex * 2, "wait": "30s", "max": 10}
    taken = ok("POST", "/v1/claim", claim)["jobs"]
    assert [j["id"] for j in taken] == [job] and taken[0]["payload"] == {"n": 1}
    token = taken[0]["lease"]["token"]
    assert ok("POST", "/v1/claim", claim)["jobs"][0]["lease"]["token"] == token, "a lost answer is given again"
    refused(409, "not_claimable", "POST", f"/v1/jobs/{job}/claim", {"worker_id": "other"})
    beat = ok("POST", "/v1/heartbeat", {"worker_id": "w", "leases": [{"job_id": job, "token": token}]})
    assert beat["leases"][0]["ok"] and not beat["leases"][0]["cancel_requested"]
    mine = {"lease_token": token}
    ok("POST", f"/v1/jobs/{job}/progress", {**mine, "progress": 50, "stage": "half", "checkpoint": {"at": 3}})
    refused(422, "invalid", "POST", f"/v1/jobs/{job}/progress", {**mine, "progress": 101})
    ok("POST", f"/v1/jobs/{job}/charge", {**mine, "units": 3})
    ok("POST", f"/v1/jobs/{job}/logs", {**mine, "lines": ["hello"]}, 201)
    assert ok("GET", f"/v1/jobs/{job}/logs")["lines"][0]["line"] == "hello"
    ok("PUT", f"/v1/jobs/{job}/steps/one", {**mine, "status": "finished", "value": 1})
    refused(409, "step_recorded", "PUT", f"/v1/jobs/{job}/steps/one", {**mine, "status": "finished", "value": 2})
    assert ok("GET", f"/v1/jobs/{job}/steps")["steps"][0]["value"] == 1
    failed = ok("POST", f"/v1/jobs/{job}/fail", {**mine, "error": {"code": "down", "message": "no answer"}, "delay": 0})
    assert failed["job"]["status"] == "retry" and failed["job"]["error"]["code"] == "down"
    token = hold(job)
    ok("POST", f"/v1/jobs/{job}/complete", {"lease_token": token, "result": {"sum": 6}})
    seen = ok("GET", f"/v1/jobs/{job}")
    assert (seen["status"], seen["result"], seen["attempt"], seen["checkpoint"]) == ("completed", {"sum": 6}, 2, {"at": 3})
    assert ok("GET", f"/v1/jobs/{job}?at_version=2")["status"] == "running"
    types = [e["type"] for e in ok("GET", f"/v1/jobs/{job}/events")["events"]]
    assert types[0] == "job_created" and types[-1] == "job_completed" and len(types) == seen["version"]
    refused(409, "job_finished", "POST", f"/v1/jobs/{job}/cancel", {})
    refused(409, "job_completed", "POST", f"/v1/jobs/{job}/redrive", {})
    told = ok("GET", f"/v1/jobs/{job}/feed?after=0", headers={"accept": "application/json"})
    assert [e["version"] for e in told["events"]] == list(range(1, seen["version"] + 1))


def notes():
    job = enqueue()
    path = f"/v1/jobs/{job}/events"
    note = {"type": "plan_generated", "payload": {"a": 1}, "key": "n1"}
    assert ok("POST", path, note, 201)["version"] == 2
    assert ok("POST", path, note, 200)["replayed"] is True
    assert refused(409, "version_mismatch", "POST", path, {"type": "note", "expected_version": 1})["current_version"] == 2
    assert ok("POST", path, {"type": "note", "expected_version": 2}, 201)["version"] == 3
    refused(422, "event_type_reserved", "POST", path, {"type": "job_completed"})
    refused(422, "lease_required", "POST", path, {"type": "tool_called"})
    refused(404, "not_found", "POST", f"/v1/jobs/{NOWHERE}/events", {"type": "note"})
    ok("POST", f"/v1/jobs/{job}/cancel", {"reason": "done with it"})
    assert ok("POST", path, {"type": "note"}, 201)["version"] == 5, "a finished job takes notes"
    refused(409, "job_finished", "POST", f"/v1/jobs/{job}/claim", {"worker_id": "w"})
    assert ok("GET", f"/v1/jobs/{job}")["status"] == "cancelled"


def waits_and_signals():
    job, token = held()
    signal = {"name": "go", "payload": 7, "key": "k"}
    ok("POST", f"/v1/jobs/{job}/wait", {"lease_token": token, "for": "signal", "name": "go"})
    refused(409, "not_claimable", "POST", f"/v1/jobs/{job}/claim", {"worker_id": "w"})
    assert ok("POST", f"/v1/jobs/{job}/signal", signal)["duplicate"] is False
    assert ok("POST", f"/v1/jobs/{job}/signal", signal)["duplicate"] is True
    refused(409, "key_reused", "POST", f"/v1/jobs/{job}/events", {"type": "note", "key": "k"})
    woken = ok("POST", f"/v1/jobs/{job}/claim", {"worker_id": "w"})["job"]
    assert (woken["wake"]["outcome"], woken["wake"]["payload"]) == ("signalled", 7)
    ok("POST", f"/v1/jobs/{job}/cancel", {}, 202)
    beat = {"worker_id": "w", "leases": [{"job_id": job, "token": woken["lease"]["token"]}]}
    assert ok("POST", "/v1/heartbeat", beat)["leases"][0]["cancel_requested"] is True
    item = {"job_id": job, "lease_token": woken["lease"]["token"], "outcome": "cancelled"}
    assert ok("POST", "/v1/settle", {"items": [item]})["items"][0]["status"] == "cancelled"
    refused(409, "job_finished", "POST", f"/v1/jobs/{job}/signal", {"name": "go"})
    refused(404, "not_found", "POST", f"/v1/jobs/{NOWHERE}/signal", {"name": "go"})


def approvals():
    def asked(**more):
        job, token = held()
        body = {"lease_token": token, "name": "ship", "prompt": "ship it?", **more}
        answer = ok("POST", f"/v1/jobs/{job}/approvals", body, 201)
        return job, token, body, answer["approval"]["id"], answer["token"]

    job, token, body, approval, old = asked()
    fresh = ok("POST", f"/v1/jobs/{job}/approvals", body, 201)
    link = fresh["token"]
    assert fresh["link"] == f"/approve#{approval}.{link}"
    assert ok("POST", "/v1/approvals/by-token", {"token": f"{approval}.{link}"})["prompt"] == "ship it?"
    refused(403, "approval_forbidden", "POST", "/v1/approvals/by-token", {"token": f"{approval}.{old}"})
    waiting = ok("POST", f"/v1/jobs/{job}/wait", {"lease_token": token, "for": "approval", "name": "ship"})
    assert waiting["job"]["waiting_for"] == "approval"
    path = f"/v1/approvals/{approval}/decide"
    refused(403, "approval_forbidden", "POST", path, {"decision": "approve", "token": old})
    refused(422, "token_malformed", "POST", path, {"decision": "approve", "token": "short"})
    refused(404, "approval_not_found", "POST", f"/v1/approvals/{NOWHERE}/decide", {"decision": "deny", "token": link})
    refused(404, "approval_not_found", "GET", f"/v1/approvals/{NOWHERE}")
    assert ok("POST", path, {"decision": "approve", "token": link})["status"] == "approved"
    refused(409, "approval_decided", "POST", path, {"decision": "deny"})
    assert ok("GET", f"/v1/approvals/{approval}")["status"] == "approved"
    assert ok("POST", f"/v1/jobs/{job}/claim", {"worker_id": "w"})["job"]["wake"]["outcome"] == "approved"
    job, token, _, approval, _ = asked()
    ok("POST", f"/v1/jobs/{job}/wait", {"lease_token": token, "for": "approval", "name": "ship"})
    ok("POST", f"/v1/approvals/{approval}/decide", {"decision": "deny", "reason": "no"})
    dead = ok("GET", f"/v1/jobs/{job}")
    assert (dead["status"], dead["error"]["code"], dead["error"]["message"]) == ("failed", "approval_denied", "no")
    _, _, _, approval, _ = asked(expires=0.05)
    time.sleep(0.2)
    refused(410, "approval_expired", "POST", f"/v1/approvals/{approval}/decide", {"decision": "approve"})
    _, _, _, approval, _ = asked(approvers=["boss"])
    refused(403, "approval_forbidden", "POST", f"/v1/approvals/{approval}/decide", {"decision": "approve"})
    assert any(a["id"] == approval for a in ok("GET", "/v1/approvals?status=pending&limit=1000")["approvals"])


def operating():
    job, token = held(queue="ops", unique={"key": f"u-{KIND}", "policy": "active"})
    refused(409, "job_not_finished", "POST", f"/v1/jobs/{job}/redrive", {})
    ok("POST", f"/v1/jobs/{job}/fail", {"lease_token": token, "error": "broken", "permanent": True})
    other = enqueue(queue="ops", unique={"key": f"u-{KIND}", "policy": "active"})
    assert refused(409, "unique_taken", "POST", f"/v1/jobs/{job}/redrive", {})["job_id"] == other
    ok("POST", f"/v1/jobs/{other}/cancel", {})
    redriven = ok("POST", f"/v1/jobs/{job}/redrive", {"payload": {"mended": 1.50}})["job"]
    assert (redriven["generation"], redriven["payload"]) == (1, {"mended": 1.50}), redriven
    assert ok("POST", f"/v1/jobs/{job}/fork", {"payload": 2}, 201)["job"]["id"] != job
    refused(409, "job_not_finished", "DELETE", f"/v1/jobs/{job}/payload")
    wish = {"filter": {"queue": "ops", "kind": KIND}, "action": "cancel"}
    assert ok("POST", "/v1/bulk", {**wish, "dry_run": True})["done"] == 0
    assert ok("POST", "/v1/bulk", {**wish, "dry_run": False})["done"] == 2
    held_back = ok("POST", "/v1/bulk", {**wish, "dry_run": False, "hold": "1h"}, 202)
    assert ok("GET", f"/v1/operations/{held_back['id']}")["phase"] == "held"
    assert ok("POST", f"/v1/operations/{held_back['id']}/stop")["phase"] == "stopped"
    assert ok("GET", "/v1/operations")["operations"]
    assert ok("GET", "/v1/calendar?to=1h")["complete"]
    ok("PUT", "/v1/views/ops", {"filter": {"queue": "ops"}})
    assert any(view["name"] == "ops" for view in ok("GET", "/v1/views")["views"])
    ok("DELETE", "/v1/views/ops")
    ok("PUT", "/v1/alerts/late", {"metric": "oldest_due", "queue": "ops", "longer_than": "10m"})
    assert any(alert["name"] == "late" for alert in ok("GET", "/v1/alerts")["alerts"])
    ok("DELETE", "/v1/alerts/late")
    mark = ok("POST", "/v1/marks", {"text": "deploy"}, 201)
    assert mark in ok("GET", "/v1/marks")["marks"]
    ok("DELETE", f"/v1/marks/{mark['id']}")
    assert ok("DELETE", f"/v1/jobs/{job}/payload")["erased"]
    assert ok("DELETE", f"/v1/jobs/{job}/payload")["replayed"]
    erased = ok("GET", f"/v1/jobs/{job}")
    assert (erased["erased"], erased["payload"]) == (True, None), erased
    refused(409, "job_erased", "POST", f"/v1/jobs/{job}/redrive", {})
    ok("PUT", "/v1/queues/ops", {"max_retries": 2})
    assert ok("POST", "/v1/queues/ops/pause")["queue"]["paused"]
    assert ok("POST", "/v1/queues/ops/resume")["queue"].get("paused") is None
    assert any(queue["name"] == "ops" for queue in ok("GET", "/v1/queues")["queues"])
    assert ok("GET", "/v1/queues/ops/lanes") == {"lanes": [], "next_cursor": None}
    assert ok("POST", "/v1/queues/ops/lanes/release", {"key": "acme"}) == {"released": False}
    ok("PUT", "/v1/workers/w", {"queues": ["ops"]})
    assert any(worker["id"] == "w" for worker in ok("GET", "/v1/workers")["workers"])
    refused(404, "not_found", "PUT", f"/v1/workers/{KIND}", {"draining": True})
    assert ok("GET", "/v1/audit")["entries"]


def watching():
    begun = ok("GET", "/v1/feed", headers={"accept": "application/json"})["next_cursor"]
    job = enqueue()
    page = ok("GET", f"/v1/feed?after={begun}&wait=30s&kind={KIND}", headers={"accept": "application/json"})
    assert page["events"][0]["job_id"] == job
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/", "/approve", "/errors/invalid"):
        ok("GET", path)
    style = next(part for part in ok("GET", "/").split('"') if part.endswith("/page.css"))
    assert style.startswith("static/"), style
    ok("GET", f"/{style}")


def keys():
    """Last, for the first key closes the door."""
    global key
    refused(404, "not_found", "DELETE", "/v1/keys/none")
    ok("GET", "/v1/session")
    made = ok("POST", "/v1/keys", {"name": KIND, "roles": ["admin"]}, 201)
    refused(401, "unauthorized", "GET", "/v1/jobs")
    refused(401, "unauthorized", "GET", "/v1/jobs", headers={"authorization": "Bearer wl_wrong"})
    key = made["secret"]
    refused(409, "key_exists", "POST", "/v1/keys", {"name": KIND, "roles": ["admin"]})
    looker = ok("POST", "/v1/keys", {"name": f"{KIND}-v", "roles": ["viewer"], "queues": ["ops"]}, 201)["secret"]
    refused(403, "forbidden", "POST", "/v1/jobs", {"kind": "a"}, headers={"authorization": f"Bearer {looker}"})
    refused(403, "queue_forbidden", "GET", "/v1/jobs?queue=q", headers={"authorization": f"Bearer {looker}"})
    assert ok("POST", "/v1/session", {"key": key}, 201)["name"] == KIND
    ok("DELETE", "/v1/session", status=204)
    assert len(ok("GET", "/v1/keys")["keys"]) == 2
    ok("DELETE", f"/v1/keys/{KIND}-v")
    refused(401, "unauthorized", "GET", "/v1/jobs", headers={"authorization": f"Bearer {looker}"})


def schedules():
    """A schedule is made, looked at, triggered, paused, resumed and removed; its jobs stay."""
    path = f"/v1/schedules/{KIND}"
    refused(404, "schedule_not_found", "GET", path)
    wish = {"cron": "0 3 * * *", "job": {"kind": KIND, "queue": "scheduled"}}
    assert len(ok("POST", f"{path}/preview?n=2", wish)["next"]) == 2
    refused(404, "schedule_not_found", "GET", path)
    made = ok("PUT", path, wish)
    assert made["name"] == KIND and made["timezone"] == "UTC" and made["next_at"]
    assert ok("GET", path)["cron"] == "0 3 * * *"
    assert [one["name"] for one in ok("GET", "/v1/schedules")["schedules"]].count(KIND) == 1
    assert len(ok("GET", f"{path}/next?n=3")["next"]) == 3
    ok("POST", f"{path}/trigger", status=201)
    assert len(ok("GET", f"/v1/jobs?queue=scheduled&kind={KIND}")["jobs"]) == 1
    assert ok("POST", f"{path}/pause")["paused"]["by"]
    assert ok("POST", f"{path}/resume").get("paused") is None
    future = {"from": "2099-01-01T00:00:00Z", "to": "2099-01-02T00:00:00Z"}
    refused(422, "invalid", "POST", f"{path}/backfill", future)
    two_days = {"from": "-49h", "to": "-1h"}
    slots = ok("POST", f"{path}/backfill", {**two_days, "dry_run": True})["slots"]
    assert len(slots) == 2 and not any(slot["existed"] or slot["job"] for slot in slots)
    slots = ok("POST", f"{path}/backfill", two_days, status=201)["slots"]
    again = ok("POST", f"{path}/backfill", two_days, status=201)["slots"]
    assert [slot["job"] for slot in slots] == [slot["job"] for slot in again] and all(slot["existed"] for slot in again)
    file = {KIND: {"cron": "0 4 * * *", "job": {"kind": KIND, "queue": "scheduled"}}}
    shown = ok("PUT", "/v1/schedules", {"schedules": file, "dry_run": True})["changes"]
    assert [(one["name"], one["change"]) for one in shown] == [(KIND, "changed")]
    assert ok("GET", path)["cron"] == "0 3 * * *"
    ok("DELETE", path)
    refused(404, "schedule_not_found", "GET", path)
    assert len(ok("GET", f"/v1/jobs?queue=scheduled&kind={KIND}")["jobs"]) == 3
    ok("GET", "/v1/leader")


def triggers():
    """An event starts its jobs once; a webhook must be signed; what does not fit is kept."""
    path = f"/v1/triggers/{KIND}"
    refused(404, "trigger_not_found", "GET", path)
    jobs = [{"kind": KIND, "queue": "triggered"}, {"kind": KIND, "queue": "triggered", "payload": {"n": "{{payload.n}}"}}]
    made = ok("PUT", path, {"jobs": jobs})
    assert made["version"] == 1 and not made["signed"] and made["webhook"] == f"/v1/webhooks/{KIND}"
    assert [one["name"] for one in ok("GET", "/v1/triggers")["triggers"]].count(KIND) == 1
    assert ok("GET", path)["jobs"][1]["payload"] == {"n": "{{payload.n}}"}
    refused(422, "invalid", "PUT", path, {"jobs": [{"kind": KIND, "payload": "{{nothing}}"}]})
    event = {"dedupe_key": "e-1", "payload": {"n": 7}}
    fired = ok("POST", path, event, status=201)
    assert len(fired["jobs"]) == 2 and not fired["deduped"]
    assert ok("GET", f"/v1/jobs/{fired['jobs'][1]}")["payload"] == {"n": 7}
    again = ok("POST", path, event)
    assert again["deduped"] and again["jobs"] == fired["jobs"] and not again["payload_differs"]
    kept = ok("POST", path, {"payload": {}}, status=202)
    assert kept["jobs"] == [] and "{{payload.n}}" in kept["problem"]
    unprocessed = ok("GET", f"{path}/events?unprocessed=true")["events"]
    assert [one["id"] for one in unprocessed] == [kept["event"]]
    assert len(ok("GET", f"{path}/events")["events"]) == 2

    secret = ok("POST", f"{path}/secret", status=201)["secret"]
    assert ok("GET", path)["signed"] and secret not in json.dumps(ok("GET", path))
    body = json.dumps({"n": 8}).encode()

    def webhook(key, at):
        key = base64.b64decode(key.removeprefix("whsec_"))
        mac = hmac.new(key, f"msg-1.{at}.".encode() + body, hashlib.sha256).digest()
        return {"webhook-id": "msg-1", "webhook-timestamp": str(at),
                "webhook-signature": "v1,AAAA v1," + base64.b64encode(mac).decode()}

    hook, now = f"/v1/webhooks/{KIND}", int(time.time())
    wrong = "whsec_" + base64.b64encode(b"x" * 32).decode()
    for headers in ({}, webhook(wrong, now), webhook(secret, now - 400), webhook(secret, now + 400)):
        refused(401, "signature_refused", "POST", hook, {"n": 8}, headers=headers)
    taken = ok("POST", hook, {"n": 8}, headers=webhook(secret, now))
    assert not taken["deduped"] and ok("POST", hook, {"n": 8}, headers=webhook(secret, now))["deduped"]
    ok("DELETE", path)
    refused(404, "trigger_not_found", "POST", path, event)


def subscriptions():
    """A subscription is made with a secret that is shown once, paused, resumed and removed."""
    path = f"/v1/subscriptions/{KIND}"
    refused(404, "subscription_not_found", "GET", path)
    body = {"url": "http://127.0.0.1:9/hook", "queues": [f"none-{KIND}"], "types": ["job_created"]}
    secret = ok("PUT", path, body)["secret"]
    assert secret.startswith("whsec_") and secret not in json.dumps(ok("GET", path))
    refused(422, "invalid", "PUT", path, {"url": "http://user:password@127.0.0.1/"})
    paused = ok("POST", f"{path}/pause", {"reason": "a test"})
    assert paused["status"] == "paused" and paused["why"] == "a test"
    assert ok("POST", f"{path}/resume")["status"] == "on"
    assert [one["name"] for one in ok("GET", "/v1/subscriptions")["subscriptions"]].count(KIND) == 1
    ok("DELETE", path)
    refused(404, "subscription_not_found", "DELETE", path)


def settings():
    """Settings change as a whole, under a version, on record."""
    state = ok("GET", "/v1/settings")
    change = {**state["settings"], "webhooks_per_minute": 601}
    put = {"settings": change, "expected_version": state["version"]}
    assert ok("PUT", "/v1/settings", put)["version"] == state["version"] + 1
    change["webhooks_per_minute"] = 602
    refused(409, "version_mismatch", "PUT", "/v1/settings", put)
    change["missed_max"] = 0
    refused(422, "invalid", "PUT", "/v1/settings", {"settings": change, "expected_version": state["version"] + 1})
    refused(422, "unknown_field", "PUT", "/v1/settings", {"settings": {"speed": 9}, "expected_version": 0})
    entry = ok("GET", "/v1/audit?action=settings.put")["entries"][0]
    assert entry["detail"]["after"]["webhooks_per_minute"] == 601


def pushing():
    """A job of a push queue is taken by nobody, assigned to a worker whose labels match, and started by that one."""
    queue = f"push-{KIND}"
    assert ok("PUT", f"/v1/queues/{queue}", {"mode": "push"})["queue"]["mode"] == "push"
    assert ok("PUT", f"/v1/queues/{queue}", {"max_retries": 1})["queue"]["mode"] == "push", "it stays as it is"
    refused(422, "invalid", "PUT", f"/v1/queues/{queue}", {"mode": "shove"})
    report = {"queues": [queue], "capacity": 2, "slots": {queue: 1}, "ttl": "10m"}
    ok("PUT", f"/v1/workers/{KIND}-a", {**report, "labels": {"gpu": "a100"}})
    ok("PUT", f"/v1/workers/{KIND}-b", {**report, "labels": {"gpu": "h100"}})
    job = ok("POST", "/v1/jobs", {"kind": KIND, "queue": queue, "requires": {"gpu": "h100"}}, 201)["job"]["id"]
    refused(422, "invalid", "POST", "/v1/jobs", {"kind": KIND, "requires": {"not a name": "x"}})
    until("it is assigned", lambda: ok("GET", f"/v1/jobs/{job}")["status"] == "assigned")
    shown = ok("GET", f"/v1/jobs/{job}")
    assigned = shown["assigned"]
    assert assigned["worker_id"] == f"{KIND}-b" and shown["requires"] == {"gpu": "h100"}, shown
    start = {"worker_id": f"{KIND}-b", "assignment": assigned["assignment"], "epoch": assigned["epoch"]}
    refused(409, "not_assigned", "POST", f"/v1/jobs/{job}/start", {**start, "worker_id": f"{KIND}-a"})
    refused(409, "not_assigned", "POST", f"/v1/jobs/{job}/start", {**start, "epoch": assigned["epoch"] + 1})
    refused(409, "not_claimable", "POST", f"/v1/jobs/{job}/claim", {"worker_id": f"{KIND}-b"})
    assert ok("POST", "/v1/claim", {"queues": [queue], "worker_id": f"{KIND}-a"})["jobs"] == []
    token = ok("POST", f"/v1/jobs/{job}/start", start)["job"]["lease"]["token"]
    ok("POST", f"/v1/jobs/{job}/complete", {"lease_token": token})
    refused(409, "job_finished", "POST", f"/v1/jobs/{job}/start", start)
    other = ok("POST", "/v1/jobs", {"kind": KIND, "queue": queue, "requires": {"gpu": "a100"}}, 201)["job"]["id"]
    claim = {"queues": [queue], "worker_id": f"{KIND}-a", "wait": "60s"}
    taken = ok("POST", "/v1/claim", claim)["jobs"]
    assert [one["id"] for one in taken] == [other], "a claim starts what its worker was assigned"
    ok("POST", f"/v1/jobs/{other}/complete", {"lease_token": taken[0]["lease"]["token"]})


def stats_and_problems():
    """What fails is counted and grouped; a problem is resolved, and the list of jobs is narrowed to it."""
    for n in (17, 4711):
        id = ok("POST", "/v1/jobs", {"kind": "sick-" + KIND, "queue": "sick", "max_retries": 0}, status=201)["job"]["id"]
        held = ok("POST", f"/v1/jobs/{id}/claim", {"worker_id": "w"})["job"]
        error = {"code": "smtp", "message": f"order {n} was lost"}
        ok("POST", f"/v1/jobs/{id}/fail", {"lease_token": held["lease"]["token"], "error": error})
    until = time.monotonic() + 60
    while True:
        found = ok("GET", f"/v1/problems?kind=sick-{KIND}")["problems"]
        if found and found[0]["errors"] == 2:
            break
        assert time.monotonic() < until, f"the errors are no problem yet: {found}"
        time.sleep(0.2)
    assert len(found) == 1 and found[0]["message"] == "order # was lost" and found[0]["state"] == "open", found
    path = f"/v1/problems/{found[0]['fingerprint']}"
    assert ok("GET", path)["dead"] == 2
    assert ok("PUT", path, {"state": "resolved"})["state"] == "resolved"
    refused(404, "problem_not_found", "GET", "/v1/problems/0123456789abcdef")
    assert len(ok("GET", f"/v1/jobs?problem={found[0]['fingerprint']}")["jobs"]) == 2
    series = ok("GET", f"/v1/stats?from=-10m&by=kind&queue=sick")["series"]
    counts = [point["counts"] for one in series if one["kind"] == "sick-" + KIND for point in one["points"]]
    assert sum(one.get("failed", 0) for one in counts) == 2, series
    assert ok("GET", "/v1/now")["statuses"]["failed"]["count"] >= 2
    assert ok("POST", "/v1/stats/rebuild", {}, status=202)["since"] is None


def finish(job, verb="complete", **more):
    ok("POST", f"/v1/jobs/{job}/{verb}", {"lease_token": hold(job), **more})


def status(job):
    return ok("GET", f"/v1/jobs/{job}")["status"]


def flows():
    """Jobs run after those they wait for; what its condition rules out is skipped; a flow ends with its last job."""
    node = {"kind": KIND}
    nodes = {"fetch": node, "parse": {**node, "after": {"fetch": "success"}},
             "alert": {**node, "after": {"parse": "failure"}}}
    refused(422, "invalid", "POST", "/v1/flows", {"nodes": {"a": {**node, "after": {"b": "success"}},
                                                            "b": {**node, "after": {"a": "success"}}}})
    made = ok("POST", "/v1/flows", {"nodes": nodes, "open": True}, 201)
    flow, at = made["id"], made["nodes"]
    assert status(at["parse"]) == "waiting"
    finish(at["fetch"], result={"words": 3})
    found = ok("GET", f"/v1/jobs/{at['parse']}/upstream")["upstream"]
    assert [(one["name"], one["status"], one["result"]) for one in found] == [("fetch", "completed", {"words": 3})]
    finish(at["parse"])
    skipped = ok("GET", f"/v1/jobs/{at['alert']}")
    assert (skipped["status"], skipped["error"]["code"]) == ("cancelled", "skipped"), skipped
    graph = ok("GET", f"/v1/jobs/{flow}/graph")
    assert {(edge["from"], edge["to"], edge["on"]) for edge in graph["edges"]} == {
        (at["fetch"], at["parse"], "success"), (at["parse"], at["alert"], "failure")}
    more = ok("POST", f"/v1/jobs/{flow}/children", {"nodes": {"late": node}}, 201)["nodes"]["late"]
    assert status(flow) == "waiting"
    ok("POST", f"/v1/jobs/{flow}/seal")
    refused(409, "flow_not_open", "POST", f"/v1/jobs/{flow}/children", {"nodes": {"too": node}})
    finish(more)
    assert status(flow) == "completed"


def limits():
    """No more jobs of a key run at once than its queue allows, and the job says what it stands behind."""
    queue = f"q-{KIND}"
    refused(422, "invalid", "PUT", f"/v1/queues/{queue}", {"flow": {"concurrency": 0}})
    ok("PUT", f"/v1/queues/{queue}", {"flow": {"lanes": {"concurrency": 1}}})
    jobs = [enqueue(queue=queue, key=key) for key in ("ann", "ann", "bob")]
    body = {"queues": [queue], "worker_id": "w", "max": 10}
    taken = ok("POST", "/v1/claim", body)["jobs"]
    assert sorted(job["id"] for job in taken) == sorted([jobs[0], jobs[2]]), taken
    assert ok("GET", f"/v1/jobs/{jobs[1]}")["blocked"]["reason"] == "limit"
    first = next(job for job in taken if job["id"] == jobs[0])
    ok("POST", f"/v1/jobs/{jobs[0]}/complete", {"lease_token": first["lease"]["token"]})
    assert [job["id"] for job in ok("POST", "/v1/claim", body)["jobs"]] == [jobs[1]]


def everything_was_called():
    """Every operation of the document was called here with success."""
    left = set()
    for path, item in ok("GET", "/openapi.json")["paths"].items():
        pattern = re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path) + "$")
        for method in item:
            if not any(m == method.upper() and pattern.match(p) for m, p in called):
                left.add(f"{method.upper()} {path}")
    assert not left, f"never called with success: {sorted(left)}"


PARTS = [
    malformed_requests, enqueueing, a_life, notes, refusals_in_their_order, waits_and_signals, approvals, operating,
    watching, schedules, triggers, subscriptions, settings, pushing, flows, limits,
    stats_and_problems, keys,
    everything_was_called,
]
for part in PARTS:
    began = time.monotonic()
    part()
    print(f"{part.__name__}: held, {time.monotonic() - began:.1f} s", flush=True)
