//! Random lives on this store and on the model in memory at once.

mod support;

use async_trait::async_trait;
use std::sync::Arc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;
use windlass_conformance::{Made, SqlApi, differential_with_sql};
use windlass_core::decide::Cancel;
use windlass_core::unique::{Policy, Scope};
use windlass_core::{Actor, JobId, NewJob, Payload, RunAt, Timestamp, Token, Version};
use windlass_memory::MemoryStore;
use windlass_store::Signal;

/// J3, J5, J6, J7, J8, J11, M1, M2, M5, M7, Q5, Q6, Q7: whatever is done to both, both answer the same, write the
/// same log and are left the same; also what is done through SQL.
#[test]
fn this_store_lives_like_the_model() {
    let model = || async { Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) } };
    let store = || async {
        let (url, database) = support::database().await;
        let sql: Arc<dyn SqlApi> = Arc::new(Sql::new(&url).await);
        let store = windlass_postgres::Options::new(&url).pool(4).open().await.expect("a store");
        (Made { store: Arc::new(store), keep: Box::new(database) }, sql)
    };
    differential_with_sql(40, model, store);
}

/// A session of somebody who calls the SQL API.
struct Sql {
    client: Client,
    user: String,
}

/// The functions of the SQL API that read the clock.
const CLOCKED: &str = "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'windlass' AND p.proname IN ('enqueue_one', 'cancel', 'signal', 'assert_lease', 'complete')";

impl Sql {
    /// Lives have a time of their own: here the functions read it from a setting. All else is as it is everywhere.
    async fn new(url: &str) -> Self {
        let client = support::hand(url).await;
        for row in client.query(CLOCKED, &[]).await.expect("the API") {
            let text: String = row.get(0);
            let clock = "current_setting('test.now')::timestamptz";
            client.batch_execute(&text.replace("clock_timestamp()", clock)).await.expect("another clock");
        }
        let user = client.query_one("SELECT session_user::text", &[]).await.expect("a user").get(0);
        Self { client, user }
    }

    async fn call(&self, sql: &str, params: &[&(dyn ToSql + Sync)], now: Timestamp) -> Result<Row, String> {
        let set = format!("SET test.now = '{now}'");
        self.client.batch_execute(&set).await.expect("a clock");
        let raised = |error: Error| support::said(&error).0;
        self.client.query_one(sql, params).await.map_err(raised)
    }
}

fn text(payload: Option<&Payload>) -> Option<&str> {
    payload.filter(|p| p.is_json()).map(|p| std::str::from_utf8(p.as_bytes()).expect("JSON is text"))
}

fn bytes(payload: Option<&Payload>) -> Option<&[u8]> {
    payload.filter(|p| !p.is_json()).map(Payload::as_bytes)
}

#[async_trait]
impl SqlApi for Sql {
    fn actor(&self) -> Actor {
        Actor::try_from(format!("sql:{}", self.user)).expect("an actor")
    }

    async fn enqueue(&self, job: &NewJob, now: Timestamp) -> Result<Option<JobId>, String> {
        let facts = &job.facts;
        let delay_ms = match facts.run_at {
            RunAt::After(ms) => Some(ms),
            _ => None,
        };
        let unique = facts.unique.as_ref();
        let scope = unique.map(|u| if matches!(u.scope, Scope::Kind(_)) { "kind" } else { "queue" });
        let (policy, ttl_ms) = match unique.map(|u| u.policy) {
            Some(Policy::Active | Policy::Debounce(_)) => ("active", None),
            Some(Policy::Forever) => ("forever", None),
            Some(Policy::Ttl(ms)) => ("ttl", Some(ms)),
            Some(Policy::Succeeded) | None => ("succeeded", None),
        };
        let tags: Vec<&str> = facts.tags.iter().map(|t| t.as_str()).collect();
        let backoff = facts.backoff.map(|b| serde_json::to_string(&b).expect("JSON"));
        let metadata = serde_json::to_string(&facts.metadata).expect("JSON");
        let row = self
            .call(
                "SELECT windlass.enqueue(kind => $1, payload => $2::text::json, queue => $3, priority => $4,
                    delay => $5::bigint * interval '1 millisecond', max_retries => $6,
                    timeout => $7::bigint * interval '1 millisecond', lease => $8::bigint * interval '1 millisecond',
                    grace => $9::bigint * interval '1 millisecond', backoff => $10::text::jsonb, agent_id => $11,
                    metadata => $12::text::jsonb, tags => $13, unique_key => $14, unique_scope => $15,
                    unique_policy => $16, unique_ttl => $17::bigint * interval '1 millisecond', parent_id => $18,
                    id => $19, payload_bytes => $20, key => $21, cost => $22)",
                &[
                    &facts.kind.as_str(),
                    &text(job.payload.as_ref()),
                    &facts.queue.as_str(),
                    &facts.priority,
                    &delay_ms,
                    &facts.max_retries,
                    &facts.timeout_ms,
                    &facts.lease_ms.map(|ms| ms.get()),
                    &facts.grace_ms,
                    &backoff,
                    &facts.agent_id.as_ref().map(|a| a.as_str()),
                    &metadata,
                    &tags,
                    &unique.map(|u| u.key.as_str()),
                    &scope,
                    &policy,
                    &ttl_ms,
                    &facts.parent_id.map(|id| *id.as_uuid()),
                    job.id.as_uuid(),
                    &bytes(job.payload.as_ref()),
                    &facts.key.as_ref().map(|key| key.as_str()),
                    &facts.cost,
                ],
                now,
            )
            .await?;
        Ok(row.get::<_, Option<Uuid>>(0).map(|id| JobId::from_bytes(*id.as_bytes())))
    }

    async fn cancel(&self, job: JobId, wish: &Cancel, now: Timestamp) -> Result<String, String> {
        let sql = "SELECT windlass.cancel($1, $2, $3, $4::bigint * interval '1 millisecond')";
        let row =
            self.call(sql, &[job.as_uuid(), &wish.reason, &wish.force, &wish.force_after_ms], now).await?;
        Ok(row.get(0))
    }

    async fn signal(&self, signal: &Signal, now: Timestamp) -> Result<bool, String> {
        let (name, key) = (signal.name.as_str(), signal.key.as_ref().map(|k| k.as_str()));
        let sql = "SELECT windlass.signal($1, $2, $3::text::json, $4)";
        let payload = text(signal.payload.as_ref());
        Ok(self.call(sql, &[signal.job.as_uuid(), &name, &payload, &key], now).await?.get(0))
    }

    async fn complete(
        &self,
        job: JobId,
        token: &Token,
        result: Option<&Payload>,
        now: Timestamp,
    ) -> Result<Version, String> {
        let sql = "SELECT windlass.complete($1, $2, $3::text::json)";
        Ok(self.call(sql, &[job.as_uuid(), &token.to_text(), &text(result)], now).await?.get(0))
    }
}

/// M7: so does a store that is opened by a role with nothing but what `grant_app` grants.
#[test]
fn the_app_roles_store_lives_like_the_model() {
    let model = || async { Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) } };
    let store = || async {
        let (url, database) = support::database().await;
        let url = support::as_app(&url).await;
        let options = windlass_postgres::Options::new(&url).migrate(false).pool(4);
        Made { store: Arc::new(options.open().await.expect("a store")), keep: Box::new(database) }
    };
    windlass_conformance::differential(20, model, store);
}
