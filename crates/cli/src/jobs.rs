//! `windlass jobs …`: looking at jobs and acting on them.

pub mod filter;

use crate::api_client::ApiClient;
use crate::args::{
    Acting, Cancelling, Erasing, Forking, JobsCommand, Listing, Logging, Reading, Redriving, Showing,
    Signalling, Tailing, Watching,
};
use crate::enqueue::payload;
use crate::fail::{Failure, Outcome};
use crate::ids;
use crate::operations;
use crate::out::Out;
use crate::show;
use serde_json::{Value, json};
use windlass_core::limits::{EVENT_PAYLOAD_MAX_BYTES, PAGE_MAX, PAYLOAD_MAX_BYTES};
use windlass_core::{JobId, Key, Name};
use windlass_http::wire::job::JobsPage;
use windlass_http::wire::operate::{Action, BulkBody, CancelBody, ForkBody, RedriveBody, SignalBody};
use windlass_http::wire::raw::fields;
use windlass_http::wire::time::{Moment, Span, Time};

/// Carries out a command on jobs.
pub async fn run(command: JobsCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        JobsCommand::Ls(listing) => ls(*listing, door, out).await,
        JobsCommand::Show(showing) => {
            let id = match &showing.id {
                Some(id) => ids::job(id, door).await?,
                None => holder(&showing, door).await?,
            };
            let reply = door.job(id, showing.at_version).await?;
            show::reply(out, &reply, show::job);
            Ok(())
        }
        JobsCommand::Events(reading) => events(reading, door, out).await,
        JobsCommand::Watch(watching) => watch(watching, door, out).await,
        JobsCommand::Tail(tailing) => tail(*tailing, door, out).await,
        JobsCommand::Logs(logging) => logs(logging, door, out).await,
        JobsCommand::Cancel(cancelling) => cancel(cancelling, door, out).await,
        JobsCommand::Redrive(redriving) => redrive(redriving, door, out).await,
        JobsCommand::Erase(erasing) => erase(erasing, door, out).await,
        JobsCommand::Fork(forking) => fork(forking, door, out).await,
        JobsCommand::Signal(signalling) => signal(signalling, door, out).await,
    }
}

/// The job that holds a unique key.
async fn holder(showing: &Showing, door: &ApiClient) -> Outcome<JobId> {
    let key = showing.unique_key.clone().unwrap_or_default();
    let scope = match &showing.kind {
        Some(kind) => ("kind".to_owned(), kind.clone()),
        None => ("queue".to_owned(), showing.queue.clone()),
    };
    let told = format!("no job of {} {} holds the unique key {key}", scope.0, scope.1);
    let page = door.jobs(&vec![scope, ("unique_key".to_owned(), key)], None, 1).await?;
    match page.read::<JobsPage>()?.jobs.as_slice() {
        [job, ..] => Ok(JobId::parse(&job.id)?),
        [] => Err(Failure::not_found(told)),
    }
}

/// Follows the feed. One event per line, also as JSON.
async fn tail(tailing: Tailing, door: &ApiClient, out: &Out) -> Outcome {
    let pairs = filter::checked(tailing.filters.pairs(), door).await?;
    let (mut after, mut told) = (tailing.after, 0);
    loop {
        let page = door.feed(&pairs, after.as_deref()).await?.value;
        let events = show::list(&page, "events");
        for event in events {
            out.show(event, |out| show::fed(out, event));
            told += 1;
            if tailing.most == Some(told) {
                return Ok(());
            }
        }
        let is_quiet = events.is_empty();
        after = page["next_cursor"].as_str().map(str::to_owned).or(after);
        if is_quiet {
            door.changed().await;
        }
    }
}

async fn ls(listing: Listing, door: &ApiClient, out: &Out) -> Outcome {
    let pairs = filter::checked(listing.filters.pairs(), door).await?;
    let reply = door.jobs(&pairs, listing.cursor, listing.limit.into()).await?;
    show::read(out, &reply, show::jobs)
}

