//! `windlass flow`: jobs that wait for each other.

use crate::api_client::ApiClient;
use crate::args::FlowCommand;
use crate::enqueue::read;
use crate::fail::{Failure, Outcome};
use crate::ids;
use crate::out::Out;
use crate::show::{self, list, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// The largest file of a flow: as much as a server takes, in bytes.
const FILE_MAX_BYTES: usize = 16 << 20;

/// Runs one of them.
pub async fn run(command: FlowCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        FlowCommand::Run { file } => {
            let reply = door.make_flow(&document(&file)?).await?;
            show::reply(out, &reply, |out, made| {
                out.line(text(&made["id"]));
                let nodes = made["nodes"].as_object().into_iter().flatten();
                nodes.for_each(|(name, id)| out.line(format!("{name} {}", text(id))));
            });
        }
        FlowCommand::Graph { id, dot } => {
            let reply = door.graph(ids::job(&id, door).await?).await?;
            if dot {
                out.line(graphviz(&reply.value));
                return Ok(());
            }
            show::reply(out, &reply, show_graph);
        }
        FlowCommand::Seal { id } => {
            let reply = door.seal(ids::job(&id, door).await?).await?;
            show::reply(out, &reply, |out, done| {
                out.line(format!(
                    "{} is sealed and {}",
                    text(&done["job"]["id"]),
                    text(&done["job"]["status"])
                ));
            });
        }
    }
    Ok(())
}

fn document(file: &str) -> Outcome<Value> {
    let bytes = if file == "-" {
        read("standard input", std::io::stdin().lock(), FILE_MAX_BYTES)?
    } else {
        let unreadable = |e| Failure::usage(format!("the flow's file {file} cannot be read: {e}"));
        read(file, std::fs::File::open(file).map_err(unreadable)?, FILE_MAX_BYTES)?
    };
    serde_json::from_slice(&bytes).map_err(|e| Failure::usage(format!("the flow in {file} is not JSON: {e}")))
}

/// How a job of a graph is called: by its name, else by its id.
fn named(node: &Value) -> String {
    match &node["name"] {
        Value::String(name) => name.clone(),
        _ => text(&node["id"]),
    }
}

fn show_graph(out: &Out, graph: &Value) {
    let names: BTreeMap<String, String> =
        list(graph, "nodes").iter().map(|node| (text(&node["id"]), named(node))).collect();
    let mut after: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for edge in list(graph, "edges") {
        let from = text(&edge["from"]);
        let name = names.get(&from).cloned().unwrap_or(from);
        let told = if edge["on"] == "success" { name } else { format!("{name}:{}", text(&edge["on"])) };
        after.entry(text(&edge["to"])).or_default().push(told);
    }
    let row = |node: &Value| {
        let id = text(&node["id"]);
        let after = after.get(&id).map(|names| names.join(", ")).unwrap_or_default();
        let status = match &node["error_code"] {
            Value::String(code) => format!("{} ({code})", text(&node["status"])),
            _ => text(&node["status"]),
        };
        vec![named(node), text(&node["kind"]), status, after, id]
    };
    let rows: Vec<_> = list(graph, "nodes").iter().map(row).collect();
    out.table(&["JOB", "KIND", "STATUS", "AFTER", "ID"], &rows, "the flow has no jobs");
    if graph["truncated"] == true {
        out.remark("windlass: there are more jobs than are shown");
    }
}

/// The graph for Graphviz.
fn graphviz(graph: &Value) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = vec!["digraph flow {".to_owned()];
    for node in list(graph, "nodes") {
        let label = format!("{}\\n{}", named(node), text(&node["status"]));
        lines.push(format!("  {} [label=\"{label}\"];", quoted(&text(&node["id"]))));
    }
    for edge in list(graph, "edges") {
        let (from, to) = (quoted(&text(&edge["from"])), quoted(&text(&edge["to"])));
        lines.push(format!("  {from} -> {to} [label={}];", quoted(&text(&edge["on"]))));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}
