//! The one place that starts child processes of tools.
//!
//! Every child leads its own process group, is killed together with it, and gets a minimal environment: the variables
//! that a program needs to run, and those that the configuration sets.

mod heavy;
mod lasting;
mod lines;
mod programs;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use process_wrap::tokio::{CommandWrap, KillOnDrop};

pub use heavy::{LARGE, heavy_if_large};
pub use lasting::on_lasting_thread;
pub use lines::{BoundedLines, Line};
pub use programs::{ProgramError, SearchPath};

/// Variables that children inherit.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "SYSTEMROOT",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// How a child is started.
#[derive(Debug, Clone)]
pub struct ChildCommand<'a> {
    pub program: &'a OsStr,
    pub args: Vec<&'a OsStr>,
    pub folder: Option<&'a Path>,
    /// Added to the inherited variables.
    pub environment: &'a BTreeMap<String, String>,
    /// More variables to inherit, by name prefix (`UV_`, `PIP_`, `npm_config_`).
    pub inherit_prefixes: &'a [&'a str],
    /// The child's `PATH`.
    pub search_path: &'a SearchPath,
}

/// Builds a command in its own process group, killed when dropped. The caller sets the standard streams.
pub fn command(child: &ChildCommand<'_>) -> CommandWrap {
    let mut command = tokio::process::Command::new(child.program);
    command.args(&child.args).env_clear();
    for (name, value) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if INHERITED.contains(&text) || child.inherit_prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            command.env(&name, value);
        }
    }
    command.env("PATH", child.search_path.joined());
    command.envs(child.environment);
    if let Some(folder) = child.folder {
        command.current_dir(folder);
    }
    let mut wrapped = CommandWrap::from(command);
    wrapped.wrap(KillOnDrop);
    #[cfg(unix)]
    wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
    wrapped
}

/// Runs its arguments, and kills them with everything they started when standard input ends: that happens when the
/// process that holds the other end dies for any reason.
#[cfg(unix)]
const GUARD: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
work=$!
( read -r _ <&3; kill -KILL 0 ) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$work"
status=$?
kill "$watch" 2>/dev/null
exit "$status"
"#;

/// Like [`command`], for a program that does not watch its standard input. Keep the child's standard input open for as
/// long as the program may run. A program that does not exist exits with status 127, as in a shell.
pub fn guarded(child: &ChildCommand<'_>) -> CommandWrap {
    #[cfg(unix)]
    {
        let mut args: Vec<&OsStr> = ["-c", GUARD, "guard"].map(OsStr::new).to_vec();
        args.push(child.program);
        args.extend(&child.args);
        let mut wrapped = command(&ChildCommand { program: OsStr::new("/bin/sh"), args, ..child.clone() });
        wrapped.command_mut().stdin(std::process::Stdio::piped());
        wrapped
    }
    #[cfg(not(unix))]
    {
        command(child)
    }
}

/// Kills the watched process groups when its standard input ends, which happens when this process dies for any reason.
#[cfg(unix)]
const EXECUTOR: &str = r#"
trap '' INT TERM HUP
groups=" "
while read -r what group; do
    case "$what" in
        watch) groups="$groups$group " ;;
        forget) case "$groups" in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
done
for group in $groups; do kill -KILL "-$group"; done
"#;

/// The process that outlives this one to kill the watched groups. Started on first use.
#[cfg(unix)]
static WATCHER: std::sync::OnceLock<Option<parking_lot::Mutex<std::process::ChildStdin>>> = std::sync::OnceLock::new();

/// A child whose process group is killed when this process ends, even if it is killed. For programs that may not notice
/// the end of their input. Dropping this stops watching.
#[derive(Debug)]
pub struct Watched {
    group: u32,
}

impl Watched {
    /// Starts the watcher. Called before a child is started, so that the child is never unwatched.
    pub fn prepare() {
        #[cfg(unix)]
        let _ = watcher();
    }

    /// Watches the process group led by the child with this process id.
    pub fn new(leader: u32) -> Self {
        tell("watch", leader);
        Self { group: leader }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        tell("forget", self.group);
    }
}

#[cfg(unix)]
fn watcher() -> Option<&'static parking_lot::Mutex<std::process::ChildStdin>> {
    let watcher = WATCHER.get_or_init(|| {
        use std::os::unix::process::CommandExt as _;
        use std::process::{Command, Stdio};
        let mut command = Command::new("/bin/sh");
        command.args(["-c", EXECUTOR]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals sent to our own process group must not reach it.
        command.process_group(0);
        Some(parking_lot::Mutex::new(command.spawn().ok()?.stdin.take()?))
    });
    watcher.as_ref()
}

#[cfg(unix)]
fn tell(what: &str, group: u32) {
    use std::io::Write as _;
    if let Some(watcher) = watcher() {
        // A few bytes to a process that reads them at once. On failure, most programs still exit at end of input.
        let _ = watcher.lock().write_all(format!("{what} {group}\n").as_bytes());
    }
}

#[cfg(not(unix))]
fn tell(_: &str, _: u32) {}

/// How much is added to the niceness of a child.
#[cfg(unix)]
const NICENESS: i32 = 5;

/// Lowers a child's scheduling priority, so that a busy child does not delay the answers of this process.
pub fn yield_to_others(child: Option<u32>) {
    #[cfg(unix)]
    if let Some(child) = child.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        let own = rustix::process::getpriority_process(None).unwrap_or(0);
        // Fails if the child has exited or the system refuses; nothing depends on it.
        let _ = rustix::process::setpriority_process(Some(child), own + NICENESS);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Number of bytes written to a child's standard input that are still unread; `None` if unknown.
pub fn unread(stdin: &tokio::process::ChildStdin) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        rustix::io::ioctl_fionread(stdin).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stdin;
        None
    }
}

/// The process group of a child started by [`command`]. Dropping it kills every process in the group.
#[derive(Debug)]
pub struct Group {
    leader: AtomicU32,
}

impl Group {
    /// The group led by the child with this process id.
    pub fn of(leader: Option<u32>) -> Self {
        Self { leader: AtomicU32::new(leader.unwrap_or(0)) }
    }

    /// Kills every process in the group.
    pub fn kill(&self) {
        #[cfg(unix)]
        if let Some(leader) =
            i32::try_from(self.leader.load(Ordering::Acquire)).ok().and_then(rustix::process::Pid::from_raw)
        {
            // Fails only if no process is left to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    /// Kills every process in the group for the last time: the id may be reused from now on.
    pub fn end(&self) {
        self.kill();
        self.leader.store(0, Ordering::Release);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