async fn events(reading: Reading, door: &ApiClient, out: &Out) -> Outcome {
    let reply = door.events(ids::job(&reading.id, door).await?, reading.after, reading.limit.into()).await?;
    show::reply(out, &reply, |out, value| {
        for event in show::list(value, "events") {
            show::event(out, event);
        }
    });
    Ok(())
}

/// Follows a job's log. One event per line, also as JSON.
async fn watch(watching: Watching, door: &ApiClient, out: &Out) -> Outcome {
    let id = ids::job(&watching.id, door).await?;
    let mut after = watching.after;
    loop {
        // Looked at before the log is read: what came with the end is then in it.
        let job = door.job(id, None).await?;
        let is_over = ended(&job.value);
        loop {
            let page = door.events(id, after, PAGE_MAX).await?;
            let events = show::list(&page.value, "events");
            for event in events {
                after = event["version"].as_i64().unwrap_or(after);
                out.show(event, |out| show::event(out, event));
            }
            if events.len() < PAGE_MAX {
                break;
            }
        }
        if is_over {
            let is_completed = job.value["status"] == "completed";
            return if is_completed { Ok(()) } else { Err(Failure::told()) };
        }
        door.changed().await;
    }
}

/// Whether a job has ended.
pub fn ended(job: &Value) -> bool {
    !job["finished_at"].is_null()
}

async fn logs(logging: Logging, door: &ApiClient, out: &Out) -> Outcome {
    let (id, mut after) = (ids::job(&logging.id, door).await?, logging.after);
    loop {
        let reply = door.logs(id, after, PAGE_MAX).await?;
        let lines = show::list(&reply.value, "lines");
        for line in lines {
            after = line["n"].as_i64().unwrap_or(after);
            out.show(line, |out| show::log_line(out, line));
        }
        if lines.len() < PAGE_MAX {
            return Ok(());
        }
    }
}

async fn cancel(cancelling: Cancelling, door: &ApiClient, out: &Out) -> Outcome {
    let Some(id) = &cancelling.which.id else {
        let wish =
            BulkBody { reason: cancelling.reason, ..bulk(&cancelling.which, Action::Cancel, door).await? };
        return many(wish, door, out).await;
    };
    let id = ids::job(id, door).await?;
    let wish = CancelBody {
        reason: cancelling.reason,
        force: Some(cancelling.force),
        force_after: Some(Span::from_ms(cancelling.force_after.ms())),
        expected_version: cancelling.expected_version,
    };
    let reply = door.cancel(id, &wish).await?;
    show::reply(out, &reply, |out, value| match value["job"]["status"].as_str() {
        Some("cancelled") => out.line(format!("{id} is cancelled")),
        status => out.line(format!(
            "{id} is {}: its holder was asked to stop, and is stopped if it does not",
            status.unwrap_or_default()
        )),
    });
    Ok(())
}

async fn erase(erasing: Erasing, door: &ApiClient, out: &Out) -> Outcome {
    let id = ids::job(&erasing.id, door).await?;
    let reply = door.erase(id, erasing.expected_version).await?;
    show::reply(out, &reply, |out, value| match (&value["replayed"], value["archive_files"].as_i64()) {
        (Value::Bool(true), Some(0)) => out.line(format!("{id} was erased before; nothing was left")),
        (_, files) => out.line(format!(
            "{id} is erased; {} files of the archive were written anew",
            files.unwrap_or_default()
        )),
    });
    Ok(())
}

