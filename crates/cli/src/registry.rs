//! What surrounds jobs: `windlass approvals`, `queues`, `workers`, `audit`, `keys`.

use crate::api_client::ApiClient;
use crate::args::{
    ApprovalsCommand, AuditCommand, Deciding, KeysCommand, NewKey, QueueArg, QueueSettings, QueuesCommand,
    WorkersCommand,
};
use crate::fail::{Failure, Outcome};
use crate::ids;
use crate::out::Out;
use crate::queue_show;
use crate::shape::Reply;
use crate::show::{self, list, moment, text};
use crate::span::ago;
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_core::lane::{Full, LaneMode};
use windlass_core::span::parse_ms;
use windlass_core::{Invalid, LeaseMs, Name, QueueDefaults, QueueLimits, QueueMode, Rate, Role, Who};
use windlass_http::wire::approval::{ApprovalShape, ApprovalsPage};
use windlass_http::wire::control::{self, EndpointBody};
use windlass_http::wire::lane::{BreakerShape, LaneShape, LanesShape, LimitsShape};
use windlass_http::wire::registry::{
    AuditPage, AuditShape, KeyShape, KeysPage, MadeKey, OneKey, OneWorker, WorkerShape, WorkersPage,
};
use windlass_http::wire::time::{Span as WireSpan, Time};
use windlass_http::{ROLES, role_word};
use windlass_store::fresh;

/// `windlass approvals …`
pub async fn approvals(command: ApprovalsCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        ApprovalsCommand::Ls { status, job, limit } => {
            let job = match job {
                Some(id) => Some(ids::job(&id, door).await?),
                None => None,
            };
            let reply = door.approvals(job, status, limit.into()).await?;
            show::read(out, &reply, |out, page: ApprovalsPage| {
                let row = |one: &ApprovalShape| {
                    let votes = format!("{}/{}", one.approved, one.required);
                    let prompt = out.short(&show::one_line(&one.prompt), 60);
                    let (id, job, name) = (one.id.clone(), one.job_id.clone(), one.name.clone());
                    vec![id, job, name, one.status.clone(), votes, show::at(one.expires_at), prompt]
                };
                let rows: Vec<_> = page.approvals.iter().map(row).collect();
                let head = ["ID", "JOB", "NAME", "STATUS", "VOTES", "EXPIRES", "PROMPT"];
                out.table(&head, &rows, "no approval is asked for");
            })
        }
        ApprovalsCommand::Approve(deciding) => decide(deciding, true, door, out).await,
        ApprovalsCommand::Deny(deciding) => decide(deciding, false, door, out).await,
    }
}

async fn decide(deciding: Deciding, approve: bool, door: &ApiClient, out: &Out) -> Outcome {
    let id = ids::approval(&deciding.id, door).await?;
    let reply = door.decide(id, approve, deciding.reason, deciding.token).await?;
    show::reply(out, &reply, |out, value| out.line(format!("{id} is {}", text(&value["status"]))));
    Ok(())
}

/// `windlass queues …`
pub async fn queues(command: QueuesCommand, create: bool, door: &ApiClient, out: &Out) -> Outcome {
    let reply = match command {
        QueuesCommand::Ls => {
            let reply = door.queues().await?;
            show::reply(out, &reply, |out, page| show_queues(out, list(page, "queues")));
            return Ok(());
        }
        QueuesCommand::Show(which) => return queue_show::run(which.queue, door, out).await,
        QueuesCommand::Pause(which) => pause(which, true, create, door).await?,
        QueuesCommand::Resume(which) => pause(which, false, create, door).await?,
        QueuesCommand::Set(settings) => {
            let defaults = QueueDefaults {
                max_retries: settings.max_retries,
                timeout_ms: settings.timeout.map(|span| span.ms()),
                lease_ms: settings.lease.map(|span| LeaseMs::new(span.ms())).transpose()?,
                grace_ms: settings.grace.map(|span| span.ms()),
                backoff: None,
            };
            defaults.check()?;
            let mode = settings.mode.as_deref().map(QueueMode::parse).transpose()?;
            let flow = flow(&settings)?;
            let endpoint = endpoint(&settings)?;
            door.set_queue(Name::parse("queue", settings.queue)?, defaults, mode, flow, endpoint).await?
        }
    };
    show::reply(out, &reply, |out, value| {
        show_queues(out, std::slice::from_ref(&value["queue"]));
        if let Some(secret) = value["queue"]["endpoint"]["secret"].as_str() {
            out.line(format!("what its endpoint is sent is signed with {secret}, which is not shown again"));
        }
    });
    Ok(())
}

