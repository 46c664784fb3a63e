//! What people call from SQL, in their own transaction.

mod support;

use std::sync::Arc;
use support::{Database, hand, said, wait_for};
use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;
use uuid::Uuid;
use windlass_conformance::{
    Bed, completes, for_children, for_signal, invariants, json, key, name, stop_at_once, who,
};
use windlass_core::backoff::Backoff;
use windlass_core::lane::{Full, LaneMode, LaneRule, Lanes};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{
    EventKind, Facts, JobId, LeaseMs, Payload, QueueLimits, RunAt, Status, Timestamp, Unique,
};
use windlass_postgres::Options;
use windlass_store::Claimed;

/// A fresh store, and a stranger's connection to its database.
async fn place() -> (Bed, Client, Database) {
    let (url, database) = support::database().await;
    let store = Options::new(&url).pool(4).open().await.expect("a store");
    (Bed::new(Arc::new(store)), hand(&url).await, database)
}

/// The one value of a statement, or the SQLSTATE and what was said.
async fn ask<T: FromSqlOwned>(hand: &Client, sql: &str) -> Result<T, (String, String)> {
    Ok(hand.query_one(sql, &[]).await.map_err(|e| said(&e))?.get(0))
}

/// The one value of a statement that must succeed.
async fn get<T: FromSqlOwned>(hand: &Client, sql: &str) -> T {
    ask(hand, sql).await.unwrap_or_else(|said| panic!("{sql}: {said:?}"))
}

/// The SQLSTATE of a statement that must be refused.
async fn refused(hand: &Client, sql: &str) -> String {
    match hand.simple_query(sql).await {
        Ok(_) => panic!("{sql} should be refused"),
        Err(error) => said(&error).0,
    }
}

/// What DETAIL of a statement's refusal says: one is always there where a program acts on it.
async fn why(hand: &Client, sql: &str) -> serde_json::Value {
    let error = hand.simple_query(sql).await.expect_err("a refusal");
    let detail = error.as_db_error().and_then(tokio_postgres::error::DbError::detail);
    serde_json::from_str(detail.expect("a detail")).expect("JSON")
}

async fn run(hand: &Client, sql: &str) {
    hand.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {:?}", said(&e)));
}

/// Calls `windlass.enqueue` with these arguments.
async fn enqueue(hand: &Client, arguments: &str) -> JobId {
    JobId::from_uuid(get(hand, &format!("SELECT windlass.enqueue({arguments})")).await).expect("a version 7")
}

async fn count(hand: &Client, table: &str) -> i64 {
    get(hand, &format!("SELECT count(*) FROM windlass.{table}")).await
}

/// A call of a function with a job and its token.
fn call(function: &str, held: &Claimed, rest: &str) -> String {
    format!("SELECT windlass.{function}('{}', '{}'{rest})", held.job.id.as_uuid(), held.lease.token.to_text())
}

/// M3: an id that is taken is refused as such and leaves nothing behind, also when the other comes in at the same time.
#[test]
fn an_id_that_is_taken_is_refused() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let store = Options::new(&url).pool(4).open().await.expect("a store");
        let (bed, one, two) = (Bed::new(Arc::new(store)), hand(&url).await, hand(&url).await);
        let call = |id: JobId| {
            format!("SELECT windlass.enqueue('work', unique_key => 'k{id}', id => '{}')", id.as_uuid())
        };
        let (known, racing) = (bed.a_job(None).await, bed.id());
        let (code, said) = ask::<Uuid>(&one, &call(known)).await.expect_err("taken");
        assert!(
            code == "WL012" && said.contains("job_exists") && said.contains(&known.to_string()),
            "{said}"
        );
        assert_eq!((count(&one, "jobs").await, count(&one, "job_keys").await), (1, 0));
        run(&one, "BEGIN").await;
        get::<Uuid>(&one, &format!("SELECT windlass.enqueue('work', id => '{}')", racing.as_uuid())).await;
        let later = call(racing);
        let (told, ()) = tokio::join!(ask::<Uuid>(&two, &later), async {
            // It waits until the first has made up its mind.
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            while get::<i64>(&one, waits).await == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            run(&one, "COMMIT").await;
        });
        assert_eq!(told.expect_err("taken").0, "WL012");
        let taken = serde_json::json!({ "code": "job_exists", "id": known.to_string() });
        assert_eq!(why(&one, &call(known)).await, taken);
        invariants::check(&bed).await;
    });
}

/// M3: JSON that is nested deeper than the engine reads is refused; brackets in strings do not count, and what
/// `jsonb` cannot hold arrives unchanged.
#[test]
fn json_that_is_nested_too_deep_is_refused() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        let strings = format!(r#"["{}\"{}"]"#, "[".repeat(100), "{".repeat(100)).replace("\\\\", "\\");
        let flat = format!("[{}]", vec![r#"{"a":[[]]}"#; 100].join(","));
        let odd = r#"{"b":1, "a" : "\u0000", "b":2}"#.to_owned();
        let fine = [nested("[", "]", 64), nested("{\"a\":", "}", 64), strings, flat, odd];
        for payload in &fine {
            enqueue(&hand, &format!("'work', '{payload}'")).await;
        }
        let held = bed.claims("w", 10, None).await;
        assert_eq!(held.iter().map(|h| h.payload.clone()).collect::<Vec<_>>(), fine.map(|p| Some(json(&p))));
        let job = held[0].job.id.as_uuid();
        for deep in [nested("[", "]", 65), nested("{\"a\":[", "]}", 33), nested("[", "]", 3_000)] {
            for sql in [
                format!("SELECT windlass.enqueue('work', '{deep}')"),
                format!("SELECT windlass.signal('{job}', 'go', '{deep}')"),
                call("complete", &held[0], &format!(", '{deep}'")),
            ] {
                let (code, said) = ask::<String>(&hand, &sql).await.expect_err("too deep");
                assert!(code == "WL005" && said.contains("64 levels"), "{said}");
            }
        }
        invariants::check(&bed).await;
    });
}

