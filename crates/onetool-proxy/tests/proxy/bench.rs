//! The cost of a proxied call compared to a direct one. Printed, not asserted: machines differ.

use std::time::{Duration, Instant};

use onetool_sdk::ToolSource;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;
use serde_json::json;

use crate::fixture::{House, connected, server_file, text};

const CALLS: usize = 300;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxied_call_costs_little_more_than_a_direct_one() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let mut command = tokio::process::Command::new("python3");
    command.arg(server_file());
    let direct = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
    let (mut proxied_times, mut direct_times) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let started = Instant::now();
        assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
        proxied_times.push(started.elapsed());
        let params =
            CallToolRequestParams::new("echo").with_arguments(json!({"text": "x"}).as_object().unwrap().clone());
        let started = Instant::now();
        direct.call_tool(params).await.unwrap();
        direct_times.push(started.elapsed());
    }
    println!("median of {CALLS}: proxied {:?}, direct {:?}", median(proxied_times), median(direct_times));
    direct.cancel().await.unwrap();
    source.shutdown().await;
}
