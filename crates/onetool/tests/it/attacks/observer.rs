//! Measures the cost of attacks: memory of the server and its children, and the wait of another client for `2 + 2`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, HttpServer};

/// Interval between memory samples.
const PERIOD: Duration = Duration::from_millis(10);
/// Interval between requests of the other client.
const PAUSE: Duration = Duration::from_millis(25);

/// The maximum values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Memory of the server and its children, in bytes.
    pub(super) peak: u64,
    pub(super) slowest: Duration,
    pub(super) asked: u64,
}

impl Figures {
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            peak: self.peak.max(other.peak),
            slowest: self.slowest.max(other.slowest),
            asked: self.asked + other.asked,
        }
    }
}

/// Measures until it is stopped.
pub(super) struct Observer {
    pid: u32,
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    /// The slowest answer since the last query, in microseconds.
    slow: Arc<AtomicU64>,
    memory: std::thread::JoinHandle<()>,
    other: Option<std::thread::JoinHandle<(Duration, u64)>>,
}

impl Observer {
    /// Observes a server; if it accepts several clients, another one sends requests all the time.
    pub(super) async fn start(pid: u32, server: Option<&HttpServer>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(AtomicU64::new(0));
        let memory = std::thread::spawn({
            let (stop, peak) = (stop.clone(), peak.clone());
            move || {
                while !stop.load(Ordering::Acquire) {
                    peak.fetch_max(server_bytes(pid), Ordering::AcqRel);
                    std::thread::sleep(PERIOD);
                }
            }
        });
        let slow = Arc::new(AtomicU64::new(0));
        let other = match server {
            Some(server) => {
                let (stop, slow, client) = (stop.clone(), slow.clone(), server.connecting());
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                // On a separate thread, so that the attacker's client handling a large answer does not count.
                let asking = move || runtime.block_on(async { ask(client.await, stop, slow).await });
                Some(std::thread::spawn(asking))
            }
            None => None,
        };
        Self { pid, stop, peak, slow, memory, other }
    }

    /// The slowest answer since the last query.
    pub(super) fn slow(&self) -> Duration {
        Duration::from_micros(self.slow.swap(0, Ordering::AcqRel))
    }

    pub(super) async fn finish(self) -> Figures {
        let highest = status_bytes(self.pid, "VmHWM:");
        self.stop.store(true, Ordering::Release);
        let (slowest, asked) = match self.other {
            Some(other) => tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap(),
            None => Default::default(),
        };
        self.memory.join().unwrap();
        Figures { peak: self.peak.load(Ordering::Acquire).max(highest), slowest, asked }
    }
}

async fn ask(client: Client, stop: Arc<AtomicBool>, slow: Arc<AtomicU64>) -> (Duration, u64) {
    let (mut slowest, mut asked) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Acquire) {
        let started = Instant::now();
        assert_eq!(client.ok("2 + 2").await, "4");
        let took = started.elapsed();
        slow.fetch_max(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::AcqRel);
        slowest = slowest.max(took);
        asked += 1;
        tokio::time::sleep(PAUSE).await;
    }
    (slowest, asked)
}

/// Resident memory of a server and its descendants.
fn server_bytes(pid: u32) -> u64 {
    // Before exec, a child shows the server's own memory a second time.
    let command = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = command(pid);
    let children = children_of(pid).into_iter().filter(|child| command(*child) != own);
    status_bytes(pid, "VmRSS:") + children.map(tree_bytes).sum::<u64>()
}

/// Resident memory of a process and its descendants.
fn tree_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:") + children_of(pid).into_iter().map(tree_bytes).sum::<u64>()
}

fn children_of(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    found
}

fn status_bytes(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