/// M3: a job enqueued with nothing but its kind is a plain one, and its id is a UUID of version 7 of this moment.
#[test]
fn a_plain_job_is_as_the_engine_makes_it() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let first = enqueue(&hand, "'work'").await;
        let now: f64 = get(&hand, "SELECT extract(epoch FROM clock_timestamp())::float8 * 1000").await;
        let made = u64::from_be_bytes(first.as_bytes()[..8].try_into().expect("eight bytes")) >> 16;
        assert!((made as f64 - now).abs() < 60_000.0, "{made} is not {now}");
        std::thread::sleep(std::time::Duration::from_millis(3));
        let second = enqueue(&hand, "'work', '{\"n\": 1}'").await;
        assert!(first < second, "sortable by creation");
        let held = bed.claims("w", 2, None).await;
        let plain = Facts::new(name("work"), name("default"));
        assert_eq!(held.iter().map(|h| h.job.id).collect::<Vec<_>>(), [first, second]);
        assert!(held.iter().all(|h| h.facts == plain), "{:?}", held[0].facts);
        assert_eq!(held[0].payload, None);
        assert_eq!(held[1].payload, Some(json("{\"n\": 1}")), "as it was sent, to the byte");
        let user: String = get(&hand, "SELECT session_user::text").await;
        assert_eq!(bed.log(first).await[0].actor.as_str(), format!("sql:{user}"));
        for held in held {
            bed.settles(&held, completes(), None).await.expect("it completes");
        }
        invariants::check(&bed).await;
    });
}

/// M3: every option arrives: as facts, in the row, at the worker.
#[test]
fn every_option_arrives() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let parent = enqueue(&hand, "'parent'").await;
        let id = bed.id();
        let arguments = format!(
            "kind => 'mail', payload => '{{\"to\":\"ada\"}}', queue => 'out', priority => 3,
             run_at => '2026-01-02T03:04:05.678901Z', max_retries => 7, timeout => '90 s', lease => '5 s',
             grace => '1500 ms', backoff => '{{\"base_ms\": 250, \"jitter\": false}}', agent_id => 'agent 7',
             metadata => '{{\"deep\": {{\"er\": null}}}}', tags => '{{b,a}}', unique_key => 'once',
             unique_scope => 'kind', unique_policy => 'ttl', unique_ttl => '1 hour', parent_id => '{}', id => '{}',
             notify => true",
            parent.as_uuid(),
            id.as_uuid()
        );
        assert_eq!(enqueue(&hand, &arguments).await, id);
        let mut facts = Facts::new(name("mail"), name("out"));
        facts.priority = 3;
        let run_at = Timestamp::parse("run_at", "2026-01-02T03:04:05.678901Z").expect("a time");
        facts.run_at = RunAt::At(run_at);
        facts.max_retries = 7;
        facts.timeout_ms = Some(90_000);
        facts.lease_ms = Some(LeaseMs::new(5_000).expect("a lease"));
        facts.grace_ms = 1_500;
        facts.backoff = Some(Backoff { base_ms: 250, max_ms: 300_000, multiplier: 2.0, jitter: false });
        facts.agent_id = Some(who("agent 7"));
        facts.parent_id = Some(parent);
        facts.tags = vec![name("b"), name("a")];
        facts.metadata = json("{\"deep\":{\"er\":null}}").parse().expect("an object");
        let scope = Scope::Kind(name("mail"));
        facts.unique = Some(Unique { scope, key: key("once"), policy: Policy::Ttl(3_600_000) });
        assert_eq!(bed.row(id).await.due_at, Some(run_at));
        assert_eq!(bed.row(parent).await.children, 1, "the parent counts it");
        invariants::check(&bed).await;
        let held = bed.claims_from("w", &["out"], 1, None).await.remove(0);
        assert_eq!(held.facts, facts);
        assert_eq!(held.metadata, facts.metadata);
        assert_eq!(held.payload, Some(json("{\"to\":\"ada\"}")));
        bed.settles(&held, completes(), None).await.expect("it completes");
        assert_eq!(bed.row(parent).await.children, 0);
        invariants::check(&bed).await;
    });
}

/// M3: delays of any kind fold to the same moment, bytes stay bytes, arrays of any shape are tags.
#[test]
fn odd_options_still_fold() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for delay in ["5 minutes", "1 month", "1 day", "1.0004567 s", "0"] {
            let job = enqueue(&hand, &format!("'work', delay => '{delay}'")).await;
            let row = bed.row(job).await;
            assert!(row.due_at >= Some(row.created_at), "{delay}");
        }
        let bytes = enqueue(&hand, "'work', payload_bytes => '\\x00ff', queue => 'raw'").await;
        let payload = bed.view(bytes, None).await.payload.expect("a payload");
        assert_eq!((payload.as_bytes(), payload.is_json()), (&[0, 255][..], false));
        let tagged = enqueue(&hand, "'work', tags => '{{a,b},{c,d}}'").await;
        assert_eq!(bed.view(tagged, None).await.facts.tags.len(), 4);
        let all_null = "'work', NULL, priority => NULL, max_retries => NULL, backoff => NULL, tags => NULL,
            metadata => NULL, unique_key => 'k', unique_scope => NULL, unique_policy => NULL";
        let plain = enqueue(&hand, all_null).await;
        let facts = bed.view(plain, None).await.facts;
        assert_eq!((facts.priority, facts.max_retries), (0, 3));
        assert_eq!(facts.unique, Some(Unique::in_queue(name("default"), key("k"))));
        enqueue(&hand, "'work', tags => '{}', metadata => '{}', backoff => '{}'").await;
        enqueue(&hand, "'work', backoff => '{\"base_ms\": 1e3, \"max_ms\": 5.0, \"multiplier\": 1}'").await;
        invariants::check(&bed).await;
    });
}

/// M3: a job is there if and only if the caller's transaction commits, also from a trigger.
#[test]
fn a_job_lives_and_dies_with_the_callers_transaction() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        run(&hand, "BEGIN; SELECT windlass.enqueue('work', unique_key => 'k'); ROLLBACK").await;
        for table in ["jobs", "job_events", "job_keys"] {
            assert_eq!(count(&hand, table).await, 0, "{table}");
        }
        run(
            &hand,
            "CREATE TABLE users (id int PRIMARY KEY);
             CREATE FUNCTION welcome() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM windlass.enqueue('welcome', json_build_object('user', NEW.id)); RETURN NEW; END $$;
             CREATE TRIGGER welcome AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION welcome()",
        )
        .await;
        refused(&hand, "INSERT INTO users VALUES (1), (1)").await;
        assert_eq!(count(&hand, "jobs").await, 0);
        run(&hand, "INSERT INTO users SELECT generate_series(1, 3)").await;
        let held = bed.claims("w", 10, None).await;
        assert_eq!(held.len(), 3);
        // The door closes behind the function, in the same transaction too.
        let code = refused(
            &hand,
            "BEGIN; SELECT windlass.enqueue('work'); INSERT INTO windlass.jobs (id) SELECT id FROM windlass.jobs",
        )
        .await;
        run(&hand, "ROLLBACK").await;
        assert_eq!(code, "WL004");
        invariants::check(&bed).await;
    });
}

