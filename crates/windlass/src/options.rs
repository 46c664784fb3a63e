//! The options of a job, written once for everything that makes one: enqueueing and spawning.

/// Gives a builder with a field `request` the options that every job has.
macro_rules! options {
    ($($head:tt)*) => {
        $($head)* {
            fn set(
                mut self,
                change: impl FnOnce(&mut windlass_core::NewJob) -> Result<(), windlass_core::Invalid>,
            ) -> Self {
                self.request.set(change);
                self
            }

            /// The queue to stand in, instead of the job type's own.
            pub fn queue(self, queue: &str) -> Self {
                self.set(|job| windlass_core::Name::parse("queue", queue).map(|name| job.facts.queue = name))
            }

            /// −5 to 5; higher is taken first.
            pub fn priority(self, priority: i32) -> Self {
                self.set(|job| {
                    job.facts.priority = priority;
                    Ok(())
                })
            }

            /// Runs so long after it was enqueued, by the store's clock.
            pub fn delay(self, delay: std::time::Duration) -> Self {
                self.set(|job| {
                    job.facts.run_at = windlass_core::RunAt::After($crate::enqueue::millis(delay, windlass_core::limits::HORIZON_MS));
                    Ok(())
                })
            }

            /// Runs from a moment on. Takes a [`Timestamp`](windlass_core::Timestamp), a `SystemTime` or a
            /// `jiff::Timestamp`.
            pub fn run_at(self, time: impl Into<windlass_core::Timestamp>) -> Self {
                let time = time.into();
                self.set(|job| {
                    job.facts.run_at = windlass_core::RunAt::At(time);
                    Ok(())
                })
            }

            /// How many failures are repeated before it is dead; 3 unless said otherwise.
            pub fn max_retries(mut self, retries: u32) -> Self {
                self.request.own.max_retries = Some(i32::try_from(retries).unwrap_or(i32::MAX));
                self
            }

            /// How long one attempt may take.
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.request.own.timeout_ms = Some($crate::enqueue::millis(timeout, windlass_core::limits::TIMEOUT_MAX_MS));
                self
            }

            /// Its own lease, instead of the worker's: how long after its worker's last sign of life another takes it.
            pub fn lease(mut self, lease: std::time::Duration) -> Self {
                match windlass_core::LeaseMs::new($crate::enqueue::millis(lease, windlass_core::limits::LEASE_MAX_MS)) {
                    Ok(ms) => self.request.own.lease_ms = Some(ms),
                    Err(invalid) => return self.set(|_| Err(invalid)),
                }
                self
            }

            /// How long after its lease only its holder may still finish it.
            pub fn grace(mut self, grace: std::time::Duration) -> Self {
                self.request.own.grace_ms = Some($crate::enqueue::millis(grace, windlass_core::limits::GRACE_MAX_MS));
                self
            }

            /// How long to wait between tries.
            pub fn backoff(mut self, backoff: windlass_core::Backoff) -> Self {
                self.request.own.backoff = Some(backoff);
                self
            }

            /// The agent it belongs to.
            pub fn agent(self, agent: &str) -> Self {
                self.set(|job| {
                    job.facts.agent_id = Some(windlass_core::Who::parse("agent_id", agent)?);
                    Ok(())
                })
            }

            /// A label to find it by; up to 16 of them.
            pub fn tag(self, tag: &str) -> Self {
                self.set(|job| windlass_core::Name::parse("tag", tag).map(|name| job.facts.tags.push(name)))
            }

            /// A label that its worker must have, with this value; up to 16 of them. Only queues in mode push look at them.
            pub fn require(self, label: &str, value: &str) -> Self {
                self.set(|job| {
                    let label = windlass_core::Name::parse("requires", label)?;
                    job.facts.requires.insert(label, value.to_owned());
                    Ok(())
                })
            }

            /// Whose job it is, such as a tenant. In a queue with rules for keys, jobs of one key form a lane: so many of them
            /// run at once, and keys take turns.
            pub fn key(self, key: &str) -> Self {
                self.set(|job| {
                    job.facts.key = Some(windlass_core::Key::parse("key", key)?);
                    Ok(())
                })
            }

            /// How many units of its queue's rate one start takes, 1 to 1,000; one unless said.
            pub fn cost(self, cost: i32) -> Self {
                self.set(|job| {
                    job.facts.cost = cost;
                    Ok(())
                })
            }

            /// A small value that travels with the job, such as a trace context.
            pub fn metadata(self, key: &str, value: impl serde::Serialize) -> Self {
                self.set(|job| {
                    let value = serde_json::to_value(value).map_err(|e| {
                        let given = format!("{key} ({e})");
                        windlass_core::Invalid::new("metadata", given, "must serialise to JSON")
                    })?;
                    job.facts.metadata.insert(key.to_owned(), value);
                    Ok(())
                })
            }
        }
    };
}

pub(crate) use options;
