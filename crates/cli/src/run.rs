//! From what was typed to what is done: settings, a door, a command.

use crate::api_client::ApiClient;
use crate::args::{
    AlertsCommand, ApprovalsCommand, Cli, Command, FlowCommand, JobsCommand, KeysCommand, LanesCommand,
    MarksCommand, OperationsCommand, ProblemsCommand, QueuesCommand, SchedulesCommand, SettingsCommand,
    TriggersCommand, WorkersCommand,
};
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::settings::{self, Settings};
use crate::wire::Wire;
use crate::{
    adopt, demo, doctor, enqueue, flow, jobs, lanes, migrate, moving, operations, problems, prune, registry,
    restore, schedules, serve, stats, store_settings, subscriptions, triggers, verify, work,
};
use clap::{CommandFactory, Parser};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass::Client;
use windlass_core::Actor;
use windlass_core::limits::ACTOR_MAX_BYTES;
use windlass_engine::Level;

/// Carries out what was typed.
pub async fn run(mut cli: Cli, out: &Out) -> Outcome {
    match &mut cli.command {
        Command::Work(args) => cli.global.lease = args.lease.take(),
        Command::Serve(args) => cli.global.lease = args.lease.take(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "windlass", &mut script);
            out.line(String::from_utf8_lossy(&script).trim_end());
            return Ok(());
        }
        Command::Man { folder } => return man(folder.as_deref(), out),
        Command::Explain { code } => return explain(code.as_deref(), out),
        _ => {}
    }
    let settings = Settings::read(&cli.global, &settings::environment)?;
    match cli.command {
        Command::Config => {
            config(&settings, out);
            Ok(())
        }
        Command::Enqueue(_)
        | Command::Jobs(_)
        | Command::Flow(_)
        | Command::Approvals(_)
        | Command::Queues(_)
        | Command::Lanes(_)
        | Command::Operations(_)
        | Command::Marks(_)
        | Command::Alerts(_)
        | Command::Schedules(_)
        | Command::Triggers(_)
        | Command::Subscriptions(_)
        | Command::Settings(_)
        | Command::Workers(_)
        | Command::Audit(_)
        | Command::Stats(_)
        | Command::Problems(_)
        | Command::Top { .. }
        | Command::Keys(_) => on_door(cli.command, cli.global.create, &settings, out).await,
        Command::Work(args) => work::run(args, &settings).await,
        Command::Move(args) => moving::run(&args, out).await,
        Command::Doctor(args) if settings.goes_through_server()? => {
            let url = settings.url.as_ref().map(|url| url.value.clone()).unwrap_or_default();
            doctor::run_through(&args, &url, &door(&settings, false).await?, out).await
        }
        command => on_own_store(command, &settings, out).await,
    }
}

/// Commands that are for a store itself, never through a server.
async fn on_own_store(command: Command, settings: &Settings, out: &Out) -> Outcome {
    if settings.url.is_some() && settings.store.source == settings::Source::Default {
        let told = "this command works on a store, not through a server; name the store with --store";
        return Err(Failure::usage(told));
    }
    match command {
        Command::Migrate(args) => migrate::run(&args, settings, out).await,
        Command::Verify(args) => verify::run(&args, settings, out).await,
        Command::Adopt(args) => adopt::run(&args, settings, out).await,
        Command::Prune(args) => prune::run(&args, settings, out).await,
        Command::Restore(args) => restore::run(&args, settings, out).await,
        Command::Doctor(args) => doctor::run(&args, settings, out).await,
        Command::Serve(args) => serve::run(args, settings, out).await,
        Command::Demo(args) => demo::run(args, settings, out).await,
        _ => Ok(()),
    }
}