/// M3: a taken key answers with the job that has it, by key, by payload, across the engine and SQL.
#[test]
fn duplicates_answer_with_the_job_that_is_there() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let first = enqueue(&hand, "'work', '1', unique_key => 'k'").await;
        assert_eq!(enqueue(&hand, "'other', '2', unique_key => 'k'").await, first, "one queue");
        assert_ne!(enqueue(&hand, "'work', unique_key => 'k', queue => 'q'").await, first, "another queue");
        assert_ne!(enqueue(&hand, "'work', unique_key => 'k', unique_scope => 'kind'").await, first);
        let mut engines = bed.job("work");
        engines.facts.unique = Some(Unique::in_queue(name("default"), key("k")));
        assert_eq!(bed.enqueue(engines, None).await.id, first, "the engine sees it");

        let payload = enqueue(&hand, "'mail', '{\"n\":1}', unique_by => 'payload'").await;
        assert_eq!(enqueue(&hand, "'mail', '{\"n\":1}', unique_by => 'payload'").await, payload);
        assert_ne!(enqueue(&hand, "'mail', '{\"n\":2}', unique_by => 'payload'").await, payload);
        assert_ne!(enqueue(&hand, "'post', '{\"n\":1}', unique_by => 'payload'").await, payload);
        let none = enqueue(&hand, "'mail', unique_by => 'payload'").await;
        assert_eq!(enqueue(&hand, "'mail', unique_by => 'payload'").await, none);
        let mut engines = bed.job("mail");
        engines.facts.unique =
            Some(Unique::by_payload(name("mail"), engines.payload.as_ref()).expect("a key"));
        assert_eq!(bed.enqueue(engines, None).await.id, payload, "by the same hash");

        let short =
            enqueue(&hand, "'s', unique_key => 't', unique_policy => 'ttl', unique_ttl => '1 ms'").await;
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_ne!(enqueue(&hand, "'s', unique_key => 't'").await, short, "its time is over");
        let ends = enqueue(&hand, "'e', unique_key => 'e'").await;
        bed.cancels(ends, stop_at_once(), None).await.expect("cancelled");
        assert_ne!(enqueue(&hand, "'e', unique_key => 'e'").await, ends, "a cancelled job frees its key");
        invariants::check(&bed).await;
    });
}

/// T3: SQL and the engine compare payloads by the same hash, whatever the order of keys.
#[test]
fn payloads_have_one_fingerprint() {
    wait_for(async {
        let (_bed, hand, _database) = place().await;
        for text in [
            "7",
            " 1.0 ",
            "1e400",
            "null",
            "\"a b\"",
            "[]",
            "{}",
            " { } ",
            "[1, 2 ,[3 ]]",
            r#"{"b":1,"a":{"d":[{"z":1,"y":2}],"c":"x"}}"#,
            r#"{ "ab":1, "a":2, "ä":3, "Z":4, "":5 }"#,
            r#"{"b":1,"b":2,"a":3}"#,
            r#"{"\u0062":1,"a\"\\\n\u001f/":"\u0062\/"}"#,
            r#"{"b":"\\u0000","a":1}"#,
            r#"{"b":"\u0000","a":1}"#,
            r#"{"b":["\uD83D\uDE00"],"a":1}"#,
            r#"["\u0000" , 1]"#,
            "{\"b\":\"\u{7f}€\",\"a\":1}",
            r#"{"b":"\\U0000","a":1}"#,
            "{\"\u{1F600}\":1,\"\u{FFFD}\":2}",
        ] {
            let known = Payload::json("payload", text, 1 << 20).expect("JSON").fingerprint();
            let row = hand.query_one("SELECT windlass.fingerprint($1::text::json, NULL)", &[&text]).await;
            assert_eq!(row.expect("a hash").get::<_, Vec<u8>>(0), known, "{text}");
        }
        let row = hand.query_one("SELECT windlass.fingerprint(NULL, '\\x00ff')", &[]).await.expect("a hash");
        assert_eq!(
            row.get::<_, Vec<u8>>(0),
            Payload::bytes("payload", [0, 255], 9).expect("bytes").fingerprint()
        );
    });
}

