//! Jobs that messages name, with a broker of this process: what is taken first, and when a message is answered. RabbitMQ
//! itself is in the tests of the command.

mod bed;

use async_trait::async_trait;
use bed::{Bed, Gate, Running, handler, until};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::{JobId, Status};
use windlass_engine::Deliveries;
use windlass_engine::service::{PublishError, Received, Source};

/// A queue of messages in this process, which gives each again that was not answered when who had it went.
#[derive(Debug, Clone, Default)]
struct Desk(Arc<Mutex<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    waiting: VecDeque<Vec<u8>>,
    given: HashMap<u64, Vec<u8>>,
    tags: u64,
    done: usize,
    aside: Vec<String>,
}

impl Desk {
    fn names(&self, job: JobId) {
        let body = format!("{{\"job_id\":\"{job}\"}}").into_bytes();
        self.0.lock().expect("the desk").waiting.push_back(body);
    }

    /// How many wait, are given and not answered, and are done.
    fn stands(&self) -> (usize, usize, usize) {
        let desk = self.0.lock().expect("the desk");
        (desk.waiting.len(), desk.given.len(), desk.done)
    }
}

#[async_trait]
impl Deliveries for Desk {
    async fn open(&self, ahead: u16) -> Result<Box<dyn Source>, PublishError> {
        Ok(Box::new(Clerk { desk: self.clone(), ahead: ahead.into(), stopped: false }))
    }
}

struct Clerk {
    desk: Desk,
    ahead: usize,
    stopped: bool,
}

impl Drop for Clerk {
    fn drop(&mut self) {
        let mut desk = self.desk.0.lock().expect("the desk");
        let given = std::mem::take(&mut desk.given);
        desk.waiting.extend(given.into_values());
    }
}

#[async_trait]
impl Source for Clerk {
    async fn next(&mut self) -> Result<Received, PublishError> {
        loop {
            {
                let mut desk = self.desk.0.lock().expect("the desk");
                if !self.stopped
                    && desk.given.len() < self.ahead
                    && let Some(body) = desk.waiting.pop_front()
                {
                    desk.tags += 1;
                    let tag = desk.tags;
                    desk.given.insert(tag, body.clone());
                    return Ok(Received { tag, id: None, body });
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn done(&mut self, tag: u64) -> Result<(), PublishError> {
        let mut desk = self.desk.0.lock().expect("the desk");
        desk.done += usize::from(desk.given.remove(&tag).is_some());
        Ok(())
    }

    async fn set_aside(&mut self, message: &Received, why: &str) -> Result<(), PublishError> {
        let mut desk = self.desk.0.lock().expect("the desk");
        desk.given.remove(&message.tag);
        desk.aside.push(why.to_owned());
        Ok(())
    }

    async fn give_back(&mut self, tag: u64) -> Result<(), PublishError> {
        let mut desk = self.desk.0.lock().expect("the desk");
        let body = desk.given.remove(&tag).expect("it was given");
        desk.waiting.push_back(body);
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), PublishError> {
        self.stopped = true;
        Ok(())
    }
}

on_every_store! {
    /// T5: what is named goes before what stands before it, and is answered when its attempt has ended and not before; what
    /// is named twice runs once, and a message for what has ended is ignored.
    #[test]
    async fn what_is_named_goes_first_and_is_answered_at_its_end(bed: Bed) {
        let (desk, gate, ran) = (Desk::default(), Gate::new(), Arc::new(Mutex::new(Vec::new())));
        let handler = {
            let (gate, ran) = (gate.handler(), Arc::clone(&ran));
            handler(move |attempt| {
                ran.lock().unwrap().push(attempt.job_id());
                tower::ServiceExt::oneshot(gate.clone(), attempt)
            })
        };
        let first = bed.put("work").await;
        let worker = bed.worker().queue("default", 1).handle("work", handler).consume(Arc::new(desk.clone()));
        let worker = Running::start(worker);
        gate.has_one().await;
        let mut others = Vec::new();
        for _ in 0..20 {
            others.push(bed.put("work").await);
        }
        let named = others.pop().unwrap();
        desk.names(named);
        until("it was given", || desk.stands().1 == 1).await;
        gate.open.add_permits(1);
        until("the next begins", || ran.lock().unwrap().len() == 2).await;
        while ran.lock().unwrap().last() != Some(&named) {
            assert!(ran.lock().unwrap().len() < 5, "others go first");
            let begun = ran.lock().unwrap().len();
            gate.open.add_permits(1);
            until("the next begins", || ran.lock().unwrap().len() > begun).await;
        }
        assert_eq!(desk.stands(), (0, 1, 0), "it runs and is not answered");
        gate.open.add_permits(100);
        bed.until_is(named, Status::Completed).await;
        until("it is answered", || desk.stands() == (0, 0, 1)).await;
        desk.names(named);
        desk.names(first);
        until("both are ignored", || desk.stands() == (0, 0, 3)).await;
        assert_eq!(ran.lock().unwrap().iter().filter(|id| **id == named).count(), 1);
        let elsewhere = bed.put_with("work", |facts| facts.queue = bed::name("elsewhere")).await;
        desk.names(elsewhere);
        until("it is set aside", || desk.0.lock().unwrap().aside.len() == 1).await;
        assert!(desk.0.lock().unwrap().aside[0].contains("which this worker does not run"));
        worker.stop().await;
    }

    /// T5: a worker that ends answers what it finishes, and leaves the rest to others.
    #[test]
    async fn a_worker_that_ends_leaves_what_it_has_not_begun_to_others(bed: Bed) {
        let (desk, gate) = (Desk::default(), Gate::new());
        let worker = bed.worker().queue("default", 1).queue("more", 1).handle("work", gate.handler());
        let worker = Running::start(worker.consume(Arc::new(desk.clone())));
        let (running, waiting) = (bed.put("work").await, bed.put("work").await);
        bed.until(running, "held", |view| view.job.status == Status::Running).await;
        gate.has_one().await;
        desk.names(waiting);
        until("it was given", || desk.stands().1 == 1).await;
        worker.shutdown.graceful();
        until("it is left to others", || desk.stands() == (1, 0, 0)).await;
        gate.open.add_permits(1);
        worker.stop().await;
        assert_eq!(bed.job(running).await.job.status, Status::Completed);
        // It may have been claimed ahead in its turn, and was given back then.
        let status = bed.job(waiting).await.job.status;
        assert!([Status::Pending, Status::Retry].contains(&status), "{status}");
        // The next one is sent it.
        gate.open.add_permits(1);
        let next = bed.worker().handle("work", gate.handler()).consume(Arc::new(desk.clone()));
        let next = Running::start(next);
        bed.until_is(waiting, Status::Completed).await;
        until("it is answered", || desk.stands() == (0, 0, 1)).await;
        next.stop().await;
    }
}