async fn on_door(command: Command, create: bool, settings: &Settings, out: &Out) -> Outcome {
    let door = &door(settings, create).await?;
    match command {
        Command::Enqueue(args) => enqueue::run(args, door, out).await,
        Command::Jobs(command) => jobs::run(command, door, out).await,
        Command::Flow(command) => flow::run(command, door, out).await,
        Command::Approvals(command) => registry::approvals(command, door, out).await,
        Command::Queues(command) => registry::queues(command, create, door, out).await,
        Command::Lanes(command) => lanes::run(command, door, out).await,
        Command::Operations(command) => operations::run(command, door, out).await,
        Command::Marks(command) => operations::marks(command, door, out).await,
        Command::Alerts(command) => operations::alerts(command, door, out).await,
        Command::Schedules(command) => schedules::run(command, door, out).await,
        Command::Triggers(command) => triggers::run(command, door, out).await,
        Command::Subscriptions(command) => subscriptions::run(command, door, out).await,
        Command::Settings(command) => store_settings::run(command, door, out).await,
        Command::Workers(command) => registry::workers(command, door, out).await,
        Command::Audit(command) => registry::audit(command, door, out).await,
        Command::Stats(args) => stats::stats(args, door, out).await,
        Command::Problems(command) => problems::run(command, door, out).await,
        Command::Top { every } => stats::top(every.duration(), door, out).await,
        Command::Keys(command) => registry::keys(command, door, out).await,
        _ => Ok(()),
    }
}

async fn door(settings: &Settings, create: bool) -> Outcome<ApiClient> {
    if let Some(url) = &settings.url
        && settings.goes_through_server()?
    {
        return Ok(ApiClient::new(
            Wire::to(&url.value, settings.key.as_ref().map(|key| key.value.clone()))?,
            None,
        ));
    }
    let client = open(settings, create, None).await?;
    let hints = client.store().hints();
    let wire = Wire::on(Arc::clone(client.store()), settings.archive()?, actor()?);
    Ok(ApiClient::new(wire, Some(hints)))
}

/// Opens the store that is in force; with a number of connections one that only renews leases, and listens to nobody.
pub async fn open(settings: &Settings, create: bool, renewing: Option<usize>) -> Outcome<Client> {
    let mut builder = Client::builder(&settings.store.value)
        .migrate(create)
        .actor(actor()?.as_str())
        .limits(settings.limits);
    if let Some(schema) = &settings.schema {
        builder = builder.schema(&schema.value);
    }
    if let Some(url) = &settings.notify_url {
        builder = builder.notify_url(&url.value);
    }
    if let Some(connections) = renewing {
        builder = builder.pool(connections).listen(false);
    }
    builder.connect().await.map_err(|error| told_with_fix(Failure::from(error)))
}

fn told_with_fix(mut failure: Failure) -> Failure {
    if failure.detail.contains("there is no store") || failure.detail.contains("no Windlass store") {
        failure.detail +=
            "; `windlass migrate` or --create creates it, `windlass config` shows where it is looked for";
    }
    failure
}

/// Who acts: the user that the system knows this process by, whatever its environment says.
pub fn actor() -> Outcome<Actor> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let user = system_user(&read("/proc/self/status"), &read("/etc/passwd"));
    let name = user.map_or_else(|| "cli".to_owned(), |user| format!("cli:{user}"));
    let fits: String = name.chars().filter(|c| !c.is_control()).take(ACTOR_MAX_BYTES / 4).collect();
    Ok(Actor::parse("actor", fits)?)
}

/// The name of the user that a process runs as, or its number where it has no name.
fn system_user(status: &str, passwd: &str) -> Option<String> {
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid && !name.is_empty()).then(|| name.to_owned())
    });
    Some(name.unwrap_or_else(|| format!("uid-{uid}")))
}

/// Runs a command that only reads again and again.
pub async fn watch(every: Duration, out: &Out) -> Outcome {
    let end = stats::ends()?;
    while end.level() == Level::Working {
        // Parsed anew: running a command uses it up.
        let cli = Cli::parse();
        if !only_reads(&cli.command) {
            return Err(Failure::usage("--watch is for commands that only read, like `jobs ls` or `stats`"));
        }
        out.clear();
        run(cli, out).await?;
        stats::pause(every, &end).await;
    }
    Ok(())
}

