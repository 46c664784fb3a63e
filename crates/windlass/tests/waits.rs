//! Waiting for a time, a signal, a person and children: no worker is held. On the rig: no database, no waiting.

mod support;

use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Add, Task, task};
use windlass::testing::Rig;
use windlass::{Context, Decision, HandlerError, Job, Status, Winner, Worker};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

fn worker<F, Fut>(rig: &Rig, handler: F) -> Worker
where
    F: Fn(Task, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    Worker::new(rig.client().clone()).queue("tasks", 1).handle(handler)
}

#[tokio::test]
async fn a_sleep_ends_on_the_microsecond_and_several_follow_each_other() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        ctx.sleep("first", HOUR).await?;
        ctx.sleep("second", HOUR).await?;
        Ok(ctx.fence().to_string())
    });
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    assert_eq!(rig.drain(&worker).await.len(), 1);
    rig.advance(HOUR - Duration::from_micros(1));
    assert!(rig.drain(&worker).await.is_empty(), "not a microsecond early");
    rig.advance(Duration::from_micros(1));
    assert_eq!(rig.drain(&worker).await.len(), 1);
    rig.advance(HOUR);
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, "3");
}

#[tokio::test]
async fn a_signal_wakes_once_or_is_kept_or_does_not_come() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        let paid: Payment = ctx.wait_for("paid").await?;
        let more = ctx.wait_for::<Payment>("more").expires(HOUR).await?;
        Ok(format!("{} {:?}", paid.cents, more.map(|p| p.cents)))
    });
    let client = rig.client();
    let [late, early] = ["late", "early"].map(|text| client.enqueue(task(text)));
    let (late, early) = (late.await.unwrap().id, early.await.unwrap().id);
    client.signal(early, "more", Payment { cents: 2 }).await.unwrap();
    client.signal(early, "paid", Payment { cents: 1 }).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(early).await, "1 Some(2)", "both had come before");
    assert_eq!(rig.status(late).await, Status::Waiting);
    client.signal(late, "paid", Payment { cents: 3 }).await.unwrap();
    rig.drain(&worker).await;
    rig.advance(HOUR);
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(late).await, "3 None");
}

/// M8
#[tokio::test]
async fn a_yes_goes_on_and_a_no_fails() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        ctx.approval("first").prompt("go?").approver("boss").required(2).await?;
        ctx.approval("second").prompt("really?").expires(HOUR).await?;
        Ok("done".into())
    });
    let client = rig.client();
    let ids = [client.enqueue(task("yes")).await.unwrap().id, client.enqueue(task("no")).await.unwrap().id];
    rig.drain(&worker).await;
    for id in ids {
        let asked = client.approvals(id).await.unwrap().remove(0);
        assert_eq!((asked.prompt.as_str(), asked.approval.required), ("go?", 2));
        let refused = client.decide(asked.approval.id, Decision::Approve).by("eve").await.unwrap_err();
        assert_eq!(refused.refusal().map(|r| r.code()), Some("approval_forbidden"));
        client.decide(asked.approval.id, Decision::Approve).by("boss").await.unwrap();
        assert_eq!(rig.status(id).await, Status::Waiting, "two are required");
        client.decide(asked.approval.id, Decision::Approve).by("ada").role("boss").await.unwrap();
    }
    rig.drain(&worker).await;
    let second = client.approvals(ids[0]).await.unwrap().remove(0);
    client.decide(second.approval.id, Decision::Approve).await.unwrap();
    let second = client.approvals(ids[1]).await.unwrap().remove(0);
    client.decide(second.approval.id, Decision::Deny).reason("not today").await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(ids[0]).await, "done");
    let denied = client.wait::<Task>(ids[1]).await.unwrap_err().to_string();
    assert!(denied.contains("not today"), "{denied}");
    assert_eq!(client.approvals(ids[0]).await.unwrap().len(), 2, "nobody was asked twice");
}

#[tokio::test]
async fn silence_denies() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        ctx.approval("go").prompt("go?").expires(HOUR).await.map(|()| String::new())
    });
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    rig.drain(&worker).await;
    rig.advance(HOUR);
    rig.drain(&worker).await;
    let ended = rig.client().wait::<Task>(id).await.unwrap_err().to_string();
    assert!(ended.contains("approval_expired"), "{ended}");
}

