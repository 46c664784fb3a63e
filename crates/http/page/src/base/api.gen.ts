// Made by types.mjs from the API's document. Not to be edited.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A problem as it is sent (RFC 9457). */
        Problem: {
            /** @description Where the page of the code is. */
            type: string;
            /** @description What the code says, in short. */
            title: string;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description What happened here, and what to do. */
            detail: string;
            /** @description The stable code. */
            code: string;
            /** @description The id of the request, to find it in logs. */
            request_id: string;
        };
        /** @description A job to enqueue. */
        NewJob: {
            /** @description What to do: 1–128 of `A-Za-z0-9._:-`. */
            kind: string;
            /**
             * @description Which line it stands in.
             * @default default
             */
            queue: string | null;
            /** @description What its handler gets, at most 1 MiB. */
            payload?: components["schemas"]["Json"];
            /** @description The same as base64, for what is not JSON. */
            payload_base64?: string | null;
            /**
             * Format: uuid
             * @description A UUIDv7 made by the caller: the same id with the same body again is the same job.
             */
            id?: string | null;
            /**
             * Format: int32
             * @description −5 to 5, higher first.
             * @default 0
             */
            priority: number | null;
            run_at?: components["schemas"]["Moment"] | null;
            delay?: components["schemas"]["Span"] | null;
            /**
             * Format: int32
             * @description Failures allowed before it is dead, 0 to 100; 3 unless its queue says otherwise.
             */
            max_retries?: number | null;
            timeout?: components["schemas"]["Span"] | null;
            lease?: components["schemas"]["Span"] | null;
            grace?: components["schemas"]["Span"] | null;
            backoff?: components["schemas"]["BackoffWish"] | null;
            /** @description The agent it belongs to. */
            agent_id?: string | null;
            /** @description Small JSON that travels with it, at most 16 KiB. */
            metadata?: Record<string, never> | null;
            /** @description Labels to find it by, at most 16. */
            tags?: string[] | null;
            unique?: components["schemas"]["Unique"] | null;
            /** @description Labels with their values that its worker must have, at most 16. Only queues in mode push look at them. */
            requires?: Record<string, never> | null;
            /**
             * @description Whose job it is, such as a tenant. In a queue with rules for keys, jobs of one key form a lane.
             * @example acme
             */
            key?: string | null;
            debounce?: components["schemas"]["Debounce"] | null;
            /**
             * Format: int32
             * @description How many units of its queue's rate one start takes; one.
             */
            cost?: number | null;
            /**
             * Format: uuid
             * @description The job that spawns it.
             */
            parent_id?: string | null;
            after?: components["schemas"]["After"] | null;
            /** @description That job's lease, when its holder spawns. */
            lease_token?: string | null;
        };
        /** @description any JSON */
        Json: unknown;
        Moment: string | (number | string);
        Span: number | string;
        /** @description How retries are spaced: `min(max, base × multiplier^n)`. */
        BackoffWish: {
            base?: components["schemas"]["Span"] | null;
            max?: components["schemas"]["Span"] | null;
            /**
             * Format: double
             * @description Growth per retry; two.
             */
            multiplier?: number | null;
            /** @description Whether delays are drawn evenly from zero to the full one; yes. */
            jitter?: boolean | null;
        };
        /** @description What makes two jobs the same, and for how long. */
        Unique: {
            /** @description The caller's key, 1 to 512 bytes. */
            key?: string | null;
            by?: components["schemas"]["ByWord"] | null;
            scope?: components["schemas"]["ScopeWord"] | null;
            policy?: components["schemas"]["PolicyWord"] | null;
            ttl?: components["schemas"]["Span"] | null;
        };
        /** @description How long a job waits for a later one to take its place. */
        Debounce: {
            /** @description How long it waits after the latest request, at most a day. */
            delay: components["schemas"]["Span"];
            max?: components["schemas"]["Span"] | null;
        };
        /**
         * @description What a job waits for: a list of jobs, or an object with an end per name. In a flow a name is that of another of its
         *     jobs; everywhere it may be the id of a job that exists.
         */
        After: components["schemas"]["Edge"][] | {
            [key: string]: components["schemas"]["On"];
        };
        /**
         * @description What makes two jobs the same, instead of a key.
         * @enum {string}
         */
        ByWord: "payload";
        /**
         * @description Among which jobs a key is unique.
         * @enum {string}
         */
        ScopeWord: "queue" | "kind";
        /**
         * @description How long a unique key stays taken.
         * @enum {string}
         */
        PolicyWord: "active" | "succeeded" | "forever" | "ttl";
        /** @description A job to wait for. */
        Edge: {
            /**
             * Format: uuid
             * @description Its id.
             */
            job: string;
            on?: components["schemas"]["On"] | null;
            /** @description By which name the job reads its result. */
            name?: string | null;
        };
        /**
         * @description Which end of a job lets one run that waits for it. Another end skips it.
         * @enum {string}
         */
        On: "success" | "failure" | "finished";
        /** @description A job that was enqueued, or was there already. */
        Enqueued: {
            /** @description The job: the first one, if it existed. Only its id when the caller prefers a short answer. */
            job: components["schemas"]["Job"];
            /** @description Whether it was there already. */
            existed: boolean;
            /** @description Whether the one that was there has another payload. */
            payload_differs?: boolean | null;
            /** @description How the one that was there ended, if it was removed since and only its unique key is left. */
            outcome?: string | null;
            /** @description True if it was left out, because as many jobs of its key wait as may: there is no such job. */
            dropped?: boolean | null;
        };
        /** @description A job: where it stands and what it was given. */
        Job: {
            /** @description Its identity, a UUIDv7. */
            id: string;
            /** @description What to do. */
            kind: string;
            /** @description Which line it stands in. */
            queue: string;
            /** @description `pending`, `assigned`, `running`, `retry`, `waiting`, `orphaned`, `completed`, `failed`, `timed_out`, `cancelled`. */
            status: string;
            /** @description What it waits for, exactly while it waits: `approval`, `signal`, `timer`, `children`, `news`, `upstream`, `flow`. */
            waiting_for?: string | null;
            /** @description The name of that wait. */
            wait_name?: string | null;
            /** @description What of it does not read back from the store. What could not be read is then absent or made up. */
            unreadable?: string | null;
            /** @description Free text of where its handler is. */
            stage?: string | null;
            /**
             * Format: int32
             * @description 0 to 100.
             */
            progress: number;
            /**
             * Format: int32
             * @description −5 to 5, higher first.
             */
            priority: number;
            /**
             * Format: int32
             * @description Executions over its whole life: the fence.
             */
            attempt: number;
            /**
             * Format: int32
             * @description Failures that used the budget.
             */
            retries: number;
            /**
             * Format: int32
             * @description The budget.
             */
            max_retries: number;
            /**
             * Format: int32
             * @description Leases lost in a row.
             */
            crashes: number;
            /**
             * Format: int64
             * @description Events ever written.
             */
            version: number;
            /**
             * Format: int32
             * @description Redrives.
             */
            generation: number;
            due_at?: components["schemas"]["Time"] | null;
            deadline_at?: components["schemas"]["Time"] | null;
            lease?: components["schemas"]["Lease"] | null;
            continuation?: components["schemas"]["Continuation"] | null;
            assigned?: components["schemas"]["Assigned"] | null;
            /** @description Labels that its worker must have. */
            requires?: Record<string, never> | null;
            /** @description Whose job it is: jobs of one key form a lane of their queue. */
            key?: string | null;
            /**
             * Format: int32
             * @description How many units of its queue's rate one start takes, where that is not one.
             */
            cost?: number | null;
            /** @description What it was given. Absent in lists, and where it is not JSON. */
            payload?: components["schemas"]["Raw"];
            /** @description What it was given, when that is not JSON. */
            payload_base64?: string | null;
            /** @description What it gave. */
            result?: components["schemas"]["Raw"];
            /** @description What it gave, when that is not JSON. */
            result_base64?: string | null;
            error?: components["schemas"]["JobError"] | null;
            /** @description Where its last attempt left off. */
            checkpoint?: components["schemas"]["Raw"];
            /** @description The same, when that is not JSON. */
            checkpoint_base64?: string | null;
            /** @description Small JSON that travels with it. Absent in lists. */
            metadata?: Record<string, never> | null;
            /** @description Labels to find it by. */
            tags: string[];
            /** @description The agent it belongs to. */
            agent_id?: string | null;
            /** @description The job that spawned it. */
            parent_id?: string | null;
            /** @description The schedule that made it. */
            schedule?: string | null;
            timeout?: components["schemas"]["Span"] | null;
            backoff?: components["schemas"]["Backoff"] | null;
            cancel_requested_at?: components["schemas"]["Time"] | null;
            blocked?: components["schemas"]["Blocked"] | null;
            wake?: components["schemas"]["Wake"] | null;
            /**
             * Format: int64
             * @description How many finished steps are on record. Only in a claim's answer.
             */
            steps_recorded?: number | null;
            /** @description True if it left the store, and this comes from the archive. */
            archived?: boolean | null;
            /** @description True if what it was given, found and printed was erased: payload, result, checkpoint, metadata, error text, log lines. */
            erased?: boolean | null;
            /** @description When it was enqueued. */
            created_at: components["schemas"]["Time"];
            started_at?: components["schemas"]["Time"] | null;
            /** @description When it last changed. */
            updated_at: components["schemas"]["Time"];
            finished_at?: components["schemas"]["Time"] | null;
        };
        /** Format: date-time */
        Time: string;
        /** @description A lease, seen from outside or by its holder. */
        Lease: {
            /** @description Who holds it. */
            worker_id: string;
            /** @description Proves it. Only in a claim's answer. */
            token?: string | null;
            /**
             * Format: int32
             * @description Which execution of the job it is for. Only in a claim's answer.
             */
            attempt?: number | null;
            /**
             * Format: int64
             * @description What the holder writes beside its own changes elsewhere, to refuse a smaller one there. Only in a claim's answer.
             */
            fence?: number | null;
            expires_at?: components["schemas"]["Time"] | null;
        };
        /** @description That a job goes on beyond its lease. */
        Continuation: {
            /** @description `confirming`: the lease has expired, and only its holder may renew it or finish. */
            state: string;
            /** @description From then on another worker may take it. */
            until: components["schemas"]["Time"];
        };
        /** @description A job in a leader's line for one worker. */
        Assigned: {
            /** @description Who is to start it. */
            worker_id: string;
            /**
             * Format: int64
             * @description Which assignment it is: what the start names.
             */
            assignment?: number | null;
            /**
             * Format: int64
             * @description The epoch of the leader that made it: what the start names.
             */
            epoch?: number | null;
            until?: components["schemas"]["Time"] | null;
        };
        /** @description any JSON */
        Raw: unknown;
        /** @description An error of a job. */
        JobError: {
            /** @description One word. */
            code: string;
            /** @description What went wrong. Absent in lists. */
            message?: string | null;
            at?: components["schemas"]["Time"] | null;
        };
        /** @description How retries are spaced. */
        Backoff: {
            /** @description The first delay. */
            base: components["schemas"]["Span"];
            /** @description The longest delay. */
            max: components["schemas"]["Span"];
            /**
             * Format: double
             * @description Growth per retry.
             */
            multiplier: number;
            /** @description Whether delays are drawn evenly from zero to the full one. */
            jitter: boolean;
        };
        /** @description Why a job is not running. */
        Blocked: {
            /** @description `paused`, `not_due`, `broken`, `limit`, `held`, `rate`, `no_worker`, `waiting`, `upstream`, `assigned`, `cancelling`. */
            reason: string;
            /** @description Since when. */
            since: components["schemas"]["Time"];
            /** @description By whom or what. */
            by: string;
            /** @description What to do. */
            fix: string;
        };
        /** @description How a wait ended. */
        Wake: {
            /** @description What it waited for. */
            for: string;
            /** @description The name of the wait. */
            name?: string | null;
            /** @description `approved`, `signalled`, `fired`, `joined`, `expired`. */
            outcome: string;
            /** @description What the signal brought. */
            payload?: components["schemas"]["Raw"];
            /** @description The same, when that is not JSON. */
            payload_base64?: string | null;
        };
        /** @description Jobs to enqueue, all or none. */
        NewJobs: {
            /** @description At most 10,000. */
            jobs: components["schemas"]["NewJob"][];
        };
        /** @description What became of each job of a batch, in order. */
        EnqueuedMany: {
            results: components["schemas"]["EnqueuedItem"][];
        };
        /** @description One job of a batch. */
        EnqueuedItem: {
            /** @description The job: the first one, if it existed. */
            id: string;
            /** @description Whether it was there already. */
            existed: boolean;
            /** @description Whether the one that was there has another payload. */
            payload_differs?: boolean | null;
            /** @description True if it was left out, because as many jobs of its key wait as may: there is no such job. */
            dropped?: boolean | null;
        };
        /** @description A page of jobs. It may be short: only a missing cursor is the end. */
        Jobs: {
            jobs: components["schemas"]["Job"][];
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description A stretch of a job's log. */
        Events: {
            events: components["schemas"]["Event"][];
            next_after?: components["schemas"]["i64"] | null;
        };
        /** @description An entry of a job's log. */
        Event: {
            /** @description Whose. Only in the feed. */
            job_id?: string | null;
            /**
             * Format: int64
             * @description Its place in the job's log: 1, 2, 3 …
             */
            version: number;
            /** @description What happened. */
            type: string;
            /** @description The queue of its job. Only in the feed. */
            queue?: string | null;
            /** @description The kind of its job. Only in the feed. */
            kind?: string | null;
            /** @description Who: `api`, `key:…`, `worker:…`, `engine`, `sql:…`. */
            actor: string;
            /**
             * Format: int32
             * @description The attempt it belongs to.
             */
            attempt: number;
            /**
             * Format: int32
             * @description The generation it belongs to.
             */
            generation: number;
            /** @description What the engine says about it; `{"unreadable": why}` where what is stored does not read back. */
            detail?: Record<string, never> | null;
            /** @description The caller's bytes: payload, result, error, checkpoint, step value, signal. */
            payload?: components["schemas"]["Raw"];
            /** @description The same, when that is not JSON. */
            payload_base64?: string | null;
            /** @description When. */
            at: components["schemas"]["Time"];
        };
        /** Format: int64 */
        i64: number;
        /** @description A note to append to a job's log. */
        NewEvent: {
            /** @description Its type; `job_…` is the engine's own, `node_…` and `tool_…` need the lease. */
            type: string;
            /** @description Its payload, at most 64 KiB. */
            payload?: components["schemas"]["Json"];
            /**
             * Format: int64
             * @description The version the writer believes in.
             */
            expected_version?: number | null;
            /** @description The lease to write under. */
            lease_token?: string | null;
            /** @description Recognises a repeat. */
            key?: string | null;
        };
        /** @description Where the change stands in the log. */
        Written: {
            /**
             * Format: int64
             * @description The event's version.
             */
            version: number;
            /** @description Whether it was there already. */
            replayed?: boolean;
            /** @description Whether the holder should stop. */
            cancel_requested: boolean;
        };
        /** @description A stretch of a job's log lines. */
        Logs: {
            lines: components["schemas"]["LogLine"][];
            /** @description True if lines of the job were erased. */
            erased?: boolean | null;
        };
        /** @description A line of a job's log. */
        LogLine: {
            /**
             * Format: int64
             * @description Its place among the job's lines.
             */
            n: number;
            /** @description When. */
            at: components["schemas"]["Time"];
            /**
             * Format: int32
             * @description Which attempt wrote it.
             */
            attempt: number;
            /** @description The text. */
            line: string;
        };
        /** @description A page of the feed. It may be empty: the cursor goes on all the same. */
        FeedPage: {
            events: components["schemas"]["Event"][];
            /** @description Where to go on. */
            next_cursor: string;
        };
        /** @description A flow to make: jobs by name, each with those it waits for. */
        NewFlow: {
            /** @description Its jobs by their names, at most 10,000. None is allowed: the flow is then over at once. */
            nodes?: {
                [key: string]: components["schemas"]["NewJob"];
            };
            join?: components["schemas"]["Join"] | null;
            /** @description Whether jobs may be added until it is sealed. */
            open?: boolean | null;
            callback?: components["schemas"]["NewJob"] | null;
        };
        /**
         * @description When a flow ends, or its callback runs.
         * @enum {string}
         */
        Join: "all" | "success" | "first_failure";
        /** @description A flow that was made, or grew. */
        MadeFlow: {
            /** @description The flow: a job that waits for the others. */
            id: string;
            /** @description The ids of its jobs by their names. */
            nodes: {
                [key: string]: string;
            };
        };
        /** @description Jobs to add to an open flow. */
        NewNodes: {
            /** @description Its jobs by their names, at most 10,000. */
            nodes: {
                [key: string]: components["schemas"]["NewJob"];
            };
        };
        /** @description A job after it was acted on. */
        OneJob: {
            /** @description The job. */
            job: components["schemas"]["Job"];
        };
        /** @description Jobs and who waits for whom. */
        Graph: {
            /** @description Jobs, oldest first. */
            nodes: components["schemas"]["GraphNode"][];
            /** @description From a job to one that waits for it. */
            edges: components["schemas"]["GraphEdge"][];
            /** @description Whether there are more jobs than shown. */
            truncated: boolean;
        };
        /** @description A job of a graph. */
        GraphNode: {
            /** @description Its id. */
            id: string;
            /** @description Its name in its flow. */
            name?: string | null;
            /** @description What to do. */
            kind: string;
            /** @description Which line it stands in. */
            queue: string;
            /** @description Where it stands. */
            status: string;
            /** @description The code of its last error: `skipped` when it never ran. */
            error_code?: string | null;
        };
        /** @description A job and one that waits for it. */
        GraphEdge: {
            /** @description The upstream job. */
            from: string;
            /** @description The job that waits. */
            to: string;
            /** @description For which end. */
            on: components["schemas"]["On"];
        };
        /** @description What came before a job. */
        Upstream: {
            /** @description In the order in which the job names them, at most 1,000. */
            upstream: components["schemas"]["UpstreamJob"][];
        };
        /** @description A job that another waits or waited for. */
        UpstreamJob: {
            /** @description Its id. */
            id: string;
            /** @description By which name the job knows it. */
            name?: string | null;
            /** @description Which end of it the job waits for. */
            on: components["schemas"]["On"];
            /** @description Where it stands; none if it was removed. */
            status?: string | null;
            /** @description What it gave. */
            result?: components["schemas"]["Raw"];
            /** @description What it gave, when that is not JSON. */
            result_base64?: string | null;
        };
        /** @description What a job turned out to cost. */
        Charge: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /**
             * Format: int32
             * @description Units of the rates of its key and its queue, beside those it was started for. A debt is allowed.
             */
            units: number;
        };
        /** @description The keys of a queue, in the order of their turns; none of a queue whose keys take no turns. */
        LanesPage: {
            /** @description A page of them. */
            lanes: components["schemas"]["LaneState"][];
            /** @description Where the next page begins; null at the end. */
            next_cursor?: string | null;
        };
        /** @description A key of a queue, as it stands. */
        LaneState: {
            /** @description The key; null if no job of it is left that could say so. */
            key?: string | null;
            /**
             * Format: int64
             * @description How many of its jobs run or are assigned.
             */
            running: number;
            /**
             * Format: int64
             * @description How many of its jobs could start now if nothing kept them.
             */
            due: number;
            /** @description Whether there are more than that. */
            due_capped: boolean;
            held_until?: components["schemas"]["Time"] | null;
            next_at?: components["schemas"]["Time"] | null;
        };
        /** @description What to let go. */
        LetGo: {
            /** @description Which key; the whole queue when it is absent. Its keys stay held. */
            key?: string | null;
        };
        /** @description What was let go. */
        LaneReleased: {
            /** @description Whether a hold or a debt kept it. */
            released: boolean;
        };
        /** @description A wish to stop a job. */
        Cancel: {
            /** @description Why. */
            reason?: string | null;
            /** @description Whether a holder is not even asked. */
            force?: boolean | null;
            force_after?: components["schemas"]["Span"] | null;
            /**
             * Format: int64
             * @description The version of the job that this was decided on; at another one it is refused.
             */
            expected_version?: number | null;
        };
        /** @description A dead or cancelled job to send back. */
        Redrive: {
            run_at?: components["schemas"]["Moment"] | null;
            delay?: components["schemas"]["Span"] | null;
            /** @description Whether recorded steps are forgotten. */
            from_start?: boolean | null;
            /** @description Another payload from now on, at most 1 MiB. The old one stays in the history. */
            payload?: components["schemas"]["Json"];
            /** @description The same as bytes that are no JSON, in base64. */
            payload_base64?: string | null;
            /**
             * Format: int64
             * @description The version of the job that this was decided on; at another one it is refused.
             */
            expected_version?: number | null;
        };
        /** @description Where a new job begins. */
        Fork: {
            /**
             * Format: int64
             * @description Up to which version of the other's log; all of it.
             */
            from_version?: number | null;
            /** @description Another payload than the other's, at most 1 MiB. */
            payload?: components["schemas"]["Json"];
            /**
             * Format: int64
             * @description The version of the job that this was decided on; at another one it is refused.
             */
            expected_version?: number | null;
        };
        /** @description What was erased. */
        Erased: {
            /** @description The job. */
            id: string;
            /** @description Always true. */
            erased: boolean;
            /**
             * Format: int64
             * @description The version at which the erasure stands in the job's log.
             */
            version: number;
            /** @description Whether it stood there before, and nothing was left to erase. */
            replayed: boolean;
            /** @description How many files of the archive were written anew. */
            archive_files: number;
        };
        /** @description A signal. */
        Signal: {
            /** @description Its name. */
            name: string;
            /** @description What it brings, at most 64 KiB. */
            payload?: components["schemas"]["Json"];
            /** @description Recognises a repeat. */
            key?: string | null;
        };
        /** @description What became of a signal. */
        Signalled: {
            /** @description Whether its key came before. */
            duplicate: boolean;
            /**
             * Format: int64
             * @description The event that it is.
             */
            version: number;
        };
        /** @description Which jobs a worker wants. */
        Claim: {
            /** @description In this order. */
            queues: string[];
            /** @description Only these; all when empty. */
            kinds?: string[] | null;
            /** @description Who claims: fresh per process start. */
            worker_id: string;
            /** @description 64 hex digits made by the worker: the same secret again returns the jobs that it already holds. */
            secret?: string | null;
            /**
             * Format: int64
             * @description At most so many; one.
             */
            max?: number | null;
            lease?: components["schemas"]["Span"] | null;
            wait?: components["schemas"]["Span"] | null;
        };
        /** @description Jobs in a worker's hands. */
        Claimed: {
            /** @description Each with its lease. None is no error. */
            jobs: components["schemas"]["Job"][];
        };
        /** @description Who wants one job. */
        ClaimOne: {
            /** @description Who claims. */
            worker_id: string;
            /** @description 64 hex digits made by the worker. */
            secret?: string | null;
            lease?: components["schemas"]["Span"] | null;
        };
        /** @description Which assignment a worker starts. */
        Start: {
            /** @description Who starts: the worker that the job is assigned to. */
            worker_id: string;
            /**
             * Format: int64
             * @description Which assignment, as the job shows it.
             */
            assignment: number;
            /**
             * Format: int64
             * @description The epoch of that assignment.
             */
            epoch: number;
            /** @description 64 hex digits made by the worker: the same secret again returns the job that it started. */
            secret?: string | null;
            lease?: components["schemas"]["Span"] | null;
        };
        /** @description Leases to renew. */
        Heartbeat: {
            /** @description Who holds them. */
            worker_id: string;
            /** @description Which, at most 10,000. */
            leases: components["schemas"]["HeldLease"][];
            extend?: components["schemas"]["Span"] | null;
        };
        /** @description A lease to renew. */
        HeldLease: {
            /** @description Of which job. */
            job_id: string;
            /** @description Proves it. */
            token: string;
        };
        /** @description What became of each lease, in order. */
        Renewed: {
            /** @description One per lease that was shown. */
            leases: components["schemas"]["RenewedLease"][];
        };
        /** @description What became of a lease. */
        RenewedLease: {
            /** @description Of which job. */
            job_id: string;
            /** @description Whether it was renewed. */
            ok: boolean;
            expires_at?: components["schemas"]["Time"] | null;
            /** @description Why it was not renewed: stop working on the job. */
            code?: string | null;
            /** @description Whether the holder should stop. */
            cancel_requested: boolean;
        };
        /** @description Attempts to end. Each stands alone. */
        Settle: {
            /** @description At most 10,000. */
            items: components["schemas"]["SettleItem"][];
        };
        /** @description One attempt to end. */
        SettleItem: {
            /** @description Which job. */
            job_id: string;
            /** @description Its lease. */
            lease_token: string;
            /** @description How. */
            outcome: components["schemas"]["OutcomeWord"];
            /** @description What it gave, at most 1 MiB. For `complete`. */
            result?: components["schemas"]["Json"];
            /** @description The same as base64. */
            result_base64?: string | null;
            error?: components["schemas"]["NewError"] | null;
            /** @description Whether no retry can help. For `fail`. */
            permanent?: boolean | null;
            run_at?: components["schemas"]["Moment"] | null;
            delay?: components["schemas"]["Span"] | null;
            hold?: components["schemas"]["Span"] | null;
        };
        /**
         * @description How an attempt ended.
         * @enum {string}
         */
        OutcomeWord: "complete" | "fail" | "release" | "cancelled";
        /** @description An error: a text, or a code and a message. */
        NewError: string | components["schemas"]["ErrorParts"];
        /** @description A code and a message. */
        ErrorParts: {
            /** @description One word; `failed` when it is absent. */
            code?: string | null;
            /** @description What went wrong. */
            message?: string | null;
        };
        /** @description What became of each attempt, in order. */
        SettledMany: {
            /** @description One per item. */
            items: components["schemas"]["SettledItem"][];
        };
        /** @description What became of one attempt. */
        SettledItem: {
            /** @description Of which job. */
            job_id: string;
            /** @description Whether it is settled. */
            ok: boolean;
            /** @description Where the job stands now. */
            status?: string | null;
            /**
             * Format: int64
             * @description The event that says so.
             */
            version?: number | null;
            /** @description Whether it was settled so before. */
            replayed?: boolean | null;
            /** @description Why it was refused. */
            code?: string | null;
            /** @description The same in words. */
            detail?: string | null;
        };
        /** @description An attempt that is done. */
        Complete: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /** @description What it gave, at most 1 MiB. */
            result?: components["schemas"]["Json"];
            /** @description The same as base64, for what is not JSON. */
            result_base64?: string | null;
        };
        /** @description The job after its attempt ended. */
        Settled: {
            /** @description The job. */
            job: components["schemas"]["Job"];
            /** @description Whether it was settled so before. */
            replayed: boolean;
        };
        /** @description An attempt that failed. */
        Fail: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            error?: components["schemas"]["NewError"] | null;
            /** @description Whether no retry can help. */
            permanent?: boolean | null;
            run_at?: components["schemas"]["Moment"] | null;
            delay?: components["schemas"]["Span"] | null;
        };
        /** @description A job to give back. */
        Release: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            delay?: components["schemas"]["Span"] | null;
            hold?: components["schemas"]["Span"] | null;
        };
        /** @description What a job is to wait for, holding no worker. */
        Wait: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /** @description What to wait for. */
            for: components["schemas"]["WaitWord"];
            /** @description Name of the signal or approval. */
            name?: string | null;
            until?: components["schemas"]["Moment"] | null;
            expires?: components["schemas"]["Moment"] | null;
        };
        /**
         * @description What a job waits for.
         * @enum {string}
         */
        WaitWord: "approval" | "signal" | "timer" | "children";
        /** @description What a holder reports: one change. */
        Progress: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /**
             * Format: int64
             * @description 0 to 100.
             */
            progress?: number | null;
            /** @description Free text. */
            stage?: string | null;
            /** @description Merged into what is there, key by key. */
            metadata?: Record<string, never> | null;
            /** @description For the next attempt, at most 1 MiB. */
            checkpoint?: components["schemas"]["Json"];
        };
        /** @description Log lines to write. */
        NewLogs: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /** @description The lines, each at most 16 KiB. */
            lines: string[];
        };
        /** @description How many lines were written. */
        LogsWritten: {
            written: number;
        };
        /** @description Everything on record that a resumed run must not do again. */
        Recorded: {
            /** @description Steps and tools, in the order of their first record. */
            steps: components["schemas"]["Step"][];
            /** @description Waits that ended, in order. */
            waits: components["schemas"]["EndedWait"][];
        };
        /** @description A step on record. */
        Step: {
            /** @description Its name. */
            name: string;
            /** @description Whether it is a call of a tool. */
            tool: boolean;
            /** @description A tool that started and did not finish is in doubt: it may have acted. */
            status: components["schemas"]["StepStatus"];
            /** @description What it was called with, when it has not finished. */
            args?: components["schemas"]["Raw"];
            /** @description Its value, when it has finished. */
            value?: components["schemas"]["Raw"];
            /** @description The same, when that is not JSON. */
            value_base64?: string | null;
            /**
             * Format: int64
             * @description The event that says so.
             */
            version: number;
        };
        /** @description A wait that ended. */
        EndedWait: {
            /** @description What it waited for. */
            for: string;
            /** @description Its name. */
            name?: string | null;
            /** @description How it ended. */
            outcome: string;
            /** @description What the signal brought. */
            payload?: components["schemas"]["Raw"];
            /**
             * Format: int64
             * @description The event that began it.
             */
            version: number;
        };
        /** @enum {string} */
        StepStatus: "started" | "finished";
        /** @description A step that began or ended. */
        NewStep: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /** @description Whether it began or ended. */
            status: components["schemas"]["StepStatus"];
            /** @description Whether it is a call of a tool, which may be in doubt. */
            tool?: boolean | null;
            /** @description What it was called with. */
            args?: components["schemas"]["Json"];
            /** @description Its value, at most 1 MiB. */
            value?: components["schemas"]["Json"];
        };
        /** @description An approval to ask for. */
        NewApproval: {
            /** @description The job's lease; not needed when it is the bearer. */
            lease_token?: string | null;
            /** @description Its name within the job. */
            name: string;
            /** @description What is asked of people. */
            prompt: string;
            /** @description Names or roles of keys that may vote; anybody with the right to vote when empty. */
            approvers?: string[] | null;
            /**
             * Format: int32
             * @description Votes needed; one. Two or more are votes of as many keys, and the link has none.
             */
            required?: number | null;
            expires?: components["schemas"]["Span"] | null;
        };
        /** @description An approval that was asked. */
        Asked: {
            approval: components["schemas"]["Approval"];
            /**
             * @description The token of its link: one vote. Shown once; asking again makes a fresh one. None when a link has no vote, which is when
             *     approvers are named or several people have to say yes, and when nothing is left to decide.
             */
            token?: string | null;
            /** @description Where the link leads on this server, from the first slash on: a page that asks the one question. */
            link?: string | null;
        };
        /** @description An approval: what is asked, of whom, and how it stands. */
        Approval: {
            /** @description Its identity. */
            id: string;
            /** @description The job that asks. */
            job_id: string;
            /** @description Its name within the job. */
            name: string;
            /** @description `pending`, `approved`, `denied`, `expired`, `void`. */
            status: string;
            /**
             * Format: int32
             * @description Votes needed.
             */
            required: number;
            /**
             * Format: int32
             * @description Votes in favour so far.
             */
            approved: number;
            /** @description What is asked. */
            prompt: string;
            /** @description Names or roles that may vote; anybody with the right to vote when empty. */
            approvers: string[];
            /** @description Who asks. */
            asked_by: string;
            /** @description When it was asked first. */
            asked_at: components["schemas"]["Time"];
            /** @description When silence denies. */
            expires_at: components["schemas"]["Time"];
            decided_at?: components["schemas"]["Time"] | null;
            /** @description The votes so far. */
            decisions: components["schemas"]["Vote"][];
        };
        /** @description One vote. */
        Vote: {
            /** @description `approve` or `deny`. */
            decision: string;
            /** @description Whose. */
            by: string;
            /** @description Why. */
            reason?: string | null;
            /** @description When. */
            at: components["schemas"]["Time"];
        };
        /** @description A page of approvals, newest first. */
        Approvals: {
            approvals: components["schemas"]["Approval"][];
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description Which link. */
        ByToken: {
            /** @description What stands behind the `#` of the link: the approval's id, a dot, the token. */
            token: string;
        };
        /** @description The one question that a link may see, and no more of its job. */
        Question: {
            /** @description The approval. */
            id: string;
            /** @description What is asked. */
            prompt: string;
            /** @description `pending`, `approved`, `denied`, `expired`, `void`. */
            status: string;
            /** @description Whether this link has voted. */
            used: boolean;
            /**
             * Format: int32
             * @description Votes needed.
             */
            required: number;
            /** @description When silence denies. */
            expires_at: components["schemas"]["Time"];
        };
        /** @description A vote. */
        Decide: {
            /** @description Yes or no. */
            decision: components["schemas"]["DecisionWord"];
            /** @description The token of the link, instead of a key. */
            token?: string | null;
            /** @description Why; a denial tells it to the job. */
            reason?: string | null;
        };
        /**
         * @description A vote in a word.
         * @enum {string}
         */
        DecisionWord: "approve" | "deny";
        /** @description Where an approval stands after a vote. */
        Decided: {
            /** @description `pending` while votes are missing. */
            status: string;
            approval?: components["schemas"]["Approval"] | null;
        };
        /**
         * @description Every queue that has a setting or a job that may run, now or later, or runs; or in which something happened in the last
         *     day, as this server saw it.
         */
        Queues: {
            queues: components["schemas"]["Queue"][];
        };
        /** @description A queue with what stands in it. */
        Queue: {
            /** @description Its name. */
            name: string;
            /**
             * Format: int64
             * @description Jobs that a worker could take now.
             */
            due: number;
            /** @description Whether there are more than were counted. */
            due_capped: boolean;
            oldest_due_at?: components["schemas"]["Time"] | null;
            paused?: components["schemas"]["Paused"] | null;
            /** @description What its jobs fall back to. */
            defaults: components["schemas"]["Defaults"];
            /** @description How its jobs reach workers: `pull` or `push`. */
            mode: string;
            held_until?: components["schemas"]["Time"] | null;
            broken?: components["schemas"]["Broken"] | null;
            flow?: components["schemas"]["QueueLimits"] | null;
            endpoint?: components["schemas"]["QueueEndpoint"] | null;
            /** @description What happened in the last minute, as far as this server saw it. */
            rates: components["schemas"]["Rates"];
        };
        /** @description Since when a queue is paused. */
        Paused: {
            /** @description When. */
            at: components["schemas"]["Time"];
            /** @description By whom. */
            by: string;
        };
        /** @description What a queue's jobs fall back to. */
        Defaults: {
            /**
             * Format: int32
             * @description Failures allowed.
             */
            max_retries?: number | null;
            timeout?: components["schemas"]["Span"] | null;
            lease?: components["schemas"]["Span"] | null;
            grace?: components["schemas"]["Span"] | null;
            backoff?: components["schemas"]["Backoff"] | null;
        };
        /** @description That a queue broke. */
        Broken: {
            /** @description Since when. */
            at: components["schemas"]["Time"];
            /** @description Until then nothing starts; from then on one job at a time is tried until one succeeds. */
            until: components["schemas"]["Time"];
            /**
             * Format: int64
             * @description How many attempts were counted.
             */
            ended: number;
            /**
             * Format: int64
             * @description How many of them failed or took too long.
             */
            failed: number;
        };
        /** @description Limits of a queue. They hold across all workers, and are in force with the next claim. */
        QueueLimits: {
            /**
             * Format: int32
             * @description How many of its jobs run at once.
             */
            concurrency?: number | null;
            rate?: components["schemas"]["Rate"] | null;
            lanes?: components["schemas"]["Lanes"] | null;
            aging?: components["schemas"]["Span"] | null;
            breaker?: components["schemas"]["Breaker"] | null;
        };
        /** @description The web service that servers send a queue's jobs to. */
        QueueEndpoint: {
            /** @description Where it is: its host, for a path may hold a secret. */
            url: string;
            /**
             * Format: int64
             * @description How many jobs each server has with it at once.
             */
            max: number;
            /** @description What requests are signed with, in the answer to the request that made it and never again. */
            secret?: string | null;
        };
        /** @description Events of the last minute, per second. */
        Rates: {
            /**
             * Format: double
             * @description Jobs that came in.
             */
            enqueued: number;
            /**
             * Format: double
             * @description Attempts that began.
             */
            started: number;
            /**
             * Format: double
             * @description Jobs that completed.
             */
            completed: number;
            /**
             * Format: double
             * @description Jobs that failed or timed out for good.
             */
            dead: number;
        };
        /** @description So many units per period; a start takes as many as the job costs. No period sees starts of more than `units` and `burst`. */
        Rate: {
            /**
             * Format: int32
             * @description How many units; at most 10,000 a second.
             */
            units: number;
            /** @description In which time, between a second and 30 days. */
            per: components["schemas"]["Span"];
            /**
             * Format: int32
             * @description How many units may start at once after a pause; as many as `units` when left out, 1 spreads them evenly.
             */
            burst?: number | null;
        };
        /** @description Rules for the keys of a queue. */
        Lanes: {
            /**
             * Format: int32
             * @description How many jobs of one key run at once.
             */
            concurrency?: number | null;
            /**
             * Format: int32
             * @description How many jobs of a key are handed out in one turn; one.
             */
            weight?: number | null;
            rate?: components["schemas"]["Rate"] | null;
            /**
             * Format: int32
             * @description How many jobs of one key may stand in line, due or not, when another comes, 1 to 10,000; any number when left out.
             */
            backlog?: number | null;
            /** @description What becomes of a job that comes when so many wait: `refuse` (429 `lane_full`), as when left out, or `drop`. */
            full?: string | null;
            /**
             * @description `wait`, as when left out, or `newest`: a job that comes cancels those of its key that stand in line (`superseded`), and
             *     asks the oldest that runs to stop if there is no slot.
             */
            mode?: string | null;
            /** @description What holds for some keys instead, at most 1,000. */
            keys?: {
                [key: string]: components["schemas"]["Lane"];
            };
        };
        /** @description When a queue breaks: `errors` of `of` attempts that ended `within` a span failed, or a larger part of more. */
        Breaker: {
            /**
             * Format: int32
             * @description How many of `of` must fail.
             */
            errors: number;
            /**
             * Format: int32
             * @description With fewer attempts than that nothing is decided.
             */
            of: number;
            /** @description In which time, between a second and an hour. */
            within: components["schemas"]["Span"];
            /** @description For how long nothing starts then, between a second and a day. */
            pause: components["schemas"]["Span"];
        };
        /** @description Rules for one key. */
        Lane: {
            /**
             * Format: int32
             * @description How many of its jobs run at once.
             */
            concurrency?: number | null;
            /**
             * Format: int32
             * @description How many of its jobs are handed out in one turn.
             */
            weight?: number | null;
            rate?: components["schemas"]["Rate"] | null;
            /**
             * Format: int32
             * @description How many of its jobs may stand in line, due or not, when another comes, 1 to 10,000; any number when left out.
             */
            backlog?: number | null;
            /** @description What becomes of a job that comes when so many wait: `refuse` (429 `lane_full`), as when left out, or `drop`. */
            full?: string | null;
            /**
             * @description `wait`, as when left out, or `newest`: a job that comes cancels those of its key that stand in line (`superseded`), and
             *     asks the oldest that runs to stop if there is no slot.
             */
            mode?: string | null;
        };
        /**
         * @description What a queue's jobs fall back to, and how they reach workers. What is left out is unset; mode, limits and endpoint stay as
         *     they are.
         */
        QueueSettings: {
            /**
             * Format: int32
             * @description Failures allowed, 0 to 100.
             */
            max_retries?: number | null;
            timeout?: components["schemas"]["Span"] | null;
            lease?: components["schemas"]["Span"] | null;
            grace?: components["schemas"]["Span"] | null;
            backoff?: components["schemas"]["BackoffWish"] | null;
            /**
             * @description `pull`: workers take its jobs; `push`: the leader assigns them, to workers whose labels match.
             * @example push
             */
            mode?: string | null;
            flow?: components["schemas"]["QueueLimits"] | null;
            endpoint?: components["schemas"]["QueueEndpointSettings"] | null;
        };
        /** @description A web service for the jobs of a queue. */
        QueueEndpointSettings: {
            /** @description Where it is, `http://` or `https://`; left out, the queue has no endpoint any more. */
            url?: string | null;
            /** @description What requests are signed with, `whsec_…`; as it was when left out, and made and answered once where there was none. */
            secret?: string | null;
            /**
             * Format: int64
             * @description How many jobs each server has with it at once; 10. The limit of the queue bounds all servers together.
             */
            max?: number | null;
        };
        /** @description A queue after it was changed. */
        OneQueue: {
            queue: components["schemas"]["Queue"];
        };
        /** @description Every schedule, by name. */
        Schedules: {
            schedules: components["schemas"]["Schedule"][];
        };
        /** @description A schedule as it stands. */
        Schedule: {
            /** @description Its name. */
            name: string;
            /** @description When it fires, if by a cron text. */
            cron?: string | null;
            every?: components["schemas"]["Span"] | null;
            /** @description The time zone of `cron`. */
            timezone: string;
            /** @description What is enqueued at each slot. */
            job: components["schemas"]["ScheduledJob"];
            /** @description What becomes of missed slots. */
            missed: components["schemas"]["Missed"];
            /**
             * Format: int32
             * @description How many of them `all` makes up for.
             */
            missed_max: number;
            /** @description What becomes of a slot while the last job lives. */
            overlap: components["schemas"]["Overlap"];
            /** @description Jobs run up to so long after their slot. */
            jitter: components["schemas"]["Span"];
            starts_at?: components["schemas"]["Time"] | null;
            ends_at?: components["schemas"]["Time"] | null;
            /**
             * Format: int64
             * @description Grows with every change by a person.
             */
            version: number;
            paused?: components["schemas"]["SchedulePaused"] | null;
            next_at?: components["schemas"]["Time"] | null;
            last_slot?: components["schemas"]["Time"] | null;
            /** @description Its job. */
            last_job?: string | null;
            /** @description Why it does not fire although it is not paused. */
            broken?: string | null;
            /** @description When it was made. */
            created_at: components["schemas"]["Time"];
            /** @description When a person changed it last. */
            updated_at: components["schemas"]["Time"];
        };
        /** @description What a schedule enqueues. */
        ScheduledJob: Record<string, never> & {
            payload?: unknown;
        };
        /**
         * @description What becomes of slots that passed while nobody led.
         * @enum {string}
         */
        Missed: "once" | "skip" | "all";
        /**
         * @description What becomes of a slot while the last job lives.
         * @enum {string}
         */
        Overlap: "allow" | "skip" | "cancel";
        /** @description Since when and by whom something is paused. */
        SchedulePaused: {
            at: components["schemas"]["Time"];
            by: string;
        };
        /** @description A schedule: when, and what it enqueues. What is left out is as usual. */
        NewSchedule: {
            /** @description Five fields, six with seconds in front, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. This or `every`. */
            cron?: string | null;
            every?: components["schemas"]["Span"] | null;
            /**
             * @description The time zone of `cron`, by its IANA name.
             * @default UTC
             */
            timezone: string | null;
            /** @description What is enqueued at each slot. */
            job: components["schemas"]["NewJob"];
            missed?: components["schemas"]["Missed"] | null;
            /**
             * Format: int32
             * @description How many missed slots `all` makes up for.
             */
            missed_max?: number | null;
            overlap?: components["schemas"]["Overlap"] | null;
            jitter?: components["schemas"]["Span"] | null;
            starts_at?: components["schemas"]["Time"] | null;
            ends_at?: components["schemas"]["Time"] | null;
            /**
             * Format: int64
             * @description Only if it is at this version; 0 if it must not be there.
             */
            expected_version?: number | null;
        };
        /** @description That it is gone. */
        ScheduleRemoved: {
            removed: string;
        };
        /** @description The slots ahead. */
        NextSlots: {
            next: components["schemas"]["Time"][];
        };
        /** @description A job that a schedule enqueued because somebody asked. */
        Triggered: {
            id: string;
        };
        /** @description A stretch of the past to make up for. */
        Backfill: {
            /** @description From this moment on. */
            from: components["schemas"]["Moment"];
            /** @description Until before this one, which is not in the future. */
            to: components["schemas"]["Moment"];
            /** @description Whether nothing is enqueued. */
            dry_run?: boolean;
        };
        /** @description What was made up for. */
        Backfilled: {
            /** @description Whether nothing was enqueued. */
            dry_run: boolean;
            /** @description Every slot, oldest first. */
            slots: components["schemas"]["BackfilledSlot"][];
        };
        /** @description A slot of the past. */
        BackfilledSlot: {
            slot: components["schemas"]["Time"];
            /** @description The job that has it; null in a dry run if none has. */
            job?: string | null;
            /** @description Whether it was fired before: then it is not fired again. */
            existed: boolean;
        };
        /** @description Schedules as they are to be. */
        ApplySchedules: {
            /** @description By name, at most 10000. */
            schedules: {
                [key: string]: components["schemas"]["NewSchedule"];
            };
            /** @description Whether every schedule that is not named is removed. */
            prune?: boolean;
            /** @description Whether nothing is written. */
            dry_run?: boolean;
        };
        /** @description What becomes of each schedule, by name. */
        SchedulesApplied: {
            /** @description Whether nothing was written. */
            dry_run: boolean;
            changes: components["schemas"]["ScheduleChange"][];
        };
        /** @description What becomes of one schedule. */
        ScheduleChange: {
            name: string;
            change: components["schemas"]["ScheduleChangeWord"];
            before?: components["schemas"]["Schedule"] | null;
            after?: components["schemas"]["Schedule"] | null;
        };
        /**
         * @description What becomes of a schedule.
         * @enum {string}
         */
        ScheduleChangeWord: "added" | "changed" | "removed" | "unchanged";
        /** @description Who leads: whose services run that one process runs for all. */
        Leader: {
            /** @description Who leads, or led last; null if nobody ever did. */
            holder?: string | null;
            /**
             * Format: int64
             * @description Grows with every change of leader.
             */
            epoch: number;
            expires_at?: components["schemas"]["Time"] | null;
            /** @description Whether it leads now. */
            leads: boolean;
        };
        /** @description Every worker that was not forgotten. */
        Workers: {
            workers: components["schemas"]["Worker"][];
        };
        /** @description A worker process. */
        Worker: {
            /** @description Its identity, fresh per process start. */
            id: string;
            /** @description Queues it takes from. */
            queues: string[];
            /** @description Kinds it knows; all when empty. */
            kinds: string[];
            /**
             * Format: int32
             * @description How many jobs at once.
             */
            capacity: number;
            /** @description How many of them from a queue, where that is less. */
            slots: Record<string, never>;
            /** @description Labels, for people and for what jobs of push queues require. */
            labels: Record<string, never>;
            /** @description Whether it takes no more. */
            draining: boolean;
            /** @description Whether it is there. */
            live: boolean;
            /** @description When it was first seen. */
            started_at: components["schemas"]["Time"];
            /** @description When it was last seen. */
            seen_at: components["schemas"]["Time"];
            /** @description When it counts as gone. */
            expires_at: components["schemas"]["Time"];
        };
        /**
         * @description What a worker says of itself. With nothing but `draining` it tells a known worker to take no
         *     more, or to take jobs again.
         */
        WorkerReport: {
            /** @description Queues it takes from. */
            queues?: string[] | null;
            /** @description Kinds it knows; all when empty. */
            kinds?: string[] | null;
            /**
             * Format: int64
             * @description How many jobs at once; one.
             */
            capacity?: number | null;
            /** @description How many of them from a queue, where that is less: a number for each such queue. */
            slots?: Record<string, never> | null;
            /** @description Labels, for people and for what jobs of push queues require. */
            labels?: Record<string, never> | null;
            /** @description Whether it takes no more. It is never unset by a report. */
            draining?: boolean | null;
            ttl?: components["schemas"]["Span"] | null;
        };
        /** @description A worker after it reported, or was told. */
        OneWorker: {
            worker: components["schemas"]["Worker"];
        };
        /** @description A page of the audit, newest first. */
        Audit: {
            entries: components["schemas"]["AuditEntry"][];
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description An action on record. */
        AuditEntry: {
            /**
             * Format: int64
             * @description Its place.
             */
            seq: number;
            /** @description When. */
            at: components["schemas"]["Time"];
            /** @description Who. */
            actor: string;
            /** @description What, as a word. */
            action: string;
            /** @description On what. */
            target: string;
            /** @description How it stood before and after. */
            detail: Record<string, never>;
        };
        /** @description Every key that grants no more than the caller's own, by name. */
        AccessKeys: {
            keys: components["schemas"]["AccessKey"][];
        };
        /** @description An access key, without what proves it. */
        AccessKey: {
            /** @description Its name: who it stands for in logs and audit. */
            name: string;
            /** @description What it may do. */
            roles: string[];
            /** @description Only for these queues. */
            queues?: string[] | null;
            expires_at?: components["schemas"]["Time"] | null;
            /** @description When it was made. */
            created_at: components["schemas"]["Time"];
            revoked_at?: components["schemas"]["Time"] | null;
        };
        /** @description A key to make. */
        NewAccessKey: {
            /** @description Its name: who it stands for in logs and audit. Taken once, also after it was revoked. */
            name: string;
            /** @description What it may do: `viewer`, `producer`, `worker`, `approver`, `operator`, `admin`. */
            roles: string[];
            /** @description Only for these queues; for all when it is absent. */
            queues?: string[] | null;
            expires_at?: components["schemas"]["Time"] | null;
        };
        /** @description A key that was made. */
        MadeAccessKey: {
            key: components["schemas"]["AccessKey"];
            /** @description The key itself. It is shown this once and kept nowhere. */
            secret: string;
        };
        /** @description One key. */
        OneAccessKey: {
            key: components["schemas"]["AccessKey"];
        };
        /** @description Who is signed in. */
        Session: {
            /** @description The key's name. */
            name: string;
            /** @description What it may do. */
            roles: string[];
            /** @description Only for these queues. */
            queues?: string[] | null;
            expires_at?: components["schemas"]["Time"] | null;
        };
        /** @description Who signs in. */
        SignIn: {
            /** @description The key, unless it is the bearer. */
            key?: string | null;
        };
        /** @description Every trigger, by name. */
        Triggers: {
            triggers: components["schemas"]["Trigger"][];
        };
        /** @description A trigger as it stands. */
        Trigger: {
            /** @description Its name. */
            name: string;
            /** @description What each event starts. */
            jobs: components["schemas"]["TriggeredJob"][];
            /**
             * Format: int64
             * @description Grows with every change by a person.
             */
            version: number;
            /** @description Whether it takes signed webhooks: it has a secret. */
            signed: boolean;
            /** @description Where its webhooks are sent to. */
            webhook: string;
            /** @description Why it starts nothing. */
            broken?: string | null;
            /** @description When it was made. */
            created_at: components["schemas"]["Time"];
            /** @description When a person changed it last. */
            updated_at: components["schemas"]["Time"];
        };
        /** @description A job that a trigger starts. */
        TriggeredJob: Record<string, never> & {
            /** @description The template; absent where the payload of the event is passed on as it is. */
            payload?: unknown;
        };
        /** @description A trigger: what each event starts. */
        NewTrigger: {
            /**
             * @description One job of each. A job without `payload` gets that of the event as it is; a `payload` is a template, in which
             *     `{{payload.some.path}}` is filled in.
             */
            jobs: components["schemas"]["NewJob"][];
            /**
             * Format: int64
             * @description Only if it is at this version; 0 if it must not be there.
             */
            expected_version?: number | null;
        };
        /** @description That it is gone. */
        TriggerRemoved: {
            removed: string;
        };
        /** @description An event for a trigger. */
        NewTriggerEvent: {
            /** @description Another event of this trigger with the same key is the same event: it starts nothing. */
            dedupe_key?: string | null;
            /** @description What it brings. */
            payload?: components["schemas"]["Json"];
            /** @description The same as base64, for what is not JSON. */
            payload_base64?: string | null;
        };
        /** @description What became of an event. */
        TriggerFired: {
            /**
             * Format: uuid
             * @description The event that is kept: this one, or the first with its key.
             */
            event: string;
            /** @description Whether an event with its key came before; then this one started nothing. */
            deduped: boolean;
            /** @description Whether that one brought another payload. */
            payload_differs: boolean;
            /** @description The jobs that the event started. */
            jobs: string[];
            /** @description Why it started none yet: it is kept, and tried again when the trigger is changed. */
            problem?: string | null;
        };
        /** @description A secret that was made. */
        TriggerSecret: {
            /** @description The secret itself, for whoever sends the webhooks. It is shown this once. */
            secret: string;
            /** @description Where webhooks are sent to. */
            webhook: string;
        };
        /** @description Events of a trigger. */
        TriggerEvents: {
            events: components["schemas"]["TriggerEvent"][];
        };
        /** @description An event that came in. */
        TriggerEvent: {
            /** Format: uuid */
            id: string;
            /** @description The trigger that it came for. */
            trigger: string;
            /** @description What makes another one the same. */
            dedupe_key?: string | null;
            /** @description What it brought. */
            payload?: components["schemas"]["Raw"];
            /** @description The same as base64, for what is not JSON. */
            payload_base64?: string | null;
            /** @description Who sent it. */
            actor: string;
            received_at: components["schemas"]["Time"];
            processed_at?: components["schemas"]["Time"] | null;
            due_at?: components["schemas"]["Time"] | null;
            /**
             * Format: int32
             * @description How often it was tried in vain.
             */
            tries: number;
            jobs: string[];
            /** @description Why it started nothing. */
            problem?: string | null;
        };
        /** @description A webhook: any JSON. */
        Webhook: components["schemas"]["Json"];
        /** @description That a webhook is kept. */
        WebhookTaken: {
            /**
             * Format: uuid
             * @description The event that it became.
             */
            event: string;
            /** @description Whether a webhook with its id came before. */
            deduped: boolean;
        };
        /** @description Every subscription, by name. */
        Subscriptions: {
            subscriptions: components["schemas"]["Subscription"][];
        };
        /** @description A subscription as it stands. */
        Subscription: {
            /** @description Its name. */
            name: string;
            /** @description Where to. Only operators see more than the host. */
            url: string;
            queues: string[];
            kinds: string[];
            types: string[];
            statuses: string[];
            /** @description Where it begins: `now` or `start`. */
            from: string;
            timeout?: components["schemas"]["Span"] | null;
            give_up_after: components["schemas"]["Span"];
            /** @description The exchange of a broker. */
            exchange?: string | null;
            mandatory?: boolean | null;
            /** @description The queue of a broker whose messages are taken in. */
            consume?: string | null;
            enqueue?: components["schemas"]["MessageJob"] | null;
            dead_letter?: string | null;
            /** @description `on`, `failing` or `paused`. */
            status: string;
            /** @description Why it is failing or paused. */
            why?: string | null;
            since?: components["schemas"]["Time"] | null;
            moved_at?: components["schemas"]["Time"] | null;
            /**
             * Format: int64
             * @description Grows with every change by a person.
             */
            version: number;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            /** @description The secret of its webhooks, in the answer to the request that made it and never again. */
            secret?: string | null;
        };
        /** @description The job that a message becomes, with the message's body as its payload and the message's id as its unique key. */
        MessageJob: {
            /** @description Its queue. */
            queue: string;
            /** @description Its kind. */
            kind: string;
        };
        /** @description A subscription: which events, and where to. */
        NewSubscription: {
            /**
             * @description `https://…` or `http://…`: each event is POSTed there, signed as Standard Webhooks says. `amqp://USER@HOST/VHOST` or
             *     `amqps://…`: each is published to RabbitMQ.
             */
            url: string;
            /**
             * @description The secret that webhooks are signed with (`whsec_…`), or the broker's password. What is left out stays as it is; a
             *     new webhook gets one.
             */
            secret?: string | null;
            /** @description Events of jobs in these queues; of all when empty. */
            queues?: string[];
            /** @description Events of jobs of these kinds; of all when empty. */
            kinds?: string[];
            /** @description Events of these types; of all when empty. */
            types?: string[];
            /** @description Events by which a job came to stand here; all when empty. */
            statuses?: string[];
            /** @description Where it begins, and begins again after a restore: `now` or `start`; now. */
            from?: string | null;
            timeout?: components["schemas"]["Span"] | null;
            give_up_after?: components["schemas"]["Span"] | null;
            /** @description The topic exchange of a broker; `windlass`. The routing key is QUEUE.KIND.TYPE. */
            exchange?: string | null;
            /** @description Whether an event for which the broker has no queue is kept and tried again, rather than dropped; true. */
            mandatory?: boolean | null;
            /** @description The other way round: a queue of the broker whose messages are taken in. It must be there. */
            consume?: string | null;
            enqueue?: components["schemas"]["MessageJob"] | null;
            /** @description The exchange that takes messages that can never be dealt with; `windlass.dead`. It is declared, with a queue of its name. */
            dead_letter?: string | null;
            /**
             * Format: int64
             * @description Only if it is at this version; 0 if it must not be there.
             */
            expected_version?: number | null;
        };
        /** @description That it is gone. */
        SubscriptionRemoved: {
            removed: string;
        };
        /** @description Why a subscription is paused. */
        PauseSubscription: {
            /** @description For those who look. */
            reason?: string | null;
        };
        /** @description The settings as they stand. */
        SettingsState: {
            /** @description What is in force. */
            settings: components["schemas"]["Settings"];
            /**
             * Format: int64
             * @description Grows with every change; 0 while nobody changed anything.
             */
            version: number;
            changed_at?: components["schemas"]["Time"] | null;
            /** @description By whom. */
            changed_by?: string | null;
        };
        /** @description All settings. */
        Settings: {
            default_lease?: components["schemas"]["Span"] | null;
            missed_after: components["schemas"]["Span"];
            /** Format: int32 */
            missed_max: number;
            reassign_after: components["schemas"]["Span"];
            trigger_events_kept: components["schemas"]["Span"];
            webhook_tolerance: components["schemas"]["Span"];
            /** Format: int32 */
            webhooks_per_minute: number;
            retention: components["schemas"]["RetentionRule"][];
            retention_archive: boolean;
            tombstones_kept?: components["schemas"]["Span"] | null;
            log_bodies_kept?: components["schemas"]["Span"] | null;
            cancel_idle_after?: components["schemas"]["Span"] | null;
            seals: boolean;
        };
        /** @description How long some finished jobs are kept. */
        RetentionRule: {
            status?: string | null;
            queue?: string | null;
            kind?: string | null;
            keep?: components["schemas"]["Span"] | null;
        };
        /** @description Settings to put in force. */
        PutSettings: {
            /** @description All of them. */
            settings: components["schemas"]["NewSettings"];
            /**
             * Format: int64
             * @description The version they were made from: at any other they are refused.
             */
            expected_version: number;
        };
        /** @description All settings. What is left out has its default. */
        NewSettings: {
            default_lease?: components["schemas"]["Span"] | null;
            missed_after?: components["schemas"]["Span"] | null;
            /**
             * Format: int32
             * @description The most missed slots that any schedule makes up for in one go; 1000.
             */
            missed_max?: number | null;
            reassign_after?: components["schemas"]["Span"] | null;
            trigger_events_kept?: components["schemas"]["Span"] | null;
            webhook_tolerance?: components["schemas"]["Span"] | null;
            /**
             * Format: int32
             * @description How many webhooks one trigger takes per minute and server; 600.
             */
            webhooks_per_minute?: number | null;
            /** @description How long finished jobs are kept, by rules of which the most specific decides; for ever without one. */
            retention?: components["schemas"]["NewRetentionRule"][] | null;
            /** @description Whether a finished job is written to the archive before it is removed; yes. */
            retention_archive?: boolean | null;
            tombstones_kept?: components["schemas"]["Span"] | null;
            log_bodies_kept?: components["schemas"]["Span"] | null;
            cancel_idle_after?: components["schemas"]["Span"] | null;
            /** @description Whether the log is sealed, so that a change of it behind the engine's back shows; yes. */
            seals?: boolean | null;
        };
        /** @description How long some finished jobs are kept. */
        NewRetentionRule: {
            /** @description Jobs that ended so: completed, failed, timed_out or cancelled; all when left out. */
            status?: string | null;
            /** @description Jobs of this queue; all when left out. */
            queue?: string | null;
            /** @description Jobs of this kind; all when left out. */
            kind?: string | null;
            keep?: components["schemas"]["Span"] | null;
        };
        /** @description What to do to everything that a filter matches. */
        Bulk: {
            filter?: components["schemas"]["Filter"] | null;
            /** @description These jobs, at most 1000. */
            ids?: string[] | null;
            /** @description What to do. */
            action: components["schemas"]["Action"];
            /** @description Whether to count only. */
            dry_run: boolean;
            run_at?: components["schemas"]["Time"] | null;
            spread?: components["schemas"]["Span"] | null;
            /** @description Where the last request ended. */
            cursor?: string | null;
            /** @description Why, for cancelled jobs. */
            reason?: string | null;
            hold?: components["schemas"]["Span"] | null;
        };
        /** @description Which jobs, as a body says it. */
        Filter: {
            status?: components["schemas"]["Words"] | null;
            /** @description Dead letters: failed and timed out. */
            dead?: boolean | null;
            /** @description In this queue. */
            queue?: string | null;
            /** @description Of this kind. */
            kind?: string | null;
            /** @description Of this agent. */
            agent_id?: string | null;
            /** @description With this tag. */
            tag?: string | null;
            /** @description Spawned by this job. */
            parent_id?: string | null;
            /** @description Held by this worker. */
            worker_id?: string | null;
            /** @description With this last error. */
            error_code?: string | null;
            created_after?: components["schemas"]["Time"] | null;
            created_before?: components["schemas"]["Time"] | null;
            finished_after?: components["schemas"]["Time"] | null;
            finished_before?: components["schemas"]["Time"] | null;
        };
        /**
         * @description What is done to jobs.
         * @enum {string}
         */
        Action: "cancel" | "redrive";
        /** @description One word, or several. */
        Words: string | string[];
        /** @description What was found and done. */
        BulkDone: {
            /** @description Jobs that the filter matches and the action is for, as far as this request looked. */
            matched: number;
            /** @description Some of them. */
            sample: string[];
            /** @description Jobs that were acted on. */
            done: number;
            /** @description Jobs that had moved on meanwhile. */
            skipped: number;
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description Something that is done to many jobs. */
        Operation: {
            /** @description Its id. */
            id: string;
            /** @description What is done. */
            action: components["schemas"]["Action"];
            /** @description How far it is. */
            phase: components["schemas"]["OperationPhase"];
            filter?: components["schemas"]["Filter"] | null;
            /** @description To so many jobs that were named. */
            ids?: number | null;
            run_at?: components["schemas"]["Time"] | null;
            spread?: components["schemas"]["Span"] | null;
            /** @description Why. */
            reason?: string | null;
            /** @description Who wants it. */
            by: string;
            /** @description When it was asked for. */
            created_at: components["schemas"]["Time"];
            /** @description When it begins. */
            begins_at: components["schemas"]["Time"];
            ended_at?: components["schemas"]["Time"] | null;
            /** @description Who stopped it. */
            stopped_by?: string | null;
            /**
             * Format: int64
             * @description Jobs that were looked at and that the action is for.
             */
            matched: number;
            /**
             * Format: int64
             * @description Jobs that were acted on.
             */
            done: number;
            /**
             * Format: int64
             * @description Jobs that had moved on, or that somebody kept locked.
             */
            skipped: number;
        };
        /**
         * @description How far an operation is.
         * @enum {string}
         */
        OperationPhase: "held" | "running" | "done" | "stopped";
        /** @description Operations, the latest first. */
        Operations: {
            operations: components["schemas"]["Operation"][];
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description What fires in a stretch of time. */
        Calendar: {
            from: components["schemas"]["Time"];
            to: components["schemas"]["Time"];
            /** @description Schedules that fire in it, by name. What is paused does not. */
            schedules: components["schemas"]["CalendarSchedule"][];
            /** @description Whether it is all of it: 20,000 slots are looked at, at most. */
            complete: boolean;
        };
        /** @description When one schedule fires. */
        CalendarSchedule: {
            name: string;
            /** @description How often. */
            count: number;
            /** @description Each slot; none of one with more than 200. */
            slots: components["schemas"]["Time"][];
            /** @description How many in each hour, of one with more. */
            hours: components["schemas"]["CalendarHour"][];
        };
        /** @description How often a schedule fires in an hour. */
        CalendarHour: {
            /** @description When it begins, in UTC. */
            at: components["schemas"]["Time"];
            count: number;
        };
        /** @description Every view, by name. */
        Views: {
            /** @description They. */
            views: components["schemas"]["View"][];
        };
        /** @description A filter with a name. */
        View: {
            /** @description Its name. */
            name: string;
            /** @description The filter. */
            filter: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Grows with every change.
             */
            version: number;
            /** @description Who made it. */
            by: string;
            /** @description When it was changed last. */
            updated_at: components["schemas"]["Time"];
        };
        /** @description A filter to keep under a name. */
        NewView: {
            /** @description The filter of a list of jobs, as its address has it: `{"queue": "mail", "status": "failed"}`. */
            filter: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Only if it is at this version; 0 if it must not be there.
             */
            expected_version?: number | null;
        };
        /** @description That it is gone. */
        PaperRemoved: {
            removed: string;
        };
        /** @description Every alert, by name. */
        Alerts: {
            /** @description They. */
            alerts: components["schemas"]["Alert"][];
        };
        /** @description An alert as it stands. */
        Alert: {
            /** @description Its name. */
            name: string;
            /** @description What is watched. */
            metric: components["schemas"]["AlertMetric"];
            /** @description In this queue; in all. */
            queue?: string | null;
            longer_than?: components["schemas"]["Span"] | null;
            /**
             * Format: int64
             * @description The share that it is measured against.
             */
            percent?: number | null;
            /** @description How long it must hold before it fires. */
            for: components["schemas"]["Span"];
            /** @description The subscription through whose address each change is sent. */
            notify?: string | null;
            firing_since?: components["schemas"]["Time"] | null;
            /** @description Why it fires. */
            why?: string | null;
            /** @description Why the last change could not be sent. */
            unsent?: string | null;
            /**
             * Format: int64
             * @description Grows with every change, also of its state.
             */
            version: number;
        };
        /**
         * @description What is watched.
         * @enum {string}
         */
        AlertMetric: "oldest_due" | "failure_rate" | "no_worker" | "approval_expires" | "schedule_missed";
        /** @description Something that should not last. */
        NewAlert: {
            /** @description What is watched. */
            metric: components["schemas"]["AlertMetric"];
            /** @description In this queue; in all, each for itself. */
            queue?: string | null;
            longer_than?: components["schemas"]["Span"] | null;
            /**
             * Format: int64
             * @description The share that it is measured against, 1 to 100.
             */
            percent?: number | null;
            for?: components["schemas"]["Span"] | null;
            /** @description The subscription through whose address each change is sent, signed as it signs. */
            notify?: string | null;
            /**
             * Format: int64
             * @description Only if it is at this version; 0 if it must not be there.
             */
            expected_version?: number | null;
        };
        /** @description Marks, the latest first. */
        Marks: {
            /** @description They. */
            marks: components["schemas"]["Mark"][];
        };
        /** @description A mark in time. */
        Mark: {
            /** @description Its id. */
            id: string;
            /** @description When it happened. */
            at: components["schemas"]["Time"];
            /** @description What happened. */
            text: string;
            /** @description Who said so. */
            by: string;
        };
        /** @description Something that happened outside, such as a deploy. */
        NewMark: {
            /** @description What happened, 1 to 200 characters. */
            text: string;
            at?: components["schemas"]["Time"] | null;
        };
        /** @description How everything stands at one moment. */
        Now: {
            /** @description The moment. */
            as_of: components["schemas"]["Time"];
            /** @description Jobs by status, each counted up to 100,000. */
            statuses: {
                [key: string]: components["schemas"]["Count"];
            };
            /** @description Queues that have a setting or a job that may run, now or later, or runs, or in which something happened in the last day. */
            queues: components["schemas"]["Queue"][];
            /** @description Workers. */
            workers: components["schemas"]["WorkersNow"];
            /** @description Approvals that nobody has decided, up to 1,000. */
            approvals: components["schemas"]["Count"];
            /** @description Problems that are open, up to 1,000. */
            problems: components["schemas"]["Count"];
        };
        /** @description A count that may have stopped. */
        Count: {
            /**
             * Format: int64
             * @description How many.
             */
            count: number;
            /** @description Whether there are more than were counted. */
            capped: boolean;
        };
        /** @description Workers at one moment. */
        WorkersNow: {
            /**
             * Format: int64
             * @description Those that take jobs.
             */
            live: number;
            /**
             * Format: int64
             * @description Those that take no more.
             */
            draining: number;
            /**
             * Format: int64
             * @description Those that stopped without a word.
             */
            gone: number;
            /**
             * Format: int64
             * @description Jobs that the live ones can run at once.
             */
            capacity: number;
        };
        /** @description What happened over time. */
        Stats: {
            /** @description The beginning of the first step. */
            from: components["schemas"]["Time"];
            /** @description The end of the last step. */
            to: components["schemas"]["Time"];
            /** @description How long a step is. */
            step: components["schemas"]["Span"];
            as_of?: components["schemas"]["Time"] | null;
            /** @description Whether all rows were read. If not, ask for less: a shorter time, one queue, one kind. */
            complete: boolean;
            /** @description The upper ends of the buckets of `wait` and `run`, in seconds. */
            bounds: number[];
            /** @description The series, those with most events first. What is beyond the first 20 is added up in one with `other`. */
            series: components["schemas"]["StatsSeries"][];
        };
        /** @description One series. */
        StatsSeries: {
            /** @description Its queue, if it is by queue. */
            queue?: string | null;
            /** @description Its kind, if it is by kind. */
            kind?: string | null;
            /** @description Its outcome, if it is by outcome. */
            outcome?: string | null;
            /** @description Whether it is the sum of all that are not shown. */
            other?: boolean;
            /** @description The steps in which there was something. */
            points: components["schemas"]["StatsPoint"][];
        };
        /** @description One step of a series. */
        StatsPoint: {
            /** @description When it begins. */
            at: components["schemas"]["Time"];
            /**
             * @description How many, by what they were: enqueued, started, completed, retried, failed, timed_out, cancelled, released, waited,
             *     lost, redriven.
             */
            counts: {
                [key: string]: number;
            };
            wait?: components["schemas"]["Times"] | null;
            run?: components["schemas"]["Times"] | null;
            gauges?: components["schemas"]["Gauges"] | null;
        };
        /** @description Lengths of time. */
        Times: {
            /**
             * Format: int64
             * @description How many.
             */
            count: number;
            /**
             * Format: double
             * @description Half of them took no longer, in seconds, within 17.5 %.
             */
            p50: number;
            /**
             * Format: double
             * @description 95 of 100 took no longer.
             */
            p95: number;
            /**
             * Format: double
             * @description 99 of 100 took no longer.
             */
            p99: number;
            /** @description Number of a bucket and how many are in it. Buckets of steps and series add up. */
            buckets: [
                number,
                number
            ][];
        };
        /** @description How a queue stood. */
        Gauges: {
            /**
             * Format: int64
             * @description Jobs that a worker could take.
             */
            depth: number;
            /**
             * Format: double
             * @description How long the oldest of them had been due, in seconds.
             */
            oldest: number;
            /**
             * Format: int64
             * @description Jobs that ran.
             */
            busy: number;
            /**
             * Format: int64
             * @description Jobs that live workers could run at once.
             */
            capacity: number;
        };
        /** @description What is to be counted again. */
        RebuildStats: {
            since?: components["schemas"]["Time"] | null;
        };
        /** @description What is counted again. */
        StatsRebuild: {
            since?: components["schemas"]["Time"] | null;
        };
        /** @description A page of problems, last seen first. */
        Problems: {
            problems: components["schemas"]["ProblemGroup"][];
            /** @description Where to go on; none at the end. */
            next_cursor?: string | null;
        };
        /** @description A problem. */
        ProblemGroup: {
            /** @description What tells it from others. */
            fingerprint: string;
            /** @description The kind of its jobs. */
            kind: string;
            /** @description The error's code. */
            code: string;
            /** @description The error's message, with `#` for numbers and ids. */
            message: string;
            /** @description What an operator said of it. */
            state: components["schemas"]["ProblemState"];
            /** @description Since when. */
            state_at: components["schemas"]["Time"];
            /** @description Who said so; null when it was seen first or again. */
            state_by?: string | null;
            /**
             * Format: int64
             * @description How often it was seen again after it had been resolved.
             */
            reopened: number;
            /** @description When it was seen first. */
            first_seen_at: components["schemas"]["Time"];
            /** @description When it was seen last. */
            last_seen_at: components["schemas"]["Time"];
            /** @description The job that it was seen at last. */
            last_job: string;
            /**
             * Format: int64
             * @description Errors in 90 days; a job that is retried may have several.
             */
            errors: number;
            /**
             * Format: int64
             * @description After how many of them the job gave up.
             */
            dead: number;
            /** @description By hour, oldest first; lists show the last 48 hours. */
            hours: components["schemas"]["ProblemHour"][];
        };
        /**
         * @description What becomes of a problem.
         * @enum {string}
         */
        ProblemState: "open" | "resolved" | "muted";
        /** @description How often a problem was seen in an hour. */
        ProblemHour: {
            /** @description When it begins. */
            at: components["schemas"]["Time"];
            /**
             * Format: int64
             * @description Errors in it.
             */
            errors: number;
            /**
             * Format: int64
             * @description After how many of them the job gave up.
             */
            dead: number;
        };
        /** @description What a problem is to be. */
        PutProblem: {
            /** @description What it is to be. */
            state: components["schemas"]["ProblemState"];
        };
        /** @description How the server stands. */
        Health: {
            /** @description `ok` or `ready`. */
            status: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