fn only_reads(command: &Command) -> bool {
    match command {
        Command::Jobs(command) => {
            matches!(
                command,
                JobsCommand::Ls(_) | JobsCommand::Show(_) | JobsCommand::Events(_) | JobsCommand::Logs(_)
            )
        }
        Command::Flow(command) => matches!(command, FlowCommand::Graph { .. }),
        Command::Approvals(command) => matches!(command, ApprovalsCommand::Ls { .. }),
        Command::Queues(command) => matches!(command, QueuesCommand::Ls),
        Command::Lanes(command) => matches!(command, LanesCommand::Ls { .. }),
        Command::Operations(command) => matches!(command, OperationsCommand::Ls { .. }),
        Command::Marks(command) => matches!(command, MarksCommand::Ls { .. }),
        Command::Alerts(command) => matches!(command, AlertsCommand::Ls),
        Command::Schedules(command) => matches!(
            command,
            SchedulesCommand::Ls | SchedulesCommand::Show(_) | SchedulesCommand::Next { .. }
        ),
        Command::Triggers(command) => {
            matches!(command, TriggersCommand::Ls | TriggersCommand::Show(_) | TriggersCommand::Events { .. })
        }
        Command::Settings(command) => matches!(command, SettingsCommand::Get { .. }),
        Command::Workers(command) => matches!(command, WorkersCommand::Ls),
        Command::Keys(command) => matches!(command, KeysCommand::Ls),
        Command::Problems(command) => {
            matches!(command, ProblemsCommand::Ls { .. } | ProblemsCommand::Show(_))
        }
        Command::Stats(args) => args.command.is_none(),
        Command::Audit(_) | Command::Doctor(_) | Command::Config => true,
        _ => false,
    }
}

/// The manual page, or a folder full of them.
fn man(folder: Option<&Path>, out: &Out) -> Outcome {
    let unwritten = |error: std::io::Error| Failure::failed(format!("the manual cannot be written: {error}"));
    let command = Cli::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(unwritten)?;
        out.line(String::from_utf8_lossy(&page).trim_end());
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(unwritten)?;
    clap_mangen::generate_to(command, folder).map_err(unwritten)
}

/// The page of a code, or all codes.
fn explain(code: Option<&str>, out: &Out) -> Outcome {
    let Some(code) = code else {
        let entry = |code: &windlass_http::Code| json!({ "code": code.code, "title": code.title });
        let all: Vec<Value> = windlass_http::CODES.iter().map(entry).collect();
        out.show(&json!({ "codes": all }), |out| {
            let row = |code: &windlass_http::Code| vec![code.code.to_owned(), code.title.to_owned()];
            out.table(&["CODE", "MEANS"], &windlass_http::CODES.iter().map(row).collect::<Vec<_>>(), "");
        });
        return Ok(());
    };
    let unknown = || Failure::not_found(format!("there is no code {code}; `windlass explain` lists them"));
    let page = windlass_http::explain(code).ok_or_else(unknown)?;
    out.show(&json!({ "code": code, "page": page }), |out| out.line(page.trim_end()));
    Ok(())
}

fn config(settings: &Settings, out: &Out) {
    let shown = settings.shown();
    let entry = |(name, value, source): &(&str, Option<String>, settings::Source)| {
        ((*name).to_owned(), json!({ "value": value, "source": source.to_string() }))
    };
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    let mut document: serde_json::Map<String, Value> = shown.iter().map(entry).collect();
    document.insert("file".to_owned(), json!(file));
    out.show(&Value::Object(document), |out| {
        let row = |(name, value, source): &(&str, Option<String>, settings::Source)| {
            let from = match (value, source, &file) {
                (None, ..) => String::new(),
                (_, settings::Source::File, Some(path)) => path.clone(),
                (_, source, _) => source.to_string(),
            };
            vec![(*name).to_owned(), value.clone().unwrap_or_else(|| "-".to_owned()), from]
        };
        out.table(&["SETTING", "VALUE", "FROM"], &shown.iter().map(row).collect::<Vec<_>>(), "");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_systems() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/sh\n";
        let user = |uid: &str| system_user(&format!("Name:\tx\nUid:\t{uid}\t7\t7\t7\n"), passwd);
        assert_eq!(user("1000").as_deref(), Some("ada"));
        assert_eq!(user("0").as_deref(), Some("root"));
        assert_eq!(user("100").as_deref(), Some("uid-100"));
        assert_eq!(system_user("", passwd), None);
    }
}