async fn redrive(redriving: Redriving, door: &ApiClient, out: &Out) -> Outcome {
    let run_at = redriving.run_at.map(|moment| moment.0);
    let Some(id) = &redriving.which.id else {
        let spread = redriving.spread.map(|spread| Span::from_ms(spread.ms()));
        let run_at = run_at.map(Time);
        let wish = bulk(&redriving.which, Action::Redrive, door).await?;
        return many(BulkBody { run_at, spread, ..wish }, door, out).await;
    };
    let (payload, payload_base64) =
        fields(payload(redriving.payload.as_deref(), PAYLOAD_MAX_BYTES)?.as_ref());
    let id = ids::job(id, door).await?;
    let wish = RedriveBody {
        run_at: run_at.map(Moment::At),
        delay: None,
        from_start: Some(redriving.from_start),
        payload,
        payload_base64,
        expected_version: redriving.expected_version,
    };
    let reply = door.redrive(id, &wish).await?;
    show::reply(out, &reply, |out, value| {
        out.line(format!("{id} is pending again, due at {}", show::text(&value["job"]["due_at"])));
    });
    Ok(())
}

/// What is done to everything that a filter matches.
async fn bulk(which: &Acting, action: Action, door: &ApiClient) -> Outcome<BulkBody> {
    let filter = filter::shape(&filter::checked(filter::parse(&which.filter)?, door).await?)?;
    let dry_run = which.dry_run;
    let filter = Some(filter);
    let hold = which.hold.map(|hold| Span::from_ms(hold.ms()));
    Ok(BulkBody {
        filter,
        ids: None,
        action,
        dry_run,
        run_at: None,
        spread: None,
        cursor: None,
        reason: None,
        hold,
    })
}

/// Meets everything that a filter matches, page by page.
async fn many(mut wish: BulkBody, door: &ApiClient, out: &Out) -> Outcome {
    let dry_run = wish.dry_run;
    if wish.hold.is_some() && !dry_run {
        operations::begun(&door.bulk(&wish).await?, out);
        return Ok(());
    }
    let (mut matched, mut done, mut skipped) = (0, 0, 0);
    let mut sample: Vec<Value> = Vec::new();
    let bar = out.spinner();
    loop {
        bar.set_message(format!("{matched} met, {done} changed"));
        let reply = door.bulk(&wish).await?;
        let number = |name: &str| reply.value[name].as_u64().unwrap_or(0);
        matched += number("matched");
        done += number("done");
        skipped += number("skipped");
        if sample.is_empty() {
            sample = show::list(&reply.value, "sample").to_vec();
        }
        wish.cursor = reply.value["next_cursor"].as_str().map(str::to_owned);
        if wish.cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    let answer =
        json!({ "matched": matched, "done": done, "skipped": skipped, "sample": sample, "dry_run": dry_run });
    out.show(&answer, |out| {
        for id in &sample {
            out.line(show::text(id));
        }
        if matched > sample.len() as u64 {
            out.line(format!("… and {} more", matched - sample.len() as u64));
        }
        let word = if dry_run { "nothing was changed" } else { "done" };
        out.line(format!("{matched} matched, {done} changed, {skipped} had moved on; {word}"));
    });
    Ok(())
}

async fn fork(forking: Forking, door: &ApiClient, out: &Out) -> Outcome {
    let (payload, _) = fields(payload(forking.payload.as_deref(), PAYLOAD_MAX_BYTES)?.as_ref());
    let id = ids::job(&forking.id, door).await?;
    let (from_version, expected_version) = (forking.from_version, forking.expected_version);
    let reply = door.fork(id, &ForkBody { from_version, payload, expected_version }).await?;
    show::reply(out, &reply, |out, value| out.line(show::text(&value["job"]["id"])));
    Ok(())
}

async fn signal(signalling: Signalling, door: &ApiClient, out: &Out) -> Outcome {
    let (payload, _) = fields(payload(signalling.payload.as_deref(), EVENT_PAYLOAD_MAX_BYTES)?.as_ref());
    let key = signalling.signal_key.map(|key| Key::parse("key", key)).transpose()?;
    let name = Name::parse("name", signalling.name)?.to_string();
    let signal = SignalBody { name, payload, key: key.map(|key| key.to_string()) };
    let reply = door.signal(ids::job(&signalling.id, door).await?, &signal).await?;
    show::reply(out, &reply, |out, value| {
        let is_repeat = value["duplicate"] == true;
        out.line(if is_repeat { "it was signalled before with this key" } else { "signalled" });
    });
    Ok(())
}