/// The endpoint that was given; none if it stays as it is, an empty one if it goes.
fn endpoint(settings: &QueueSettings) -> Outcome<Option<EndpointBody>> {
    let secret = settings.endpoint_secret_file.as_ref().map(|path| {
        let why = |error| format!("the secret's file {} cannot be read: {error}", path.display());
        std::fs::read_to_string(path).map_err(|error| Failure::usage(why(error)))
    });
    let secret = secret.transpose()?.map(|text| text.trim().to_owned());
    let given = settings.endpoint.is_some() || settings.no_endpoint;
    Ok(given.then(|| EndpointBody { url: settings.endpoint.clone(), secret, max: settings.endpoint_max }))
}

/// The limits that were given; none if they stay as they are, empty ones if all go.
fn flow(settings: &QueueSettings) -> Outcome<Option<LimitsShape>> {
    let mut keys = BTreeMap::<String, LaneShape>::new();
    for text in &settings.key_limit {
        let (key, n) = of_key("--key-limit", text)?;
        keys.entry(key).or_default().concurrency = Some(n);
    }
    for text in &settings.weight {
        let (key, n) = of_key("--weight", text)?;
        keys.entry(key).or_default().weight = Some(n);
    }
    let mut each_rate = None;
    for text in &settings.key_rate {
        let (key, rate) =
            text.rsplit_once('=').map_or((None, text.as_str()), |(key, rate)| (Some(key), rate));
        let rate = Rate { burst: settings.key_burst, ..Rate::parse("--key-rate", rate)? }.into();
        match key {
            Some(key) => keys.entry(key.to_owned()).or_default().rate = Some(rate),
            None => each_rate = Some(rate),
        }
    }
    let rate = settings.rate.as_deref().map(|text| Rate::parse("--rate", text)).transpose()?;
    let rate = rate.map(|rate| Rate { burst: settings.burst, ..rate }.into());
    let each = LanesShape {
        concurrency: settings.per_key,
        weight: None,
        rate: each_rate,
        backlog: settings.backlog,
        full: settings.full.as_deref().map(full).transpose()?,
        mode: settings.newest.then_some(LaneMode::Newest),
        keys,
    };
    let has_rules = each.concurrency.is_some() || each.rate.is_some() || !each.keys.is_empty();
    let looks = each.backlog.is_some() || each.full.is_some() || each.mode.is_some();
    let lanes = (settings.fair || has_rules || looks).then_some(each);
    let aging = settings.aging.map(|span| WireSpan::from_ms(span.ms()));
    let breaker = settings.breaker.as_deref().map(breaker).transpose()?;
    let given = settings.no_limits
        || settings.limit.is_some()
        || rate.is_some()
        || lanes.is_some()
        || aging.is_some()
        || breaker.is_some();
    let flow = given.then_some(LimitsShape { concurrency: settings.limit, rate, lanes, aging, breaker });
    if let Some(flow) = &flow {
        QueueLimits::try_from(flow.clone())?.check()?;
    }
    Ok(flow)
}

/// `5/10,within=1m,pause=30s`
fn breaker(text: &str) -> Outcome<BreakerShape> {
    let wrong = || {
        let takes =
            "it takes how many of how many fail, in which time and the pause, like 5/10,within=1m,pause=30s";
        Failure::usage(format!("--breaker has {text}; {takes}"))
    };
    let (mut errors, mut within, mut pause) = (None, None, None);
    for part in text.split(',').map(str::trim) {
        match part.split_once('=') {
            Some(("within", time)) => within = Some(WireSpan::from_ms(parse_ms("--breaker", time)?)),
            Some(("pause", time)) => pause = Some(WireSpan::from_ms(parse_ms("--breaker", time)?)),
            Some(_) => return Err(wrong()),
            None => {
                errors = part.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)))
            }
        }
    }
    let ((errors, of), within, pause) =
        errors.zip(within).zip(pause).map(|((n, within), pause)| (n, within, pause)).ok_or_else(wrong)?;
    Ok(BreakerShape { errors, of, within, pause })
}

/// `refuse` or `drop`
fn full(word: &str) -> Outcome<Full> {
    Full::parse(word).ok_or_else(|| Failure::usage(format!("--full has {word}; it takes refuse or drop")))
}