/// M3: what is outside the limits is refused, named, and leaves nothing.
#[test]
fn bad_input_is_refused_by_name() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
        let deep = format!("'w', metadata => '{deep}'");
        let long = format!("'w', metadata => '{{\"a\":\"{}\"}}'", "x".repeat(17_000));
        let wrong = [
            ("''", "kind"),
            ("'a b'", "kind"),
            ("NULL", "kind"),
            ("'w', queue => 'ä'", "queue"),
            ("'w', queue => NULL", "queue"),
            ("'w', priority => 6", "priority"),
            ("'w', max_retries => 101", "max_retries"),
            ("'w', max_retries => -1", "max_retries"),
            ("'w', timeout => '-1 s'", "timeout"),
            ("'w', timeout => '31 days'", "timeout"),
            ("'w', lease => '999 ms'", "lease"),
            ("'w', grace => '-1 s'", "grace"),
            ("'w', delay => '-1 s'", "delay"),
            ("'w', delay => '11 years'", "delay"),
            ("'w', run_at => '2100-01-01'", "run_at"),
            ("'w', run_at => 'infinity'", "run_at"),
            ("'w', tags => '{a,\"b c\"}'", "tag"),
            ("'w', tags => '{a,NULL}'", "tag"),
            ("'w', tags => array_fill('a'::text, '{17}')", "tags"),
            ("'w', metadata => '[]'", "metadata"),
            (&deep, "metadata"),
            (&long, "metadata"),
            ("'w', metadata => '{\"n\":1e400}'", "metadata"),
            ("'w', metadata => '{\"a\":[{\"n\":-1e309}]}'", "metadata"),
            ("'w', metadata => (('{\"n\":1' || repeat('0', 400) || '}')::jsonb)", "metadata"),
            ("'w', agent_id => ''", "agent_id"),
            ("'w', agent_id => E'a\\nb'", "agent_id"),
            ("'w', backoff => '[]'", "backoff"),
            ("'w', backoff => '3'", "backoff"),
            ("'w', backoff => '{\"base\": 1}'", "backoff"),
            ("'w', backoff => '{\"base_ms\": \"1\"}'", "backoff"),
            ("'w', backoff => '{\"base_ms\": null}'", "backoff"),
            ("'w', backoff => '{\"base_ms\": -1}'", "backoff"),
            ("'w', backoff => '{\"max_ms\": 1.5}'", "backoff"),
            ("'w', backoff => '{\"multiplier\": 0.5}'", "backoff"),
            ("'w', backoff => '{\"jitter\": 1}'", "backoff"),
            ("'w', key => ''", "key"),
            ("'w', key => repeat('x', 513)", "key"),
            ("'w', key => 'windlass:k'", "key"),
            ("'w', cost => 0", "cost"),
            ("'w', cost => 1001", "cost"),
            ("'w', unique_key => ''", "unique_key"),
            ("'w', unique_key => repeat('x', 513)", "unique_key"),
            ("'w', unique_key => 'windlass:k'", "unique"),
            ("'w', unique_key => 'k', unique_scope => 'schedule'", "unique"),
            ("'w', unique_key => 'k', unique_policy => 'never'", "unique"),
            ("'w', unique_key => 'k', unique_policy => 'ttl'", "unique"),
            ("'w', unique_key => 'k', unique_ttl => '1 s'", "unique"),
            ("'w', unique_key => 'k', unique_policy => 'ttl', unique_ttl => '0'", "unique_ttl"),
            ("'w', unique_by => 'args'", "unique_by"),
            ("'w', unique_key => 'k', unique_by => 'payload'", "unique_by"),
            ("'w', id => gen_random_uuid()", "id"),
            ("'w', payload_bytes => convert_to(repeat('x', 16777217), 'UTF8')", "payload"),
        ];
        for (arguments, field) in wrong {
            let asked = ask::<Uuid>(&hand, &format!("SELECT windlass.enqueue({arguments})")).await;
            let (code, said) = asked.expect_err(arguments);
            assert_eq!(code, "WL005", "{arguments}: {said}");
            assert!(said.starts_with(&format!("{field} is ")), "{arguments}: {said}");
        }
        let orphan = "SELECT windlass.enqueue('w', parent_id => windlass.uuidv7())";
        assert_eq!(refused(&hand, orphan).await, "WL006");
        assert_eq!(count(&hand, "jobs").await + count(&hand, "job_keys").await, 0);
        invariants::check(&bed).await;
    });
}

/// Draws from a fixed sequence (SplitMix64).
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn of<'a>(&mut self, some: &[&'a str]) -> &'a str {
        some[self.next(some.len())]
    }

    /// JSON as odd as JSON can be, and now and then none at all.
    fn json(&mut self, depth: usize) -> String {
        const VALUES: [&str; 40] = [
            "null",
            "true",
            "0",
            "-0",
            "-0.0",
            "1e400",
            "-1e400",
            "1e-400",
            "1e308",
            "1.7976931348623157e308",
            "1.7976931348623159e308",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "123456789012345678901234567890.12345678901234567890",
            "4.9e-324",
            "1E+2",
            "0.1e1",
            "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999e300",
            "\"\"",
            "\"\\u0000\"",
            "\"\\ud800\"",
            "\"\\udc00\\ud800\"",
            "\"\\ud83d\\ude00\"",
            "\"\\u001b[2J\"",
            "\"a\\nb\"",
            "\"\\u202e\"",
            "\"\u{fffd}\"",
            "\"\u{10ffff}\"",
            "\"\u{feff}x\"",
            "\"{[\"",
            "{}",
            "[]",
            "\"\\\\\"",
            "\"\\/\"",
            "{\"a\":1,\"a\":2}",
            "{\"\":0}",
            "01",
            "nan",
        ];
        match self.next(8) {
            0 if depth < 6 => format!(
                "{{\"{}\":{}}}",
                self.of(&["a", "", "\\u0000", "ключ", "$", "a.b"]),
                self.json(depth + 1)
            ),
            1 if depth < 6 => format!("[{},{}]", self.json(depth + 1), self.json(depth + 1)),
            2 if depth == 0 => {
                let levels = 60 + self.next(10);
                format!("{}1{}", "{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2))
            }
            _ => self.of(&VALUES).to_owned(),
        }
    }
}

/// M3: whatever SQL takes, the engine reads: claims, lists, folds. Odd JSON, names and numbers are drawn for every argument.
#[test]
fn what_sql_takes_the_engine_reads() {
    const TEXTS: [&str; 12] = [
        "a",
        "A.b:c-_9",
        "",
        "a b",
        "ä",
        "\n",
        "\u{1b}",
        "\u{85}",
        "\u{202e}",
        "windlass:x",
        "x\u{7f}",
        "😀",
    ];
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let mut draws = Draws(7);
        let mut taken = Vec::new();
        for round in 0..1_500 {
            let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
            let mut arguments =
                vec![format!("kind => {}", quoted(draws.of(&["k", "k", "k", TEXTS[1], TEXTS[5]])))];
            for _ in 0..=draws.next(3) {
                let text = draws.of(&TEXTS).to_owned();
                arguments.push(match draws.next(11) {
                    0 => format!("payload => {}", quoted(&draws.json(0))),
                    1 | 2 => format!("metadata => {}", quoted(&format!("{{\"m\":{}}}", draws.json(0)))),
                    3 => format!("metadata => {}", quoted(&draws.json(0))),
                    4 => format!(
                        "backoff => {}",
                        quoted(&format!(
                            "{{\"{}\":{}}}",
                            draws.of(&["base_ms", "max_ms", "multiplier", "jitter"]),
                            draws.json(4)
                        ))
                    ),
                    5 => format!("agent_id => {}", quoted(&text)),
                    6 => format!("unique_key => {}", quoted(&format!("{text}{round}"))),
                    7 => format!("tags => ARRAY[{}]", quoted(&text)),
                    8 => format!(
                        "timeout => {}",
                        quoted(draws.of(&["1 ms", "0.4 ms", "1e-3 s", "30 days", "-1 s", "1 mon"]))
                    ),
                    9 => format!(
                        "run_at => {}",
                        quoted(draws.of(&["epoch", "-infinity", "now", "infinity", "4714-11-24 BC"]))
                    ),
                    _ => format!("priority => {}", draws.of(&["-5", "5", "6", "NULL", "32768"])),
                });
            }
            arguments.dedup_by_key(|a| a.split(' ').next().expect("a name").to_owned());
            let sql = format!("SELECT windlass.enqueue({})", arguments.join(", "));
            if let Ok(id) = ask::<Uuid>(&hand, &sql).await {
                taken.push((id, sql));
            }
        }
        assert!((300..1_300).contains(&taken.len()), "{} of 1500 were taken", taken.len());
        for (id, sql) in &taken {
            let held = bed.claims_by_id("w", JobId::from_uuid(*id).expect("a version 7"), None).await;
            let held = held.unwrap_or_else(|refused| panic!("{sql}: {refused:?}"));
            // It may be over already: some have a millisecond.
            let _ = bed.settles(&held, completes(), None).await;
        }
        hand.batch_execute("SELECT * FROM windlass.job_view").await.expect("the view shows them");
        invariants::check(&bed).await;
    });
}

