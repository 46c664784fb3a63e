//! Filters as they are typed, made into what a store takes.

use crate::api_client::{ApiClient, Pairs};
use crate::fail::{Failure, Outcome};
use crate::ids;
use windlass_core::span::parse_moment;
use windlass_core::{Filter, Invalid, JobId, Name, Status, Who};
use windlass_http::wire::filter::{FilterShape, Words};
use windlass_http::wire::time::Time;
use windlass_store::fresh;

/// `name=value` texts, as they stand behind `--filter`.
pub fn parse(texts: &[String]) -> Outcome<Pairs> {
    let pair = |text: &String| {
        let pair = text.split_once('=').filter(|(_, value)| !value.is_empty());
        let (name, value) = pair
            .ok_or_else(|| Failure::usage(format!("--filter {text} must be name=value, like queue=mail")))?;
        Ok((name.replace('-', "_"), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

/// Filters as they are sent: with whole ids, and checked here, so that a server and a store are told the same names.
pub async fn checked(mut pairs: Pairs, door: &ApiClient) -> Outcome<Pairs> {
    ids::parent(&mut pairs, door).await?;
    resolve(&pairs)?;
    Ok(pairs)
}

/// The filter as a store takes it.
fn resolve(pairs: &Pairs) -> Outcome<Filter> {
    let (mut filter, mut is_dead, now) = (Filter::default(), false, fresh::wall_clock());
    for (name, value) in pairs {
        match name.as_str() {
            "status" => {
                for word in value.split(',') {
                    filter.statuses.push(status(word)?);
                }
            }
            "dead" => is_dead = value == "true",
            "queue" => filter.queue = Some(Name::parse(name, value)?),
            "kind" => filter.kind = Some(Name::parse(name, value)?),
            "agent_id" => filter.agent_id = Some(Who::parse(name, value)?),
            "tag" => filter.tag = Some(Name::parse(name, value)?),
            "parent_id" => filter.parent_id = Some(JobId::parse(value)?),
            "worker_id" => filter.worker_id = Some(Who::parse(name, value)?),
            "error_code" => filter.error_code = Some(Who::parse(name, value)?),
            "created_after" => filter.created_after = Some(parse_moment(name, value, now)?),
            "created_before" => filter.created_before = Some(parse_moment(name, value, now)?),
            "finished_after" => filter.finished_after = Some(parse_moment(name, value, now)?),
            "finished_before" => filter.finished_before = Some(parse_moment(name, value, now)?),
            other => {
                return Err(Failure::usage(format!(
                    "there is no filter {other}; the names are status, dead, queue, kind, agent_id, tag, parent_id, \
                     worker_id, error_code, created_after, created_before, finished_after and finished_before"
                )));
            }
        }
    }
    if is_dead {
        let is_asked = filter.statuses.is_empty();
        filter.statuses.retain(|status| status.is_dead());
        if is_asked {
            filter.statuses = vec![Status::Failed, Status::TimedOut];
        } else if filter.statuses.is_empty() {
            return Err(Failure::usage("dead goes with status failed or timed_out only"));
        }
    }
    Ok(filter)
}

/// The filter in the words of the API, for what is done to all that match.
pub fn shape(pairs: &Pairs) -> Outcome<FilterShape> {
    let now = fresh::wall_clock();
    let text = |name: &str| pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    let time = |name: &str| {
        text(name).map(|value| parse_moment(name, &value, now).map(Time)).transpose().map_err(Failure::from)
    };
    let statuses: Vec<String> = pairs
        .iter()
        .filter(|(name, _)| name == "status")
        .flat_map(|(_, value)| value.split(',').map(str::to_owned))
        .collect();
    Ok(FilterShape {
        status: Some(statuses).filter(|words| !words.is_empty()).map(Words::Many),
        dead: (text("dead").as_deref() == Some("true")).then_some(true),
        queue: text("queue"),
        kind: text("kind"),
        agent_id: text("agent_id"),
        tag: text("tag"),
        parent_id: text("parent_id"),
        worker_id: text("worker_id"),
        error_code: text("error_code"),
        created_after: time("created_after")?,
        created_before: time("created_before")?,
        finished_after: time("finished_after")?,
        finished_before: time("finished_before")?,
    })
}

fn status(word: &str) -> Result<Status, Invalid> {
    let all = || Status::ALL.map(Status::as_str).join(", ");
    Status::parse(word).ok_or_else(|| Invalid::new("status", word, format!("must be one of {}", all())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_dead_means_two_statuses() {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let pairs = parse(&texts(&["queue=mail", "error-code=down"])).unwrap();
        let filter = resolve(&pairs).unwrap();
        assert_eq!(filter.queue.unwrap().as_str(), "mail");
        assert_eq!(filter.error_code.unwrap().as_str(), "down");
        for bad in ["queue", "queue=", "colour=red", "status=done", "parent_id=7"] {
            assert!(parse(&texts(&[bad])).and_then(|pairs| resolve(&pairs)).is_err(), "{bad}");
        }
        let dead = resolve(&vec![("dead".into(), "true".into())]).unwrap();
        assert_eq!(dead.statuses, [Status::Failed, Status::TimedOut]);
    }
}