/// `acme=3`
fn of_key(flag: &str, text: &str) -> Outcome<(String, i32)> {
    let wrong = || Failure::usage(format!("{flag} has {text}; it takes a key and a number, like acme=3"));
    let (key, n) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((key.to_owned(), n.parse().map_err(|_| wrong())?))
}

/// Pauses or resumes a queue that is there: one with a setting, or with a job of any status. A typo is told as one.
async fn pause(which: QueueArg, pause: bool, create: bool, door: &ApiClient) -> Outcome<Reply> {
    let name = Name::parse("queue", which.queue)?;
    if !create && !is_there(&name, door).await? {
        return Err(Failure::not_found(format!(
            "there is no queue {name}: no job is or was in it, and nothing is set for it; `windlass queues ls` lists those \
             that are, and --create takes this one all the same"
        )));
    }
    door.pause(name, pause).await
}

async fn is_there(name: &Name, door: &ApiClient) -> Outcome<bool> {
    let known = door.queues().await?;
    if list(&known.value, "queues").iter().any(|queue| queue["name"] == name.as_str()) {
        return Ok(true);
    }
    let pairs = vec![("queue".to_owned(), name.to_string())];
    Ok(!list(&door.jobs(&pairs, None, 1).await?.value, "jobs").is_empty())
}

/// Limits in words. What a newer server says of them is shown as it came.
pub fn limits(flow: &Value) -> String {
    if flow.is_null() {
        return String::new();
    }
    let shape = serde_json::from_value::<LimitsShape>(flow.clone()).ok();
    let limits = shape.and_then(|shape| QueueLimits::try_from(shape).ok());
    limits.map_or_else(|| text(flow), |limits| limits.to_string())
}

/// Whether a queue hands out jobs, and why not.
pub fn standing(queue: &Value) -> (&'static str, String) {
    let (paused, held, broken) = (&queue["paused"], &queue["held_until"], &queue["broken"]);
    match (paused.is_null(), held.is_null()) {
        (true, true) if !broken.is_null() => {
            let (failed, ended) = (text(&broken["failed"]), text(&broken["ended"]));
            ("broken", format!("until {}: {failed} of {ended} attempts failed", moment(&broken["until"])))
        }
        (true, true) => ("open", String::new()),
        (true, false) => ("held", format!("until {}", moment(held))),
        (false, _) => ("paused", format!("by {} at {}", text(&paused["by"]), moment(&paused["at"]))),
    }
}

/// Queues as a table.
pub fn show_queues(out: &Out, queues: &[Value]) {
    let row = |queue: &Value| {
        let more = if queue["due_capped"] == true { "+" } else { "" };
        let (status, by) = standing(queue);
        let due = format!("{}{more}", text(&queue["due"]));
        let defaults = Some(text(&queue["defaults"])).filter(|text| text != "{}").unwrap_or_default();
        let limits = limits(&queue["flow"]);
        let (oldest, mut mode) = (moment(&queue["oldest_due_at"]), text(&queue["mode"]));
        if !queue["endpoint"].is_null() {
            mode = format!("{mode}, sent to {}", text(&queue["endpoint"]["url"]));
        }
        vec![text(&queue["name"]), status.to_owned(), mode, due, oldest, limits, defaults, by]
    };
    let rows: Vec<_> = queues.iter().map(row).collect();
    out.table(
        &["QUEUE", "STATUS", "MODE", "DUE", "OLDEST DUE", "LIMITS", "DEFAULTS", "PAUSED"],
        &rows,
        "no queue has a job or a setting",
    );
}

/// `windlass workers …`
pub async fn workers(command: WorkersCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        WorkersCommand::Ls => {
            let reply = door.workers().await?;
            show::read(out, &reply, |out, page: WorkersPage| {
                let row = |worker: &WorkerShape| {
                    let status = match (worker.live, worker.draining) {
                        (false, _) => "gone",
                        (true, true) => "draining",
                        (true, false) => "live",
                    };
                    let (queues, kinds) = (worker.queues.join(","), worker.kinds.join(","));
                    let kinds = if kinds.is_empty() { "all".to_owned() } else { kinds };
                    let (capacity, seen) = (worker.capacity.to_string(), show::at(worker.seen_at));
                    vec![worker.id.clone(), status.to_owned(), queues, kinds, capacity, seen]
                };
                let rows: Vec<_> = page.workers.iter().map(row).collect();
                out.table(
                    &["WORKER", "STATUS", "QUEUES", "KINDS", "CAPACITY", "SEEN"],
                    &rows,
                    "no worker has reported",
                );
            })
        }
        WorkersCommand::Drain { id } => {
            let reply = door.drain(Who::parse("worker", id)?, true).await?;
            show::read(out, &reply, |out, one: OneWorker| {
                out.line(format!("{} takes no more jobs", one.worker.id))
            })
        }
        WorkersCommand::Undrain { id } => {
            let reply = door.drain(Who::parse("worker", id)?, false).await?;
            show::read(out, &reply, |out, one: OneWorker| {
                out.line(format!("{} takes jobs again", one.worker.id))
            })
        }
    }
}

