//! Jobs that wait for each other.

use clap::Subcommand;

/// `windlass flow`
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Make the jobs of a file, all or none
    #[command(
        after_help = "The file is what POST /v1/flows takes. Prints the flow's id, then each job's name and id.\n\nExamples:\n  windlass flow run nightly.json\n  echo '{\"nodes\": {\"fetch\": {\"kind\": \"fetch\"}, \"parse\": {\"kind\": \"parse\", \"after\": {\"fetch\": \"success\"}}}}' | windlass flow run -"
    )]
    Run {
        /// A file with JSON, or - for standard input
        #[arg(value_name = "FILE|-")]
        file: String,
    },
    /// The jobs of a flow, and who waits for whom
    #[command(
        after_help = "The id is that of the flow, or of any job in it. A job of no flow is shown with what it waits for and who waits for it.\n\nExamples:\n  windlass flow graph 0193a2f4-…\n  windlass flow graph 0193a2f4-… --dot | dot -Tsvg > flow.svg"
    )]
    Graph {
        /// Which flow or job
        id: String,
        /// Print it for Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// Let an open flow take no more jobs
    #[command(after_help = "Example:\n  windlass flow seal 0193a2f4-…")]
    Seal {
        /// Which flow
        id: String,
    },
}
