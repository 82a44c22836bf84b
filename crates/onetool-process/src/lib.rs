//! The one place that starts child processes of tools.
//!
//! Every child leads its own process group, is killed with it, and gets a small environment: what a program needs to
//! run, and what the configuration gives it, nothing else.

mod heavy;
mod lasting;
mod programs;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use process_wrap::tokio::{CommandWrap, KillOnDrop};

pub use heavy::{LARGE, heavy_if_large};
pub use lasting::on_lasting_thread;
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

/// What a child is started with.
#[derive(Debug, Clone)]
pub struct ChildCommand<'a> {
    pub program: &'a OsStr,
    pub args: Vec<&'a OsStr>,
    pub folder: Option<&'a Path>,
    /// On top of the inherited variables.
    pub environment: &'a BTreeMap<String, String>,
    /// More variables to inherit, by name prefix (`UV_`, `PIP_`, `npm_config_`).
    pub inherit_prefixes: &'a [&'a str],
    /// The child's `PATH`.
    pub search_path: &'a SearchPath,
}

/// A command in its own process group, killed when dropped. Standard streams are the caller's to set.
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

/// Runs its arguments and ends them, with all that they started, when standard input ends: that is when whoever holds
/// the other end dies, however it dies.
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

/// As [`command`], for a program that does not itself watch its standard input. Keep the child's standard input open
/// for as long as the program may run. A program that does not exist ends with status 127, as in a shell.
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

/// Kills the process groups that it was told of when its standard input ends: that is when we die, however we die.
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

/// The process that outlives us to end those who would. Started with the first that is watched.
#[cfg(unix)]
static WATCHER: std::sync::OnceLock<Option<parking_lot::Mutex<std::process::ChildStdin>>> = std::sync::OnceLock::new();

/// A child whose process group ends with us, even when we are killed. For programs that may not notice the end of their
/// input; dropped, it is no longer watched.
#[derive(Debug)]
pub struct Watched {
    group: u32,
}

impl Watched {
    /// Starts what watches. Done before a child is started, it leaves no time in which nobody watches it.
    pub fn prepare() {
        #[cfg(unix)]
        let _ = watcher();
    }

    /// Of the child with this process id, which leads its group.
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
        // Whatever is sent to our own group must not reach it.
        command.process_group(0);
        Some(parking_lot::Mutex::new(command.spawn().ok()?.stdin.take()?))
    });
    watcher.as_ref()
}

#[cfg(unix)]
fn tell(what: &str, group: u32) {
    use std::io::Write as _;
    if let Some(watcher) = watcher() {
        // A few bytes to a program that reads them at once. Without it, programs end with their input, as most do.
        let _ = watcher.lock().write_all(format!("{what} {group}\n").as_bytes());
    }
}

#[cfg(not(unix))]
fn tell(_: &str, _: u32) {}

/// How much later than us a child gets its turn, in the system's own steps.
#[cfg(unix)]
const NICENESS: i32 = 5;

/// Has a child wait for us, and not the other way round, where the processors are busy: whatever it computes, others get their
/// answers.
pub fn yield_to_others(child: Option<u32>) {
    #[cfg(unix)]
    if let Some(child) = child.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        let own = rustix::process::getpriority_process(None).unwrap_or(0);
        // One that is gone, or a system that refuses it: nothing depends on it.
        let _ = rustix::process::setpriority_process(Some(child), own + NICENESS);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// How many bytes that were written to a child's standard input nobody has read yet; `None` where that can't be told.
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

/// The process group of a child that was started by [`command`]. Dropped, it kills every process in it.
#[derive(Debug)]
pub struct Group {
    leader: AtomicU32,
}

impl Group {
    /// Of the child with this process id, which leads its group.
    pub fn of(leader: Option<u32>) -> Self {
        Self { leader: AtomicU32::new(leader.unwrap_or(0)) }
    }

    /// Kills every process in the group.
    pub fn kill(&self) {
        #[cfg(unix)]
        if let Some(leader) =
            i32::try_from(self.leader.load(Ordering::Acquire)).ok().and_then(rustix::process::Pid::from_raw)
        {
            // Fails only where nothing is left to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }

    /// Kills every process in the group for the last time: its number may belong to others from now on.
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