/// The link that was sent stays good, whatever happens to the attempt that sent it.
#[tokio::test]
async fn a_link_that_is_asked_for_inside_a_step_is_sent_once_and_works() {
    type Mails = Arc<Mutex<Vec<String>>>;
    let (rig, mails) = (Rig::new(), Mails::default());
    let worker = Worker::new(rig.client().clone()).state(Arc::clone(&mails)).queue("tasks", 1).handle(
        |_: Task, ctx: Context<Mails>| async move {
            ctx.step("mail", || async {
                let link = ctx.ask("go").prompt("go?").await?.link.expect("nothing is decided yet");
                ctx.state().lock().unwrap().push(link.to_text());
                Ok::<_, HandlerError>(())
            })
            .await?;
            if ctx.fence() == 1 {
                return Err(HandlerError::snooze(HOUR));
            }
            ctx.approval("go").await.map(|()| "approved".into())
        },
    );
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    rig.drain(&worker).await;
    rig.advance(HOUR);
    rig.drain(&worker).await;
    let link = mails.lock().unwrap().clone();
    assert_eq!(link.len(), 1);
    let asked = rig.client().approvals(id).await.unwrap().remove(0).approval.id;
    let vote = |token: &str| rig.client().decide(asked, Decision::Approve).link(token);
    let wrong = vote(&"0".repeat(64)).await.unwrap_err();
    assert_eq!(wrong.refusal().map(|r| r.code()), Some("approval_forbidden"));
    vote(&link[0]).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, "approved");
}

#[tokio::test]
async fn waiting_for_what_nobody_asked_fails_and_says_so() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move { ctx.approval("go").await.map(|()| String::new()) });
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    assert_eq!(rig.drain(&worker).await[0].status, Status::Failed);
    let ended = rig.client().wait::<Task>(id).await.unwrap_err().to_string();
    assert!(ended.contains("approval_not_found"), "{ended}");
}

#[tokio::test]
async fn children_are_spawned_once_and_their_results_are_typed() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        let one = ctx.spawn("one", Add(1, 2)).queue("tasks").priority(2).await?;
        let more = ctx.spawn_many("more", [Add(3, 4), Add(i64::MAX, 1)]).await?;
        if ctx.fence() == 1 {
            return Err(HandlerError::snooze(Duration::ZERO));
        }
        let mut sums = ctx.join("all", &[one]).await?;
        sums.extend(ctx.join("the-rest", &more).await?);
        Ok(format!("{:?}", sums.into_iter().map(|sum| sum.map_err(|e| e.message)).collect::<Vec<_>>()))
    });
    let worker = worker.queue("default", 1).handle(|Add(a, b), _: Context| async move {
        a.checked_add(b).ok_or_else(|| HandlerError::permanent("too much"))
    });
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, r#"[Ok(3), Ok(7), Err("too much")]"#);
    let children = rig.enqueued::<Add>().await;
    assert_eq!(children.iter().map(|c| c.job.clone()).collect::<Vec<_>>().len(), 3);
    assert!(children.iter().all(|c| c.view.facts.parent_id == Some(id)));
    assert_eq!(
        children[0].view.facts.priority + children[1].view.facts.priority + children[2].view.facts.priority,
        2
    );
}

#[tokio::test]
async fn nothing_after_a_pending_wait_runs_whatever_the_handler_does_with_errors() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        let _swallowed = ctx.sleep("nap", HOUR).await;
        ctx.log("awake").await?;
        Ok(String::new())
    });
    let id = rig.client().enqueue(task("")).await.unwrap().id;
    rig.drain(&worker).await;
    let read = windlass_store::ReadLogs { job: id, after: 0, limit: 10 };
    assert!(rig.client().store().logs(read, None).await.unwrap().is_empty());
    assert_eq!(rig.status(id).await, Status::Waiting);
}

