//! A PostgreSQL server for one test: a fresh folder, a socket in it, no network. Panics if it does not start.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The user that runs the server when we are root, which PostgreSQL refuses: `nobody` on every system.
const NOBODY: u32 = 65534;
/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server, stopped when dropped.
pub struct Server {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts an empty server.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("otpg").tempdir_in("/tmp").unwrap();
        if is_root() {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut server = Self { folder, child: None };
        let made = server
            .command("initdb")
            .args(["--auth=trust", "--no-sync", "--username=onetool", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(server.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.restart();
        server
    }

    /// Starts the server again after [`Self::stop`].
    pub fn restart(&mut self) {
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let child = self
            .command("postgres")
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60", "-k"])
            .arg(self.folder.path())
            .arg("-D")
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let end = Instant::now() + PATIENCE;
        loop {
            let asked = self.psql("postgres", "SELECT 1");
            if asked.status.success() {
                return;
            }
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "PostgreSQL does not start: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the server, which closes all its connections.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let end = Instant::now() + PATIENCE;
        while child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Creates an empty database and returns its address.
    pub fn database(&self, name: &str) -> String {
        let made = self.psql("postgres", &format!("CREATE DATABASE {name}"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://onetool@{socket}/{name}?sslmode=disable")
    }

    /// Runs a statement and returns its output as plain text.
    pub fn ask(&self, database: &str, statement: &str) -> String {
        let asked = self.psql(database, statement);
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }

    fn psql(&self, database: &str, statement: &str) -> std::process::Output {
        self.command("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--username=onetool"])
            .args(["--dbname", database, "--command", statement, "--host"])
            .arg(self.folder.path())
            .output()
            .unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The path of a PostgreSQL program: from `PATH`, or from where Debian installs it.
fn program(name: &str) -> PathBuf {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&in_path).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        places.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let found = places.iter().map(|place| place.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing; install PostgreSQL (Debian: apt-get install postgresql)"))
}
