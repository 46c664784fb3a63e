//! One connection to the broker after the other: messages come, are looked at, and are answered.

use super::stage::{Stage, Verdict, judge};
use super::{Consumer, Delivery};
use crate::holdings::Holdings;
use crate::reach::Reach;
use crate::repeat::Pause;
use crate::service::{NO_JOB, PublishError, Received, Source, named};
use crate::shutdown::{Ending, Level};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use windlass_core::JobId;
use windlass_store::fresh;

/// How often is looked again at what waits, and at whether messages are to be taken.
const LOOK: Duration = Duration::from_secs(1);
/// How soon a broker that failed is connected to again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Takes messages for as long as the worker lives, while it takes jobs.
pub(crate) async fn run(consumer: &Consumer, reach: &Reach, holdings: &Holdings, ending: &Ending) {
    let session = Session { consumer, reach, holdings, ending };
    let (mut pause, mut fails) = (Pause::new(AGAIN.0, AGAIN.1), false);
    loop {
        consumer.forget();
        while !session.takes() {
            sleep(LOOK).await;
        }
        let ended = match consumer.deliveries.open(consumer.ahead).await {
            Ok(mut source) => {
                if fails {
                    tracing::info!("messages are received again");
                }
                (pause, fails) = (Pause::new(AGAIN.0, AGAIN.1), false);
                session.receive(&mut *source).await
            }
            Err(error) => Err(error),
        };
        if let Err(PublishError::Temporary(why, _) | PublishError::Permanent(why)) = ended {
            if !fails {
                tracing::warn!(why, "no messages are received");
            }
            fails = true;
            consumer.forget();
            sleep(pause.next()).await;
        }
    }
}

struct Session<'a> {
    consumer: &'a Consumer,
    reach: &'a Reach,
    holdings: &'a Holdings,
    ending: &'a Ending,
}

impl Session<'_> {
    fn takes(&self) -> bool {
        self.ending.level() == Level::Working && !self.holdings.is_draining()
    }

    /// Until the broker fails, or the worker takes no more and every message is answered.
    async fn receive(&self, source: &mut dyn Source) -> Result<(), PublishError> {
        let mut tick = interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut stopped, mut ticked) = (false, false);
        loop {
            match (self.takes(), stopped) {
                (false, false) => {
                    source.stop().await?;
                    stopped = true;
                }
                (true, true) => return Ok(()),
                _ => {}
            }
            self.look(source, ticked, stopped).await?;
            if self.consumer.lock().is_empty() {
                self.consumer.empty.notify_waiters();
                if stopped {
                    return Ok(());
                }
            }
            ticked = false;
            tokio::select! {
                biased;
                () = self.consumer.news.notified() => {}
                () = self.ending.reached(Level::Graceful), if !stopped => {}
                _ = tick.tick() => ticked = true,
                message = source.next(), if !stopped => self.came(source, message?).await?,
            }
        }
    }

    async fn came(&self, source: &mut dyn Source, message: Received) -> Result<(), PublishError> {
        let Some(job) = named(&message.body) else {
            let id = message.id.as_deref();
            tracing::warn!(id, why = NO_JOB, "a message cannot be dealt with and is set aside");
            return source.set_aside(&message, NO_JOB).await;
        };
        if self.consumer.lock().contains_key(&job) {
            // The one that is here stands for both.
            return source.done(message.tag).await;
        }
        let delivery = Delivery { message, stage: Stage::New { refused: false } };
        self.consumer.lock().insert(job, delivery);
        Ok(())
    }

    /// Looks at the jobs of new messages, and now and then at those of all that wait.
    async fn look(&self, source: &mut dyn Source, all: bool, stopped: bool) -> Result<(), PublishError> {
        for (job, stage) in self.to_look_at(all, stopped) {
            let verdict = match stage {
                Stage::New { .. } | Stage::Later(_) => {
                    // No message is given up because the store is away.
                    let Ok(found) = self.reach.source.find(job).await else { return Ok(()) };
                    let takes = (&*self.consumer.queues, &*self.consumer.kinds);
                    judge(job, found, takes, &stage, fresh::wall_clock())
                }
                late => Verdict::Keep(late),
            };
            self.answer(source, job, verdict, stopped).await?;
        }
        Ok(())
    }

    fn to_look_at(&self, all: bool, stopped: bool) -> Vec<(JobId, Stage)> {
        let now = Instant::now();
        let is_due = |stage: &Stage| match stage {
            Stage::New { .. } => true,
            Stage::Later(_) => all || stopped,
            Stage::Ready { .. } => stopped || stage.is_late(now),
            Stage::Claiming { .. } | Stage::Claimed => false,
        };
        let held = self.consumer.lock();
        let due = held.iter().filter(|(_, delivery)| is_due(&delivery.stage));
        due.map(|(job, delivery)| (*job, delivery.stage.clone())).collect()
    }

    /// Tells the broker what became of a message, and forgets it.
    async fn answer(
        &self,
        source: &mut dyn Source,
        job: JobId,
        verdict: Verdict,
        stopped: bool,
    ) -> Result<(), PublishError> {
        let Some(message) = self.unanswered(job) else { return Ok(()) };
        match verdict {
            Verdict::Keep(stage) if stopped || stage.is_late(Instant::now()) => {
                tracing::debug!(%job, "a message is left to other workers");
                source.give_back(message.tag).await?;
            }
            Verdict::Keep(stage) => {
                let is_ready = matches!(stage, Stage::Ready { .. });
                self.consumer.set(job, stage);
                if is_ready {
                    self.holdings.room.notify_one();
                }
                return Ok(());
            }
            Verdict::Done(why) => {
                tracing::debug!(%job, why, "a message is acknowledged");
                source.done(message.tag).await?;
            }
            Verdict::Poison(why) => {
                let id = message.id.as_deref();
                tracing::warn!(%job, id, why, "a message cannot be dealt with and is set aside");
                source.set_aside(&message, &why).await?;
            }
        }
        self.consumer.lock().remove(&job);
        Ok(())
    }

    /// The message that names a job, unless that is being claimed.
    fn unanswered(&self, job: JobId) -> Option<Received> {
        let held = self.consumer.lock();
        let delivery = held.get(&job)?;
        let is_busy = matches!(delivery.stage, Stage::Claiming { .. } | Stage::Claimed);
        (!is_busy).then(|| delivery.message.clone())
    }
}
