//! `windlass migrate`: creates the store or brings it to this version, or prints the SQL that would.

use crate::args::MigrateArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::{Settings, masked};
use serde_json::json;

/// Migrates, or prints how.
pub async fn run(args: &MigrateArgs, settings: &Settings, out: &Out) -> Outcome {
    let url = &settings.store.value;
    if args.print {
        let sql = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => windlass_sqlite::migrations_as_sql(),
            Some("postgres" | "postgresql") => windlass_postgres::migrations_as_sql(),
            _ => {
                return Err(Failure::usage(
                    "there is no SQL for this store; name sqlite:PATH or postgres://… with --store",
                ));
            }
        };
        out.show(&json!({ "sql": sql }), |out| out.line(sql.trim_end()));
        return Ok(());
    }
    open(settings, true, None).await?;
    let store = masked(url);
    out.show(&json!({ "store": store, "migrated": true }), |out| {
        out.line(format!("{store} is there and at this version"));
    });
    Ok(())
}
