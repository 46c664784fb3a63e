"""A worker over plain HTTP, with nothing but Python's standard library. Runs orders: pack, charge, ask a person, ship.

Kill it whenever you like and start it again: what is on record is not done twice, and a job that waits holds no worker.
    WINDLASS_URL=http://127.0.0.1:7070 python3 examples/python_worker.py
"""
import json, os, secrets, threading, time, urllib.error, urllib.request, uuid

URL = os.environ.get("WINDLASS_URL", "http://127.0.0.1:7070")
HEADERS = {"content-type": "application/json"}
if "WINDLASS_KEY" in os.environ:
    HEADERS["authorization"] = f"Bearer {os.environ['WINDLASS_KEY']}"
WORKER = f"python-{uuid.uuid4()}"  # fresh for every start
LEASE = float(os.environ.get("WINDLASS_LEASE", 30))  # seconds

class Refused(Exception):
    """The server said no: `code` says why. For a worker that means: leave this job alone."""

class Waiting(Exception):
    """The job waits and is not ours any more."""

def call(method, path, body):
    """Sends a request until it is answered. Every call here may be repeated: a repeat does nothing twice."""
    while True:
        try:
            request = urllib.request.Request(URL + path, json.dumps(body).encode() if body else None, HEADERS, method=method)
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                problem = json.load(error)
                raise Refused(problem["code"], problem["detail"])
        except OSError:
            pass  # the server is away, or its answer was lost
        time.sleep(1)

class Run:
    """One attempt at one job."""

    def __init__(self, job):
        self.job, self.path, self.done = job, f"/v1/jobs/{job['id']}", threading.Event()
        self.token = job["lease"]["token"]
        record = call("GET", f"{self.path}/steps", None)
        self.steps = {step["name"]: step.get("value") for step in record["steps"] if step["status"] == "finished"}
        self.waits = {wait.get("name") for wait in record["waits"]}

    def send(self, method, verb, **body):
        return call(method, f"{self.path}/{verb}", {"lease_token": self.token, **body})

    def end(self, verb, **body):
        """Ends this attempt. A renewal on its way may be refused because of that, and knows."""
        self.done.set()
        self.send("POST", verb, **body)

    def step(self, name, act):
        """Does something once: later attempts get what is on record."""
        if name not in self.steps:
            self.steps[name] = act()
            self.send("PUT", f"steps/{name}", status="finished", value=self.steps[name])
        return self.steps[name]

    def approval(self, name, prompt):
        """Ends this attempt until somebody has decided; a denial fails the job."""
        if name not in self.waits:
            self.send("POST", "approvals", name=name, prompt=prompt)
            self.end("wait", **{"for": "approval", "name": name})
            raise Waiting

    def renew(self):
        while not self.done.wait(LEASE / 3):
            lease = {"job_id": self.job["id"], "token": self.token}
            answer = call("POST", "/v1/heartbeat", {"worker_id": WORKER, "leases": [lease], "extend": LEASE})["leases"][0]
            lost = not answer["ok"] and answer["code"] != "job_busy"  # busy: its row is locked, the lease stands
            if lost and not self.done.is_set():
                os._exit(1)  # the job is no longer ours: stop, whatever the handler does; a supervisor starts us again

def order(run):
    """What the job does. Here each effect is a line in a file."""
    def write(name):
        with open(os.path.join(run.job["payload"]["folder"], name), "a") as file:
            file.write(f"{run.job['id']}\n")
        return name

    run.step("pack", lambda: write("packed"))
    run.step("charge", lambda: write("charged"))
    run.approval("ship", "the order is paid; ship it?")
    return [run.step("ship", lambda: write("shipped"))]

while True:
    # The secret lets the same claim, sent again after a lost answer, return the jobs that it already holds.
    wish = {"queues": ["orders"], "kinds": ["order"], "worker_id": WORKER, "lease": LEASE, "wait": 60}
    for job in call("POST", "/v1/claim", {**wish, "secret": secrets.token_hex(32)})["jobs"]:
        run = Run(job)
        threading.Thread(target=run.renew, daemon=True).start()
        try:
            run.end("complete", result=order(run))
        except Waiting:
            pass
        except Refused as no:
            print(f"{job['id']}: {no}")
        except Exception as error:
            run.end("fail", error={"code": type(error).__name__, "message": str(error)})
        finally:
            run.done.set()
