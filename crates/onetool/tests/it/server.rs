//! The server from a client's perspective: its list of tools, concurrent runs, cancellation, and shutdown.

use std::time::{Duration, Instant};

use rmcp::model::{CancelledNotificationParam, ClientRequest, ReadResourceRequestParams, Request};

use crate::client::{Project, call, children, eventually, is_alive};

#[tokio::test]
async fn one_tool_is_listed_and_the_list_is_short() {
    let project = Project::empty();
    let client = project.serve().await;
    let tools = client.service.list_tools(None).await.unwrap();
    assert_eq!(tools.tools.len(), 1);
    assert_eq!(tools.tools[0].name, "run");
    let bytes = serde_json::to_string(&tools).unwrap().len();
    assert!(bytes <= 1200, "{bytes} bytes");
    let info = client.service.peer_info().unwrap();
    assert_eq!(info.server_info.as_ref().unwrap().name, "onetool");
}

#[tokio::test]
async fn resources_list_tools_and_show_one() {
    let project = Project::empty();
    let client = project.serve().await;
    let read = |uri: &str| client.service.read_resource(ReadResourceRequestParams::new(uri));
    let all = serde_json::to_string(&read("ot://tools").await.unwrap()).unwrap();
    assert!(all.contains("file.read"), "{all:.300}");
    let one = serde_json::to_string(&read("ot://tool/file.read").await.unwrap()).unwrap();
    assert!(one.contains("inputSchema"), "{one:.300}");
    assert!(read("ot://tool/no.such").await.is_err());
}

#[tokio::test]
async fn fifty_runs_at_once_all_get_their_own_answer() {
    let project = Project::empty();
    let client = project.serve().await;
    let runs = (0..50).map(|i| {
        let peer = client.service.peer().clone();
        tokio::spawn(async move { (i, peer.call_tool(call(&format!("sum(range({i}))"))).await.unwrap()) })
    });
    for run in runs.collect::<Vec<_>>() {
        let (i, result) = run.await.unwrap();
        let expected: i64 = (0..i).sum();
        assert_eq!(crate::client::Answer::of(&result).text, expected.to_string());
    }
}

#[tokio::test]
async fn a_cancelled_run_stops_and_others_go_on() {
    let project = Project::with("run: {timeout: 60, prewarm: 1, zygote: false}\n");
    let client = project.serve().await;
    assert_eq!(client.ok("1").await, "1");
    let before = children(client.pid);
    let request = ClientRequest::CallToolRequest(Request::new(call("while True: pass")));
    let handle = client
        .service
        .send_cancellable_request(request, rmcp::service::PeerRequestOptions::no_options())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    client
        .service
        .notify_cancelled(CancelledNotificationParam::new(Some(handle.id.clone()), Some("enough".to_owned())))
        .await
        .unwrap();
    let started = Instant::now();
    assert_eq!(client.ok("1 + 1").await, "2");
    assert!(started.elapsed() < Duration::from_secs(30));
    // The spinning child has ended.
    eventually("the spinning child ends", || before.iter().all(|&child| !is_alive(child))).await;
}

#[tokio::test]
async fn nothing_is_left_when_the_client_goes_away() {
    let project = Project::empty();
    let client = project.serve().await;
    client.ok("1").await;
    let pid = client.pid;
    let children = children(pid);
    assert!(!children.is_empty());
    drop(client.service);
    eventually("the server ends", || !is_alive(pid)).await;
    eventually("its children end", || children.iter().all(|&child| !is_alive(child))).await;
}

#[tokio::test]
async fn nothing_is_left_when_the_server_is_killed_while_it_starts() {
    for pause in [0, 10, 20, 40, 80, 160] {
        let project = Project::empty();
        let client = project.serve().await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let mut all = children(client.pid);
        all.extend(all.clone().into_iter().flat_map(children));
        let server = rustix::process::Pid::from_raw(client.pid as i32).unwrap();
        rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
        eventually("everything it started ends", || all.iter().all(|&child| !is_alive(child))).await;
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_server_is_told_to_end() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let project = Project::empty();
        let client = project.serve().await;
        client.ok("1").await;
        let pid = client.pid;
        let children = children(pid);
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
        eventually("its children end", || children.iter().all(|&child| !is_alive(child))).await;
    }
}

#[tokio::test]
async fn serve_speaks_on_standard_output_whatever_the_configuration_binds() {
    let project = Project::with("server: {bind: '127.0.0.1:0'}\n");
    let client = project.serve().await;
    assert_eq!(client.ok("1 + 1").await, "2");
    // Only `--http` enables HTTP; the configuration sets the address.
    let server = project.serve_http_with(&["serve", "--http"]).await;
    assert_eq!(server.get("/tools/bundles").await.0, 200);
    server.stop().await;
    let refused = project.command(&["serve", "--http", "nowhere"]).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'nowhere' is not an address"));
}

#[tokio::test]
async fn serve_starts_without_the_configuration_that_was_named_and_says_so() {
    let project = Project::empty();
    let client = project.serve_with(&["--config", "nope.yaml", "serve"]).await;
    assert_eq!(client.ok("1 + 1").await, "2");
    let health = client.ok("ot.health()").await;
    assert!(health.contains("nope.yaml: this file does not exist"), "{health}");
}

#[tokio::test]
async fn a_broken_template_is_in_health_and_the_rest_works() {
    let project = Project::with("snippets:\n  bad: '{{ q '\n  good: '40 + {{ n }}'\n");
    let client = project.serve().await;
    let health = client.ok("ot.health()").await;
    assert!(health.contains("line 2: snippets.bad.body: not a valid template"), "{health}");
    assert_eq!(client.ok("$good n=2").await, "42");
    assert!(client.err("$bad q=1").await.contains("$bad"));
}

#[tokio::test]
async fn a_name_that_is_missing_says_why() {
    let project = Project::with("servers:\n  gone: {url: 'http://127.0.0.1/${NO_SUCH_SECRET}'}\n");
    project.write(".onetool/tools/torn/torn_tools.py", "def f(:\n    pass\n");
    project.write(".onetool/tools/loose.py", "def f(): return 1\n");
    let client = project.serve().await;
    let torn = client.err("torn.f()").await;
    assert!(torn.contains("name 'torn' is not defined: ") && torn.contains("torn_tools.py: line 1: "), "{torn}");
    let loose = client.err("loose.f()").await;
    assert!(loose.contains("loose.py is not used: move it to loose/loose_tools.py"), "{loose}");
    let gone = client.err("gone.f()").await;
    assert!(gone.contains("the server 'gone' is disabled: ") && gone.contains("NO_SUCH_SECRET"), "{gone}");
    assert_eq!(client.ok("json.dumps(1)").await, "1");
    // Neither the loose file nor a module affects overall health.
    assert!(!client.ok("ot.health()['problems']").await.contains("loose.py"));
}