/// M3, M10: cancel answers what it did: cancelled, requested of the holder, already; or why not.
#[test]
fn cancel_says_what_it_did() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let cancel = |job: JobId, rest: &str| format!("SELECT windlass.cancel('{}'{rest})", job.as_uuid());
        let answer = async |job, rest: &str| get::<String>(&hand, &cancel(job, rest)).await;

        let pending = enqueue(&hand, "'work', unique_key => 'k'").await;
        assert_eq!(answer(pending, ", reason => 'wrong'").await, "cancelled");
        assert_eq!(answer(pending, "").await, "already");
        let last = bed.log(pending).await.pop().expect("a log");
        assert!(
            matches!(&last.what, EventKind::JobCancelled(d) if d.reason.as_deref() == Some("wrong")),
            "{last:?}"
        );
        assert_eq!(count(&hand, "job_keys").await, 0, "its key is free");

        let held = bed.holds("w", bed.job("work"), None).await;
        assert_eq!(answer(held.job.id, ", force_after => '10 s'").await, "requested");
        assert_eq!(answer(held.job.id, "").await, "already");
        let row = bed.row(held.job.id).await;
        assert_eq!(row.deadline_at, row.cancel_requested_at.map(|t| t.plus_ms(10_000)));
        invariants::check(&bed).await;
        assert_eq!(answer(held.job.id, ", force => true").await, "cancelled");
        bed.settles(&held, completes(), None).await.expect_err("it was taken away");

        let nulls = bed.holds("w", bed.job("work"), None).await;
        assert_eq!(answer(nulls.job.id, ", NULL, NULL, NULL").await, "requested");
        let waiting = bed.holds("w", bed.job("work"), None).await;
        let (question, _) = bed.question(&waiting, "gate");
        bed.asks(question, None).await;
        bed.waits(&waiting, for_signal("go"), None).await.expect("it waits");
        assert_eq!(answer(waiting.job.id, "").await, "cancelled");
        assert_eq!(get::<String>(&hand, "SELECT status FROM windlass.approvals").await, "void");
        let done = bed.holds("w", bed.job("work"), None).await;
        bed.settles(&done, completes(), None).await.expect("it completes");
        assert_eq!(refused(&hand, &cancel(done.job.id, "")).await, "WL007");
        assert_eq!(refused(&hand, &cancel(bed.id(), "")).await, "WL006");
        let reason = ", reason => repeat('x', 4097)";
        assert_eq!(refused(&hand, &cancel(nulls.job.id, reason)).await, "WL005");
        invariants::check(&bed).await;
    });
}

/// M3: a signal wakes who waits for it, is kept for who does not yet, and counts once per key.
#[test]
fn signal_wakes_or_is_kept() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let signal = |job: JobId, rest: &str| format!("SELECT windlass.signal('{}', {rest})", job.as_uuid());
        let answer = async |job, rest: &str| get::<bool>(&hand, &signal(job, rest)).await;

        let held = bed.holds("w", bed.job("work"), None).await;
        let job = held.job.id;
        bed.waits(&held, for_signal("paid"), None).await.expect("it waits");
        assert!(!answer(job, "'other', '1'").await);
        assert_eq!(bed.row(job).await.signals, 1, "kept");
        assert!(!answer(job, "'paid', '{\"amount\":3}', key => 'p-1'").await);
        assert!(answer(job, "'paid', '{\"amount\":3}', key => 'p-1'").await, "sent before");
        assert_eq!(refused(&hand, &signal(job, "'other', key => 'p-1'")).await, "WL011");
        invariants::check(&bed).await;
        let woken = bed.claims_by_id("w", job, None).await.expect("it is woken");
        let brought = woken.wake.clone().expect("by something").payload.expect("with a payload");
        assert_eq!(brought, json("{\"amount\":3}"));
        bed.waits(&woken, for_signal("other"), None).await.expect("it waits");
        let woken = bed.claims_by_id("w", job, None).await.expect("the kept one wakes it at once");
        bed.settles(&woken, completes(), None).await.expect("it completes");
        assert_eq!(refused(&hand, &signal(job, "'paid'")).await, "WL007");
        assert_eq!(refused(&hand, &signal(bed.id(), "'paid'")).await, "WL006");
        for bad in ["'a b'", "NULL", "'a', key => ''", "'a', key => 'windlass:step:0:pay'"] {
            assert_eq!(refused(&hand, &signal(job, bad)).await, "WL005", "{bad}");
        }
        invariants::check(&bed).await;
    });
}

