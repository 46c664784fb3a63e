# A web service that checks signatures, answers in every way, settles later by the lease, hangs, and dies after it did the work.
# Arguments: port, secret, a file for what was done, and the server if jobs do not name it.
import base64, hmac, http.server, json, os, sys, threading, time, urllib.request

PORT, SECRET, DONE = int(sys.argv[1]), base64.b64decode(sys.argv[2].removeprefix("whsec_")), sys.argv[3]
lock, busy, most = threading.Lock(), 0, 0


def settle(job):
    server = job.get("server") or sys.argv[4]
    request = urllib.request.Request(
        f"{server}/v1/jobs/{job['id']}/complete", json.dumps({"result": {"late": True}}).encode(),
        {"authorization": f"Bearer {job['lease_token']}", "content-type": "application/json"})
    urllib.request.urlopen(request).read()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body="", **headers):
        body = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *words):
        pass

    # The most slow jobs that were here at once.
    def do_GET(self):
        self.answer(200, most)

    def do_POST(self):
        global busy, most
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.digest(SECRET, signed, "sha256")).decode()
        if not hmac.compare_digest(expected, self.headers["webhook-signature"]):
            return self.answer(401, "the signature is wrong")
        job = json.loads(body)["data"]
        assert self.headers["webhook-id"] == f"{job['id']}.{job['attempt']}"
        kind = job["kind"]
        if kind == "sum":
            self.answer(200, {"sum": sum(job["payload"]), "trace": self.headers.get("traceparent")})
        elif kind == "text":
            self.answer(200, "done, more or less")
        elif kind == "whose":
            self.answer(200, job["key"])
        elif kind == "nothing":
            self.answer(204)
        elif kind == "slow":
            with lock:
                busy += 1
                most = max(most, busy)
            time.sleep(0.3)
            with lock:
                busy -= 1
            self.answer(200, "slow")
        elif kind == "later":
            if job["attempt"] == 1:
                self.answer(429, "not now", Retry_After="1")
            else:
                self.answer(200, {"attempt": job["attempt"]})
        elif kind == "bad":
            self.answer(422, "no such address")
        elif kind == "moved":
            self.answer(302, Location="/elsewhere")
        elif kind == "broken":
            self.answer(500, "oh dear")
        elif kind == "accept":
            self.answer(202)
            threading.Timer(0.5, settle, [job]).start()
        elif kind == "hangs":
            time.sleep(3600)
        elif kind == "dies":
            # The work is done once, however often it is asked for; then the power goes.
            with open(DONE, "a+") as done:
                done.seek(0)
                if job["id"] not in done.read():
                    done.write(job["id"] + "\n")
                    done.flush()
                    os._exit(1)
            self.answer(200, {"attempt": job["attempt"]})


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