/// `windlass audit …`
pub async fn audit(command: AuditCommand, door: &ApiClient, out: &Out) -> Outcome {
    let AuditCommand::Ls { actor, action, target, since, until, limit } = command;
    let mut filter = Vec::new();
    for (name, value) in [
        ("actor", actor),
        ("action", action),
        ("target", target),
        ("since", since.map(|time| ago(&time))),
        ("until", until.map(|time| ago(&time))),
    ] {
        filter.extend(value.map(|value| (name.to_owned(), value)));
    }
    let reply = door.audit(&filter, limit.into()).await?;
    show::read(out, &reply, |out, page: AuditPage| {
        let row = |entry: &AuditShape| {
            let detail = serde_json::to_string(&entry.detail).unwrap_or_default();
            let (actor, action, target) = (entry.actor.clone(), entry.action.clone(), entry.target.clone());
            vec![show::at(entry.at), actor, action, target, out.short(&detail, 100)]
        };
        let rows: Vec<_> = page.entries.iter().map(row).collect();
        out.table(&["AT", "ACTOR", "ACTION", "TARGET", "DETAIL"], &rows, "nothing is on record");
    })
}

/// `windlass keys …`
pub async fn keys(command: KeysCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        KeysCommand::Create(new) => {
            let reply = door.create_key(&draft(new)?).await?;
            show::read(out, &reply, |out, made: MadeKey| {
                out.line(made.secret);
                out.remark("windlass: this is the key; it is shown once and kept nowhere");
            })
        }
        KeysCommand::Ls => {
            let reply = door.keys().await?;
            show::read(out, &reply, |out, page: KeysPage| {
                let row = |key: &KeyShape| {
                    let status = if key.revoked_at.is_none() { "valid" } else { "revoked" };
                    let queues =
                        key.queues.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(","));
                    let (made, expires) = (show::at(key.created_at), show::at(key.expires_at));
                    vec![key.name.clone(), status.to_owned(), key.roles.join(","), queues, made, expires]
                };
                let rows: Vec<_> = page.keys.iter().map(row).collect();
                out.table(
                    &["NAME", "STATUS", "ROLES", "QUEUES", "CREATED", "EXPIRES"],
                    &rows,
                    "there are no keys",
                );
            })
        }
        KeysCommand::Revoke { name } => {
            let reply = door.revoke_key(Who::parse("name", name)?).await?;
            show::read(out, &reply, |out, one: OneKey| out.line(format!("{} is revoked", one.key.name)))
        }
    }
}

fn draft(new: NewKey) -> Outcome<control::NewKey> {
    let roles =
        new.role.iter().flat_map(|words| words.split(',')).map(role).collect::<Result<Vec<_>, _>>()?;
    let queues = new.queue.iter().map(|queue| Name::parse("queue", queue)).collect::<Result<Vec<_>, _>>()?;
    let after = new.expires.map(|span| fresh::wall_clock().plus_ms(span.ms()));
    let expires_at = new.expires_at.map(|moment| moment.0).or(after);
    if expires_at.is_some_and(|at| at <= fresh::wall_clock()) {
        return Err(Failure::usage("the key would have expired already; choose a later end"));
    }
    let queues = (!queues.is_empty()).then(|| queues.iter().map(ToString::to_string).collect());
    let roles = roles.into_iter().map(|role| role_word(role).to_owned()).collect();
    let name = Who::parse("name", new.name)?.to_string();
    Ok(control::NewKey { name, roles, queues, expires_at: expires_at.map(Time) })
}

fn role(word: &str) -> Result<Role, Invalid> {
    let all = || ROLES.map(role_word).join(", ");
    let found = ROLES.into_iter().find(|role| role_word(*role) == word);
    found.ok_or_else(|| Invalid::new("role", word, format!("must be one of {}", all())))
}