/// M3: only the live lease passes; everybody else is told why not, and nothing happens.
#[test]
fn only_the_live_lease_passes() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let calls = |held: &Claimed| [call("assert_lease", held, ""), call("complete", held, "")];
        let held = bed.holds("w", bed.job("work"), None).await;
        run(&hand, &call("assert_lease", &held, "")).await;
        assert_eq!(bed.row(held.job.id).await.status, Status::Running, "it only looks");

        let before = bed.snapshot(held.job.id).await;
        let token = format!("'{}'", held.lease.token.to_text());
        let other = format!("'{}'", "0".repeat(32));
        for wrong in [other.as_str(), "'nonsense'", "''", "NULL", "repeat('z', 32)"] {
            for sql in calls(&held).map(|sql| sql.replace(&token, wrong)) {
                assert_eq!(refused(&hand, &sql).await, "WL010", "{wrong}");
            }
        }
        bed.is_unchanged(&before).await;

        let mut unknown = held.clone();
        unknown.job.id = bed.id();
        let waiting = bed.holds("w", bed.job("work"), None).await;
        bed.waits(&waiting, for_signal("go"), None).await.expect("it waits");
        let finished = bed.holds("w", bed.job("work"), None).await;
        bed.settles(&finished, completes(), None).await.expect("it completes");
        let over = bed.holds("w", bed.job("work"), windlass_conformance::at(0)).await;
        let mut mismatch = held.clone();
        mismatch.lease.token = waiting.lease.token;
        let cases = [
            (unknown, "WL006", "not_found", None),
            (finished, "WL007", "job_finished", Some("completed")),
            (waiting, "WL008", "not_leased", Some("waiting")),
            (over, "WL009", "lease_expired", None),
            (mismatch, "WL010", "lease_mismatch", None),
        ];
        for (held, state, code, status) in cases {
            for sql in calls(&held) {
                assert_eq!(refused(&hand, &sql).await, state);
                let why = why(&hand, &sql).await;
                assert_eq!((&why["code"], &why["id"]), (&code.into(), &held.job.id.to_string().into()));
                assert_eq!(why["status"].as_str(), status);
            }
        }
        let large = call("complete", &held, ", to_json(repeat('x', 16777216))");
        assert_eq!(refused(&hand, &large).await, "WL005");
        bed.is_unchanged(&before).await;
        invariants::check(&bed).await;
    });
}

/// M3: a completion commits and rolls back with the caller's own writes.
#[test]
fn complete_is_part_of_the_callers_transaction() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        run(&hand, "CREATE TABLE effects (n int)").await;
        let mut job = bed.job("work");
        job.facts.unique = Some(Unique::in_queue(name("default"), key("k")));
        let held = bed.holds("w", job, None).await;
        let before = bed.snapshot(held.job.id).await;
        let effect = "INSERT INTO effects VALUES (1)";
        let complete = call("complete", &held, ", '{\"ok\": true}'");
        run(&hand, &format!("BEGIN; {effect}; {complete}; ROLLBACK")).await;
        bed.is_unchanged(&before).await;
        run(&hand, &format!("BEGIN; {effect}; {complete}; COMMIT")).await;
        let view = bed.view(held.job.id, None).await;
        assert_eq!((view.job.status, view.result), (Status::Completed, Some(json("{\"ok\": true}"))));
        let last = bed.log(held.job.id).await.pop().expect("a log");
        assert_eq!((last.actor.as_str(), last.lease), ("worker:w", Some(held.lease.token.hash())));
        let again = format!("BEGIN; {effect}; {complete}; COMMIT");
        assert_eq!(refused(&hand, &again).await, "WL007");
        run(&hand, "ROLLBACK").await;
        assert_eq!(get::<i64>(&hand, "SELECT count(*) FROM effects").await, 1, "exactly once");
        assert_eq!(count(&hand, "job_keys").await, 1, "a success keeps its key");
        let bare = bed.holds("w", bed.job("work"), None).await;
        assert_eq!(get::<i64>(&hand, &call("complete", &bare, "")).await, 3);
        assert_eq!(bed.view(bare.job.id, None).await.result, None);
        invariants::check(&bed).await;
    });
}

/// M3: the last child that completes, is cancelled or fails by SQL wakes its parent.
#[test]
fn a_family_ends_through_sql() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let parent = bed.holds("boss", bed.job("parent"), None).await;
        let child = format!("'child', parent_id => '{}'", parent.job.id.as_uuid());
        let first = enqueue(&hand, &child).await;
        let second = enqueue(&hand, &child).await;
        bed.waits(&parent, for_children(), None).await.expect("it waits");
        assert_eq!(bed.row(parent.job.id).await.children, 2);
        let held = bed.claims_by_id("w", first, None).await.expect("claimed");
        run(&hand, &call("complete", &held, ", '1'")).await;
        assert!(bed.row(parent.job.id).await.due_at.is_none(), "one is left");
        run(&hand, &format!("SELECT windlass.cancel('{}')", second.as_uuid())).await;
        let woken = bed.claims_by_id("boss", parent.job.id, None).await.expect("woken by the last");
        let third = enqueue(&hand, &child).await;
        let held = bed.claims_by_id("w", third, None).await.expect("claimed");
        run(&hand, &call("complete", &held, "")).await;
        run(&hand, &call("complete", &woken, "")).await;
        let late = enqueue(&hand, &child).await;
        assert_eq!(bed.row(parent.job.id).await.children, 0, "a completed job has no more children");
        assert_eq!(bed.view(late, None).await.facts.parent_id, Some(parent.job.id));
        invariants::check(&bed).await;
    });
}

/// M7, M8: the views show every job and event, and no secret is among them.
/// M3, M7: the same answers and the same log as of the engine's own verbs: a unique key that is taken is answered before
/// the parent is looked at, and a parent learns of a child's end from the engine.
#[test]
fn sql_keeps_to_the_order_and_the_actors_of_the_rules() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let first = enqueue(&hand, "'work', unique_key => 'k'").await;
        let nobody = format!("parent_id => '{}'", bed.id().as_uuid());
        assert_eq!(enqueue(&hand, &format!("'work', unique_key => 'k', {nobody}")).await, first);
        let orphan = format!("SELECT windlass.enqueue('work', unique_key => 'other', {nobody})");
        assert_eq!(refused(&hand, &orphan).await, "WL006");
        assert_eq!(count(&hand, "job_keys").await, 1, "a refused job takes no key");
        let parent = bed.a_job(None).await;
        let child = enqueue(&hand, &format!("'work', parent_id => '{}'", parent.as_uuid())).await;
        run(&hand, &format!("SELECT windlass.cancel('{}')", child.as_uuid())).await;
        let told = bed.log(parent).await.pop().expect("the parent has a log");
        assert_eq!((told.what.type_name(), told.actor.as_str()), ("job_child_finished", "engine"));
        invariants::check(&bed).await;
    });
}

