//! Contents in a real server that speaks the S3 protocol (moto, from PyPI), with a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_state::interface::{Chunks as _, NewBlob, Retention};
use onetool_state::{State, StateError, contract, copy};
use onetool_state_postgres::PostgresState;
use onetool_state_postgres::testing::Server;
use onetool_state_s3::{Credentials, S3Address, S3Chunks};
use tokio::process::{Child, Command};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_mins(3);

/// An S3 server for one test, with one bucket.
struct Bucket {
    endpoint: String,
    child: Child,
}

impl Bucket {
    async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("uv")
            .args(["run", "--no-project", "--with", "moto[server]", "moto_server", "-H", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let bucket = Self { endpoint: format!("http://127.0.0.1:{port}"), child };
        let client = onetool_outbound::client_builder().build().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let made = client.put(format!("{}/results", bucket.endpoint)).send().await;
            if made.is_ok_and(|made| made.status().is_success()) {
                return bucket;
            }
            assert!(Instant::now() < until, "the S3 server does not start");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn chunks(&self) -> S3Chunks {
        let address = format!("s3://results/team a/x?endpoint={}", self.endpoint);
        let credentials = Credentials::find(|_| Some("testing".to_owned())).unwrap();
        S3Chunks::open(S3Address::parse(&address, |_| None).unwrap(), credentials).unwrap()
    }

    fn state(&self, database: &str) -> State {
        Arc::new(PostgresState::open(database).unwrap().with_contents(Arc::new(self.chunks())))
    }

    /// How many objects there are.
    async fn count(&self) -> usize {
        let client = onetool_outbound::client_builder().build().unwrap();
        let listed = client.get(format!("{}/results?list-type=2", self.endpoint)).send().await.unwrap();
        listed.text().await.unwrap().matches("<Key>").count()
    }

    async fn stop(&mut self) {
        // The whole group: `uv` stays the parent of Python.
        let group = rustix::process::Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait().await;
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(group) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

fn new() -> NewBlob {
    NewBlob { scope: String::new(), media_type: "text/plain".to_owned() }
}

#[tokio::test]
async fn the_contract_holds_with_contents_in_a_bucket() {
    let server = Server::start();
    let mut bucket = Bucket::start().await;
    let address = server.database("one");
    contract::check(&|| bucket.state(&address)).await;

    // One content in several objects, read across their boundaries.
    let state = bucket.state(&server.database("large"));
    let blobs = state.blobs(Retention::default());
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut writer = blobs.create(new()).await.unwrap();
    for piece in content.chunks(1_000_000) {
        writer.write(piece).await.unwrap();
    }
    let stored = writer.finish(serde_json::Map::new()).await.unwrap();
    let border = 8 << 20;
    for (offset, limit) in [(0_usize, 10), (border - 5, 10), (border, 1), (border - 1, border + 2), (19_999_990, 100)] {
        let piece = blobs.read(&stored.id, offset as u64, limit).await.unwrap();
        assert!(piece == content[offset..content.len().min(offset + limit)], "{offset} {limit}");
    }

    // Contents removed from the state are removed from the bucket.
    let before = bucket.count().await;
    let none = state.blobs(Retention { max_bytes: 0, ..Retention::default() });
    assert_eq!(none.sweep().await.unwrap(), 1);
    assert_eq!(bucket.count().await, before - 3);

    // While the bucket is unreachable, its contents are unavailable and removals wait.
    let blobs = state.blobs(Retention::default());
    let mut writer = blobs.create(new()).await.unwrap();
    writer.write(b"small").await.unwrap();
    let small = writer.finish(serde_json::Map::new()).await.unwrap();
    bucket.stop().await;
    assert!(matches!(blobs.read(&small.id, 0, 5).await, Err(StateError::Unavailable { .. })));
    assert_eq!(blobs.describe(&small.id).await.unwrap().bytes, 5);
}

#[tokio::test]
async fn contents_move_between_the_database_and_a_bucket() {
    let server = Server::start();
    let bucket = Bucket::start().await;
    let (old, new_place) = (server.database("old"), server.database("new"));
    let from: State = Arc::new(PostgresState::open(&old).unwrap());
    let mut writer = from.blobs(Retention::default()).create(new()).await.unwrap();
    writer.write(b"kept").await.unwrap();
    let kept = writer.finish(serde_json::Map::new()).await.unwrap();
    // A database that holds its own contents stays readable when a bucket is added.
    let mixed = bucket.state(&old);
    assert_eq!(mixed.blobs(Retention::default()).read(&kept.id, 1, 2).await.unwrap(), b"ep");
    let to = bucket.state(&new_place);
    assert_eq!(copy(&from, &to).await.unwrap().blobs, 1);
    assert_eq!(to.blobs(Retention::default()).read(&kept.id, 0, 10).await.unwrap(), b"kept");
    assert_eq!(bucket.count().await, 1);
    assert!(to.place().ends_with("s3://results/team a/x"), "{}", to.place());

    let chunks = bucket.chunks();
    let upload = Uuid::new_v4();
    assert_eq!(chunks.get(upload, 0, 0, 1).await.unwrap(), None);
    chunks.remove(upload).await.unwrap();
}
