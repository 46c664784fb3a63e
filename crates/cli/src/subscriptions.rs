//! `windlass subscriptions`: events carried to web services and brokers.

use crate::api_client::ApiClient;
use crate::args::{NewSubscription, SubscriptionsCommand};
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::shape::Doc;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Name;

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
            show::reply(out, &reply, |out, one| {
                out.line(serde_json::to_string_pretty(one).unwrap_or_default());
            });
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
            let reply = door.pause_subscription(&named(&name)?, reason.as_deref()).await?;
            show::reply(out, &reply, |out, one| show_all(out, std::slice::from_ref(one)));
        }
        SubscriptionsCommand::Resume(which) => {
            let reply = door.resume_subscription(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, one| show_all(out, std::slice::from_ref(one)));
        }
    }
    Ok(())
}

fn body(new: NewSubscription) -> Outcome<Doc> {
    let secret = new.secret_file.map(|path| {
        let read = std::fs::read_to_string(&path);
        let told = |e| Failure::usage(format!("the secret's file {} cannot be read: {e}", path.display()));
        read.map(|text| text.trim().to_owned()).map_err(told)
    });
    let span = |span: crate::span::Span| format!("{}ms", span.ms());
    let mut doc = Doc::default();
    doc.put("url", new.to).put_some("secret", secret.transpose()?);
    doc.put("queues", new.queue).put("kinds", new.kind).put("types", new.r#type).put("statuses", new.status);
    doc.put_some("from", new.from).put_some("timeout", new.timeout.map(span));
    doc.put_some("give_up_after", new.give_up_after.map(span)).put_some("exchange", new.exchange);
    if let Some(text) = new.enqueue {
        let told = || Failure::usage(format!("--enqueue {text:?} must be QUEUE:KIND"));
        let (queue, kind) = text.split_once(':').ok_or_else(told)?;
        let mut job = Doc::default();
        job.put("queue", queue).put("kind", kind);
        doc.put("enqueue", job);
    }
    doc.put_some("consume", new.consume).put_some("dead_letter", new.dead_letter);
    if new.drop_unroutable {
        doc.put("mandatory", false);
    }
    Ok(doc)
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