#[test]
fn views_show_everything_but_secrets() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = enqueue(&hand, "'work', '{\"n\":1}', tags => '{a}', agent_id => 'ann'").await;
        let held = bed.claims_by_id("w", job, None).await.expect("claimed");
        let (question, link) = bed.question(&held, "gate");
        bed.asks(question, None).await;
        run(&hand, &call("complete", &held, ", '{\"r\":2}'")).await;
        let dead = bed.holds("w", bed.job("work"), None).await;
        bed.settles(&dead, windlass_conformance::fails_for_good("broken"), None).await.expect("it fails");
        let later = enqueue(&hand, "'work', delay => '1 hour'").await;
        let running = bed.holds("w", bed.job("work"), None).await;
        enqueue(&hand, "'work', payload_bytes => '\\xff'").await;

        let shown = format!(
            "SELECT concat_ws(' ', status, payload, result, tags, agent_id, progress) FROM windlass.job_view WHERE id = '{}'",
            job.as_uuid()
        );
        assert_eq!(get::<String>(&hand, &shown).await, "completed {\"n\": 1} {\"r\": 2} {a} ann 100");
        let dead_letter = "SELECT id || ' ' || error_code || ' ' || (error::json ->> 'code') FROM windlass.dead_letter_view";
        let expected = format!("{} broken broken", dead.job.id.as_uuid());
        assert_eq!(get::<String>(&hand, dead_letter).await, expected);
        let queue = "SELECT concat_ws(' ', queue, due, scheduled, running) FROM windlass.queue_view";
        assert_eq!(get::<String>(&hand, queue).await, "default 1 1 1", "{later:?} {running:?}");
        assert_eq!(count(&hand, "job_view").await, count(&hand, "jobs").await);
        assert_eq!(count(&hand, "history_view").await, count(&hand, "job_events").await);
        let secrets = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'windlass'
            AND table_name LIKE '%\\_view' AND column_name ~ 'token|hash|secret|^lease$'";
        assert_eq!(get::<i64>(&hand, secrets).await, 0);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        for view in ["job_view", "history_view"] {
            let text =
                get::<String>(&hand, &format!("SELECT string_agg(v::text, ' ') FROM windlass.{view} v"))
                    .await;
            for secret in
                [running.lease.token.to_text(), hex(&running.lease.token.hash().0), hex(&link.hash())]
            {
                assert!(!text.contains(&secret), "{view} shows a secret");
            }
        }
        invariants::check(&bed).await;
    });
}

/// M14: a reader with SQL alone is told what every table, column and view means.
#[test]
fn everything_in_the_schema_says_what_it_is() {
    wait_for(async {
        let (_bed, hand, _database) = place().await;
        let silent = "SELECT coalesce(string_agg(c.relname || coalesce('.' || a.attname, ''), ' '), '')
            FROM pg_class c LEFT JOIN LATERAL (SELECT attname, attnum FROM pg_attribute
              WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped UNION ALL SELECT NULL, 0) a ON true
            WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind IN ('r', 'p', 'v')
              AND coalesce(CASE a.attnum WHEN 0 THEN obj_description(c.oid, 'pg_class')
                ELSE col_description(c.oid, a.attnum) END, '') = ''";
        assert_eq!(get::<String>(&hand, silent).await, "", "these have no COMMENT");
    });
}

/// M14: payload, result and metadata are jsonb in the views, found by what they contain, also where one of them is JSON that
/// jsonb cannot hold; a user's own index serves that.
#[test]
fn json_is_found_by_what_it_contains() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = enqueue(&hand, "'work', '{\"to\":{\"id\":7}}', metadata => '{\"team\":\"red\"}'").await;
        for odd in [
            "'{\"a\":\"\\u0000\"}'",
            "'{\"a\":\"\\ud800\"}'",
            "'[1e200000]'",
            "NULL, payload_bytes => '\\xff'",
        ] {
            enqueue(&hand, &format!("'odd', {odd}")).await;
        }
        let held = bed.claims_by_id("w", job, None).await.expect("claimed");
        run(&hand, &call("complete", &held, ", '{\"ok\":[1,2]}'")).await;
        run(&hand, "CREATE INDEX mine ON windlass.job_events USING gin (windlass.as_json(is_json, payload) jsonb_path_ops)").await;
        for contains in [
            "payload @> '{\"to\":{\"id\":7}}'",
            "result @> '{\"ok\":[2]}'",
            "metadata @> '{\"team\":\"red\"}'",
        ] {
            let found = format!("SELECT string_agg(id::text, ' ') FROM windlass.job_view WHERE {contains}");
            assert_eq!(get::<String>(&hand, &found).await, job.as_uuid().to_string(), "{contains}");
        }
        let odd = "SELECT string_agg(coalesce(payload ->> 0, payload #>> '{}', '-'), ' ' ORDER BY created_at)
            FROM windlass.job_view WHERE kind = 'odd'";
        assert_eq!(get::<String>(&hand, odd).await, "{\"a\":\"\\u0000\"} {\"a\":\"\\ud800\"} [1e200000] -");
        run(&hand, "SET enable_seqscan = off").await;
        let plan = "SELECT job_id FROM windlass.history_view WHERE payload @> '{\"to\":{\"id\":7}}'";
        let lines = hand.query(&format!("EXPLAIN {plan}"), &[]).await.expect("a plan");
        assert!(lines.iter().any(|l| l.get::<_, String>(0).contains("on mine")), "{lines:?}");
        assert_eq!(get::<uuid::Uuid>(&hand, plan).await, *job.as_uuid());
    });
}

/// M8: a queue's oldest due job is one that is due.
#[test]
fn a_queue_is_not_late_with_what_is_scheduled() {
    wait_for(async {
        let (_bed, hand, _database) = place().await;
        enqueue(&hand, "'work', delay => '1 hour'").await;
        let oldest = "SELECT oldest_due_at IS NULL AND due = 0 AND scheduled = 1 FROM windlass.queue_view";
        assert!(get::<bool>(&hand, oldest).await, "nothing is due");
        enqueue(&hand, "'work'").await;
        let oldest = "SELECT oldest_due_at <= clock_timestamp() AND due = 1 FROM windlass.queue_view";
        assert!(get::<bool>(&hand, oldest).await, "now something is");
    });
}

