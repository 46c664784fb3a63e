//! Flows from a shell: made from a file, drawn, waited for.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::Bed;
use serde_json::json;

/// F12
#[test]
fn a_flow_is_made_from_a_file_and_drawn() {
    let bed = Bed::new();
    let flow = json!({ "nodes": {
        "fetch": { "kind": "fetch" },
        "parse": { "kind": "parse", "after": { "fetch": "success" } },
        "alert": { "kind": "alert", "after": { "parse": "failure" } },
    }});
    std::fs::write(bed.path("flow.json"), flow.to_string()).unwrap();
    let made = bed.run(&["flow", "run", "flow.json"]).ok().out;
    let mut lines = made.lines();
    let id = lines.next().unwrap().to_owned();
    let names: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["alert", "fetch", "parse"]);
    let drawn = bed.run(&["flow", "graph", &id]).ok().out;
    assert!(drawn.contains("parse:failure") && drawn.contains("waiting"), "{drawn}");
    let dot = bed.run(&["flow", "graph", &id, "--dot"]).ok().out;
    assert!(dot.starts_with("digraph flow {") && dot.matches(" -> ").count() == 2, "{dot}");
    let graph = bed.json(&["flow", "graph", &id]);
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 3);
    let fetch = graph["nodes"][0]["id"].as_str().unwrap();
    let behind = bed.enqueue(&["report", "--after", &format!("{fetch}:finished")]);
    let shown = bed.run(&["jobs", "show", &behind]).ok().out;
    assert!(shown.contains("not running: upstream"), "{shown}");
    assert_eq!(bed.run(&["enqueue", "report", "--after", &format!("{fetch}:maybe")]).code, 2);
    let wrong = json!({ "nodes": { "a": { "kind": "work", "after": { "a": "success" } } } });
    std::fs::write(bed.path("circle.json"), wrong.to_string()).unwrap();
    let refused = bed.run(&["flow", "run", "circle.json"]);
    assert!(refused.code != 0 && refused.err.contains("circle"), "{}", refused.err);
    assert_eq!(bed.run(&["flow", "seal", &id]).code, 4);
}
