//! Alerts: they fire once, are over once, and each change is sent under one id, also when the leader changes.

mod bed;

use async_trait::async_trait;
use bed::{Bed, DEADLINE, name, who};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::alert::{Alert, AlertState, Metric};
use windlass_core::subscription::{Begin, GIVE_UP_MS, Selection, Subscription, TIMEOUT_MS, Target};
use windlass_core::{Actor, Name};
use windlass_engine::Shutdown;
use windlass_engine::service::{
    Alerts, Leader, Message, PublishError, Published, Publisher, Publishers, Source,
};
use windlass_store::{Credential, FeedEvent, PaperKind, PutPaper, PutSubscription};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What arrived, and how many sends fail before one does.
#[derive(Debug, Clone, Default)]
struct Post {
    arrived: Arc<Mutex<Vec<(String, String)>>>,
    fails: Arc<Mutex<usize>>,
}

#[async_trait]
impl Publisher for Post {
    async fn publish(&mut self, messages: &[Message]) -> Published {
        let mut fails = self.fails.lock().expect("unpoisoned");
        if *fails > 0 {
            *fails -= 1;
            let error = Some(PublishError::Temporary("busy".to_owned(), None));
            return Published { arrived: vec![false; messages.len()], error };
        }
        for message in messages {
            self.arrived.lock().expect("unpoisoned").push((message.id.clone(), message.type_name.clone()));
        }
        Published { arrived: vec![true; messages.len()], error: None }
    }
}

#[async_trait]
impl Publishers for Post {
    async fn open(
        &self,
        _: &Subscription,
        _: Option<Credential>,
    ) -> Result<Box<dyn Publisher>, PublishError> {
        Ok(Box::new(self.clone()))
    }

    async fn source(&self, _: &Subscription, _: Option<Credential>) -> Result<Box<dyn Source>, PublishError> {
        Err(PublishError::Permanent("none".to_owned()))
    }

    fn write(&self, _: &FeedEvent) -> Vec<u8> {
        Vec::new()
    }
}

/// A process that leads, or waits to; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str, post: &Post) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let publishers: Arc<dyn Publishers> = Arc::new(post.clone());
    let alerts = Alerts::new(Arc::clone(&bed.store), leader.leading(), Some(publishers));
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), alerts.every(Duration::from_millis(50)).run(shutdown));
    });
}

async fn subscribe(bed: &Bed) {
    let target = Target::Webhook { url: "https://a.example".to_owned(), timeout_ms: TIMEOUT_MS };
    let credential = Some(Credential::parse(&target, SECRET).expect("a secret"));
    let subscription =
        Subscription { select: Selection::default(), target, from: Begin::Now, give_up_ms: GIVE_UP_MS };
    let actor = Actor::engine();
    let put = PutSubscription { name: name("ops"), subscription, credential, expected_version: None, actor };
    bed.store.put_subscription(put, None).await.expect("the store").expect("made");
}

async fn watch(bed: &Bed, which: &str, alert: Alert) {
    alert.check().expect("an alert");
    let put = PutPaper {
        kind: PaperKind::Alert,
        name: name(which),
        body: serde_json::to_value(AlertState::new(alert)).expect("a value"),
        expected_version: Some(0),
        term: None,
        action: Some("alert.put"),
        actor: Actor::engine(),
    };
    bed.store.put_paper(put, None).await.expect("the store").expect("made");
}

fn no_worker(notify: Option<Name>) -> Alert {
    Alert { metric: Metric::NoWorker, queue: None, than_ms: None, percent: None, for_ms: 200, notify }
}

async fn until(bed: &Bed, which: &str, wished: impl Fn(&AlertState) -> bool) -> AlertState {
    let looked = async {
        loop {
            let paper = bed.store.paper((PaperKind::Alert, name(which)), None).await.expect("the store");
            let state = AlertState::read(&paper.expect("it is there")).expect("it reads");
            if wished(&state) {
                return state;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, looked).await.expect("it never came so far")
}

on_every_store! {
    /// (alerts) A queue with work that nobody serves: it fires, is sent once, and is over when the work is gone. Sends that fail
    /// are tried again; leaders die between.
    #[test]
    async fn an_alert_fires_and_is_over_and_each_is_sent_once(bed: Bed) {
        subscribe(&bed).await;
        watch(&bed, "alone", no_worker(Some(name("ops")))).await;
        let post = Post::default();
        *post.fails.lock().expect("unpoisoned") = 2;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &post);
        sleep(Duration::from_millis(500)).await;
        until(&bed, "alone", |state| state.firing.is_none() && state.changes == 0).await;
        let job = bed.put("lonely").await;
        let fires = until(&bed, "alone", |state| state.firing.is_some() && !state.is_unsent()).await;
        assert!(fires.firing.is_some_and(|firing| firing.why.contains("default")));
        tasks.shutdown().await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "b", &post);
        process(&bed, &mut tasks, "c", &post);
        sleep(Duration::from_millis(2_500)).await;
        let wish = windlass_core::decide::Cancel {
            actor: Actor::engine(),
            reason: None,
            force: true,
            force_after_ms: 0,
        };
        let cancel = windlass_store::Cancel { job, wish, expected_version: None };
        bed.store.cancel(cancel, None).await.expect("the store").expect("cancelled");
        until(&bed, "alone", |state| state.firing.is_none() && !state.is_unsent()).await;
        sleep(Duration::from_millis(300)).await;
        let arrived = post.arrived.lock().expect("unpoisoned").clone();
        let expected = [("alert-alone-1", "alert_firing"), ("alert-alone-2", "alert_resolved")];
        assert_eq!(arrived, expected.map(|(id, word)| (id.to_owned(), word.to_owned())));
    }

    /// (alerts) One whose subscription is gone says so and stops no other; one that does not read back neither.
    #[test]
    async fn an_alert_that_cannot_be_sent_says_so(bed: Bed) {
        watch(&bed, "b-alone", no_worker(Some(name("gone")))).await;
        watch(&bed, "a-alone", no_worker(None)).await;
        let bad = PutPaper {
            kind: PaperKind::Alert,
            name: name("c-bad"),
            body: serde_json::json!({ "alert": 1 }),
            expected_version: None,
            term: None,
            action: None,
            actor: Actor::engine(),
        };
        bed.store.put_paper(bad, None).await.expect("the store").expect("written");
        bed.put("lonely").await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        let unsent = until(&bed, "b-alone", |state| state.unsent.is_some()).await;
        assert!(unsent.unsent.is_some_and(|why| why.contains("no subscription gone")));
        until(&bed, "a-alone", |state| state.firing.is_some() && !state.is_unsent()).await;
    }
}