/// M3: the examples of the page run as they stand, but for ids, tokens and the names of roles.
#[test]
fn the_examples_of_the_page_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/postgres.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks: Vec<&str> =
        page.split("```sql\n").skip(1).map(|b| b.split("```").next().expect("an end")).collect();
    assert_eq!(blocks.len(), 3);
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let roles = ["windlass_app", "analyst"].map(|r| (r, format!("{r}_{}", std::process::id())));
        let drop_roles = async || {
            for (_, role) in &roles {
                let there = format!("SELECT count(*) FROM pg_roles WHERE rolname = '{role}'");
                if get::<i64>(&hand, &there).await == 1 {
                    run(&hand, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
                }
            }
        };
        drop_roles().await;
        let named = roles.iter().fold(blocks[0].to_owned(), |text, (old, new)| text.replace(old, new));
        run(&hand, &named).await;
        drop_roles().await;

        run(&hand, "CREATE TABLE users (id int); CREATE TABLE accounts (id int, balance int)").await;
        run(&hand, "INSERT INTO accounts VALUES (42, 10)").await;
        let cancelled = bed.a_job(None).await;
        let signalled = bed.a_job(None).await;
        let held = bed.holds("w", bed.job("work"), None).await;
        let mut text = blocks[1].to_owned();
        for job in [cancelled, signalled, held.job.id] {
            text = text.replacen("0193…", &job.as_uuid().to_string(), 1);
        }
        run(&hand, &text.replace("<lease token>", &held.lease.token.to_text())).await;
        run(&hand, "INSERT INTO users VALUES (7)").await;
        assert_eq!(get::<i32>(&hand, "SELECT balance FROM accounts").await, 7);
        let statuses = [cancelled, signalled, held.job.id];
        let mut found = Vec::new();
        for job in statuses {
            found.push(bed.row(job).await.status);
        }
        assert_eq!(found, [Status::Cancelled, Status::Pending, Status::Completed]);
        let kinds =
            "SELECT string_agg(kind, ' ' ORDER BY kind) FROM windlass.job_view WHERE kind LIKE 'email%'";
        assert_eq!(get::<String>(&hand, kinds).await, "email.send email.welcome");
        run(&hand, blocks[2]).await;
        invariants::check(&bed).await;
    });
}

/// Sets what holds for every key of the default queue.
async fn lanes(bed: &Bed, each: LaneRule) {
    let lanes = Some(Lanes { each, ..Lanes::default() });
    bed.limits(QueueLimits { lanes, ..QueueLimits::default() }, None).await;
}

/// F1, F7: a key and a cost given in SQL are those of the engine: the same facts, the same lane, the same limit.
#[test]
fn keys_and_costs_are_the_engines() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        lanes(&bed, LaneRule { concurrency: Some(1), ..LaneRule::default() }).await;
        for of in ["acme", "ümläut 'quoted' \\ and more"] {
            let by_sql = enqueue(&hand, &format!("'work', key => {}, cost => 3", quoted(of))).await;
            let mut engines = bed.job("work");
            (engines.facts.key, engines.facts.cost) = (Some(key(of)), 3);
            let by_engine = bed.enqueue(engines, None).await.id;
            let (one, two) = (bed.view(by_sql, None).await, bed.view(by_engine, None).await);
            assert_eq!((&one.facts.key, one.facts.cost), (&Some(key(of)), 3));
            assert_eq!((one.job.lane, one.facts), (two.job.lane, two.facts));
        }
        let held = bed.claims("w", 9, None).await;
        assert_eq!(held.len(), 2, "one of each key");
        invariants::check(&bed).await;
    });
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// F18: a full lane answers in SQL as the engine does, and leaves nothing behind.
#[test]
fn a_full_lane_refuses_and_drops_in_sql() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        lanes(&bed, LaneRule { backlog: Some(2), ..LaneRule::default() }).await;
        run(&hand, "BEGIN").await;
        let first = enqueue(&hand, "'work', key => 'acme'").await;
        enqueue(&hand, "'work', key => 'acme', delay => '1 hour'").await;
        let full = ask::<Uuid>(&hand, "SELECT windlass.enqueue('work', key => 'acme')").await;
        let (state, said) = full.expect_err("two wait, also in the own transaction");
        assert_eq!((state.as_str(), said.starts_with("lane_full: 2 ")), ("WL015", true), "{said}");
        run(&hand, "ROLLBACK").await;
        for _ in 0..2 {
            enqueue(&hand, "'work', key => 'acme'").await;
        }
        enqueue(&hand, "'work', key => 'globex'").await;
        enqueue(&hand, "'work'").await;
        assert!(bed.store.job(first, None).await.expect("the store answers").is_none());
        let many =
            r#"[{"kind": "work", "queue": "default"}, {"kind": "work", "queue": "default", "key": "acme"}]"#;
        let full = why(&hand, &format!("SELECT windlass.enqueue_many('{many}', 'me', false)")).await;
        let place = (&full["code"], &full["index"], &full["waiting"]);
        assert_eq!(place, (&"lane_full".into(), &1.into(), &2.into()), "{full}");
        let dropping = LaneRule { backlog: Some(2), full: Some(Full::Drop), ..LaneRule::default() };
        lanes(&bed, dropping).await;
        let sql = "SELECT windlass.enqueue('work', key => 'acme', unique_key => 'once')";
        assert_eq!(get::<Option<Uuid>>(&hand, sql).await, None);
        assert_eq!((count(&hand, "jobs").await, count(&hand, "job_keys").await), (4, 0));
        let held = bed.claims("w", 9, None).await;
        assert_eq!(held.len(), 4);
        assert!(get::<Option<Uuid>>(&hand, sql).await.is_some(), "nobody waits any more");
        // What cannot be kept in somebody's transaction is refused by name.
        run(&hand, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        let (state, said) =
            ask::<Uuid>(&hand, "SELECT windlass.enqueue('work', key => 'acme')").await.expect_err("stale");
        assert_eq!((state.as_str(), said.contains("read committed")), ("WL005", true), "{said}");
        run(&hand, "ROLLBACK").await;
        lanes(&bed, LaneRule { mode: Some(LaneMode::Newest), ..LaneRule::default() }).await;
        let (state, said) =
            ask::<Uuid>(&hand, "SELECT windlass.enqueue('work', key => 'acme')").await.expect_err("newest");
        assert_eq!((state.as_str(), said.contains("newest")), ("WL005", true), "{said}");
        invariants::check(&bed).await;
    });
}