#[tokio::test]
async fn the_rig_tells_what_was_enqueued() {
    let rig = Rig::new();
    rig.client().enqueue(Add(1, 2)).delay(HOUR).await.unwrap();
    rig.client().enqueue(Add(3, 4)).await.unwrap();
    rig.assert_enqueued(|Add(a, _)| *a == 3).await;
    rig.assert_none_enqueued::<Task>().await;
    let sent = rig.enqueued::<Add>().await;
    assert_eq!(sent.iter().map(|s| s.job.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(
        sent[0].view.job.due_at,
        Some(windlass::Timestamp::from_micros(rig.now().as_micros() + 3_600_000_000))
    );
    assert_eq!(Add::QUEUE, "default");
}

#[tokio::test]
#[should_panic(expected = "no add like that was enqueued")]
async fn the_rig_complains_about_what_was_not() {
    Rig::new().assert_enqueued::<Add>(|_| true).await;
}

fn told(winner: &Winner) -> Result<String, HandlerError> {
    Ok(match winner {
        Winner::Signal(signal) => format!("{} {}", signal.name(), signal.read::<u64>()?),
        Winner::Timer => "timer".into(),
        Winner::Child(_) => "child".into(),
        other => format!("{other:?}"),
    })
}

/// What races a timer of an hour, two signals and a child; then it waits once more, so that the race is seen again.
fn racer(rig: &Rig) -> Worker {
    let handler = |_: Task, ctx: Context| async move {
        let child = ctx.spawn("child", Add(1, 2)).queue("children").await?;
        let race = ctx.race().timer(HOUR).signal("paid").signal("refused").child(child.id());
        let first = told(&race.await?)?;
        let then = ctx.wait_for::<u64>("then").await?;
        // What lost is kept: a signal that did not win, and the second of a name.
        let next: u64 = ctx.recv("paid").await?;
        Ok(format!("{first}, {then}, {next}"))
    };
    worker(rig, handler).queue("children", 1).handle(|Add(a, b), _: Context| async move { Ok(a + b) })
}

/// M5, M8: a race is won by what came first, is put on record, and everybody who lost stays as it is.
#[tokio::test]
async fn a_race_is_won_once() {
    for (what, expected) in [
        ("paid", "paid 7, 1, 8"),
        ("refused", "refused 9, 1, 8"),
        ("timer", "timer, 1, 8"),
        ("child", "child, 1, 8"),
        ("child, then paid", "child, 1, 7"),
        ("paid, then child", "paid 7, 1, 8"),
    ] {
        let rig = Rig::new();
        let (client, worker) = (rig.client(), racer(&rig));
        let children = client.queue("children");
        children.pause().await.unwrap();
        let id = client.enqueue(task("")).await.unwrap().id;
        assert_eq!(rig.drain(&worker).await.len(), 1, "{what}: it waits");
        assert_eq!(rig.status(id).await, Status::Waiting);
        for (n, event) in what.split(", then ").enumerate() {
            // Both come before the job is run again: the first of them wins.
            rig.advance(Duration::from_secs(1));
            match event {
                "paid" => assert!(!client.signal(id, "paid", 7).await.unwrap()),
                "refused" => assert!(!client.signal(id, "refused", 9).await.unwrap()),
                "timer" => rig.advance(HOUR),
                _ => {
                    children.resume().await.unwrap();
                    let only = Worker::new(client.clone())
                        .queue("children", 1)
                        .handle(|Add(a, b), _: Context| async move { Ok(a + b) });
                    assert_eq!(rig.drain(&only).await.len(), 1, "{what} {n}");
                }
            }
        }
        rig.drain(&worker).await;
        for (name, value) in [("then", 1), ("paid", 8)] {
            // Where a payment was kept it is done already.
            if rig.status(id).await == Status::Waiting {
                client.signal(id, name, value).await.unwrap();
                rig.drain(&worker).await;
            }
        }
        assert_eq!(rig.output::<Task>(id).await, expected, "{what}");
        let view = rig.view(id).await;
        assert_eq!((view.job.retries, view.job.crashes), (0, 0), "{what}");
    }
}

/// Races in a loop are apart from each other; a signal is taken by one of them.
#[tokio::test]
async fn races_in_a_loop() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.push(told(&ctx.race().signal("tick").timer(HOUR).await?)?);
        }
        Ok(seen.join(", "))
    });
    let client = rig.client();
    let id = client.enqueue(task("")).await.unwrap().id;
    client.signal(id, "tick", 1).await.unwrap();
    client.signal(id, "tick", 2).await.unwrap();
    rig.drain(&worker).await;
    rig.advance(HOUR);
    rig.drain(&worker).await;
    client.signal(id, "tick", 3).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, "tick 1, tick 2, timer, tick 3");
}

#[tokio::test]
async fn signals_are_a_stream_too() {
    let rig = Rig::new();
    let worker = worker(&rig, |_, ctx| async move {
        let numbers = ctx.signals::<u64>("number").try_take_while(|n| std::future::ready(Ok(*n > 0)));
        let numbers: Vec<u64> = numbers.boxed().try_collect().await?;
        Ok(format!("{numbers:?}"))
    });
    let client = rig.client();
    let id = client.enqueue(task("")).await.unwrap().id;
    for n in [3, 1, 2, 0] {
        client.signal(id, "number", n).await.unwrap();
        rig.drain(&worker).await;
    }
    assert_eq!(rig.output::<Task>(id).await, "[3, 1, 2]");
}

/// A race needs somebody who can win it, and only children of the job are raced.
#[tokio::test]
async fn a_race_that_makes_no_sense_is_refused() {
    let rig = Rig::new();
    let stranger = rig.client().enqueue(Add(1, 2)).queue("elsewhere").await.unwrap().id;
    let worker = worker(&rig, move |job: Task, ctx| async move {
        let race = if job.text == "empty" { ctx.race() } else { ctx.race().child(stranger) };
        race.await.map(|winner| format!("{winner:?}"))
    });
    for (text, code) in [("empty", "invalid"), ("stranger", "not_a_child")] {
        let id = rig.client().enqueue(task(text)).await.unwrap().id;
        rig.drain(&worker).await;
        let view = rig.view(id).await;
        assert_eq!(view.job.error_code.map(|code| code.to_string()).as_deref(), Some(code), "{text}");
    }
}
