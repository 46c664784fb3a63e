//! `windlass subscriptions`: events carried to web services and brokers.

use crate::api_client::ApiClient;
use crate::args::{NewSubscription, SubscriptionsCommand};
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Name;
use windlass_http::wire::subscription::{EnqueueShape, SubscriptionBody};
use windlass_http::wire::time::Span;

/// Runs one of them.
pub async fn run(command: SubscriptionsCommand, door: &ApiClient, out: &Out) -> Outcome {
    let named = |name: &str| Name::parse("subscription", name);
    match command {
        SubscriptionsCommand::Ls => {
            let reply = door.subscriptions().await?;
            show::reply(out, &reply, |out, page| show_all(out, list(page, "subscriptions")));
        }
        SubscriptionsCommand::Show(which) => {
            let reply = door.subscription(&named(&which.name)?).await?;
            show::reply(out, &reply, Out::whole);
        }
        SubscriptionsCommand::Put(new) => {
            let name = named(&new.name)?;
            let reply = door.put_subscription(&name, &body(*new)?).await?;
            show::reply(out, &reply, |out, one| {
                show_all(out, std::slice::from_ref(one));
                if let Value::String(secret) = &one["secret"] {
                    out.line(secret);
                    out.remark("windlass: the secret that its webhooks are signed with; it is shown once");
                }
            });
        }
        SubscriptionsCommand::Rm(which) => {
            let reply = door.remove_subscription(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, gone| out.line(format!("{} is removed", text(&gone["removed"]))));
        }
        SubscriptionsCommand::Pause { name, reason } => {
            let reply = door.pause_subscription(&named(&name)?, reason).await?;
            show::reply(out, &reply, |out, one| show_all(out, std::slice::from_ref(one)));
        }
        SubscriptionsCommand::Resume(which) => {
            let reply = door.resume_subscription(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, one| show_all(out, std::slice::from_ref(one)));
        }
    }
    Ok(())
}

fn body(new: NewSubscription) -> Outcome<SubscriptionBody> {
    let secret = new.secret_file.map(|path| {
        let read = std::fs::read_to_string(&path);
        let unread = |e| Failure::usage(format!("the secret's file {} cannot be read: {e}", path.display()));
        read.map(|text| text.trim().to_owned()).map_err(unread)
    });
    let enqueue = new.enqueue.map(|text| match text.split_once(':') {
        Some((queue, kind)) => Ok(EnqueueShape { queue: queue.to_owned(), kind: kind.to_owned() }),
        None => Err(Failure::usage(format!("--enqueue {text} must be QUEUE:KIND"))),
    });
    let span = |span: crate::span::Span| Span::from_ms(span.ms());
    Ok(SubscriptionBody {
        url: new.to,
        secret: secret.transpose()?,
        queues: new.queue,
        kinds: new.kind,
        types: new.r#type,
        statuses: new.status,
        from: new.from,
        timeout: new.timeout.map(span),
        give_up_after: new.give_up_after.map(span),
        exchange: new.exchange,
        mandatory: new.drop_unroutable.then_some(false),
        consume: new.consume,
        enqueue: enqueue.transpose()?,
        dead_letter: new.dead_letter,
        expected_version: None,
    })
}

fn show_all(out: &Out, subscriptions: &[Value]) {
    let row = |one: &Value| {
        let lists = ["queues", "kinds", "types", "statuses"].into_iter();
        let chosen = lists.flat_map(|name| list(one, name).iter().map(text)).collect::<Vec<_>>().join(", ");
        let status = match &one["why"] {
            Value::String(why) => format!("{}: {why}", text(&one["status"])),
            _ => text(&one["status"]),
        };
        let chosen = match (&one["consume"], &one["enqueue"]) {
            (Value::String(queue), Value::Object(_)) => {
                let (to, kind) = (text(&one["enqueue"]["queue"]), text(&one["enqueue"]["kind"]));
                format!("messages of {queue} become {kind} in {to}")
            }
            (Value::String(queue), _) => format!("messages of {queue} name jobs"),
            _ => chosen,
        };
        let events = if chosen.is_empty() { "all".to_owned() } else { chosen };
        vec![text(&one["name"]), text(&one["url"]), events, status, moment(&one["moved_at"])]
    };
    let rows: Vec<_> = subscriptions.iter().map(row).collect();
    out.table(&["SUBSCRIPTION", "TO", "EVENTS", "STATUS", "MOVED"], &rows, "there is no subscription");
}
