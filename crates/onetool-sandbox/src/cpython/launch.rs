//! The launcher: our own executable, started again with a hidden argument, which becomes the confined interpreter.
//!
//! It receives the protocol as its standard input and output (the zygote: one socket as its input), and printed text
//! goes to its standard error. It moves the protocol to separate descriptors, so that nothing a program prints can
//! touch it, limits itself, raises the first wall and executes Python. It returns only if one of these steps fails.

use std::ffi::OsString;
use std::fs::File;
#[cfg(target_os = "linux")]
use std::io::{Seek as _, Write as _};
use std::os::fd::{IntoRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::host_program::{self, HOST, START};

/// The argument that makes our executable act as the launcher.
pub const LAUNCH_ARGUMENT: &str = "sandbox-launch";

/// Exit code of a launcher that could not confine itself; its standard error holds the reason.
pub(super) const CANNOT_CONFINE: i32 = 78;

/// Upper limits; the run's own limits are lower and are set by the host script.
const MAX_ADDRESS_SPACE: u64 = 16 << 30;
const MAX_CPU_SECONDS: u64 = 24 * 3600;
const MAX_OPEN_FILES: u64 = 256;

/// What to do if the system cannot confine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Confinement {
    Required,
    /// The user opted in: confine as far as the system can.
    WherePossible,
}

/// The purpose of the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    OneProgram,
    /// Fork a child per program: standard input is the socket for requests.
    Zygote,
    /// Write the compiled host program to standard output.
    Compiler,
}

/// The instructions for the launcher, passed as one argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LaunchOrder {
    pub(super) executable: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) execute: Vec<PathBuf>,
    pub(super) confinement: Confinement,
    pub(super) role: Role,
    /// The file with the compiled host program.
    pub(super) code: Option<PathBuf>,
    /// A folder of packages, which is in `read` too.
    pub(super) library: Option<PathBuf>,
    /// Modules that a zygote imports.
    pub(super) preload: Vec<String>,
}

/// The three standard streams of a launcher.
pub(super) struct Streams {
    pub(super) input: Stdio,
    pub(super) output: Stdio,
    pub(super) printed: Stdio,
}

/// Starts the launcher. The process ends when it is dropped, and when this process ends.
pub(super) fn start(launcher: &Path, order: &LaunchOrder, streams: Streams) -> std::io::Result<tokio::process::Child> {
    let mut command = tokio::process::Command::new(launcher);
    command
        .arg(LAUNCH_ARGUMENT)
        .arg(serde_json::to_string(order)?)
        .env_clear()
        .current_dir("/")
        .stdin(streams.input)
        .stdout(streams.output)
        .stderr(streams.printed)
        .process_group(0)
        .kill_on_drop(true);
    // It ends when the thread that starts it ends.
    onetool_process::on_lasting_thread(move || command.spawn())
}

/// The main function of the launcher: `arguments` are those after [`LAUNCH_ARGUMENT`]. Never returns on success: the
/// process has become Python.
pub fn launch(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let order = arguments.next().and_then(|text| serde_json::from_str::<LaunchOrder>(text.to_str()?).ok());
    let reason = match order {
        Some(order) => become_python(&order),
        None => "the launcher of the sandbox is started by OneTool only".to_owned(),
    };
    eprintln!("{reason}");
    ExitCode::from(CANNOT_CONFINE as u8)
}

/// Returns the reason why it failed.
fn become_python(order: &LaunchOrder) -> String {
    let descriptors = match move_descriptors(order.role) {
        Ok(descriptors) => descriptors.into_iter().map(|number| number.to_string()),
        Err(error) => return format!("cannot set up the descriptors of the sandbox: {error}"),
    };
    let program = match program(order) {
        Ok(program) => program,
        Err(error) => return format!("cannot hand over the host program: {error}"),
    };
    // However the server ends, this process ends too. The thread that starts it lives as long as the server.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // Behind the wall the folder cannot be changed.
    if let Err(error) = std::env::set_current_dir("/") {
        return format!("cannot leave the current folder: {error}");
    }
    limit();
    if let Err(reason) = confine(order)
        && order.confinement == Confinement::Required
    {
        return reason;
    }
    let mut command = Command::new(&order.executable);
    command
        // Warnings would appear before the value, as if the program had printed them.
        .args(["-I", "-S", "-B", "-X", "utf8", "-W", "ignore"])
        .args(["-c", START])
        .args(program)
        .args(descriptors)
        .env_clear()
        // One heap for all threads: a second one would reserve address space that the limit counts.
        .env("MALLOC_ARENA_MAX", "1");
    if let Some(library) = &order.library {
        command.env("ONETOOL_LIBRARY", library).env("ONETOOL_PRELOAD", order.preload.join(" "));
    }
    let error = command.exec();
    format!("cannot execute {}: {error}", order.executable.display())
}

/// Moves the protocol to separate descriptors that stay open across the execution, and returns their numbers; then
/// redirects input from `/dev/null` and output to standard error.
fn move_descriptors(role: Role) -> std::io::Result<Vec<RawFd>> {
    if role == Role::Compiler {
        return Ok(Vec::new());
    }
    let null = File::open("/dev/null")?;
    let mut moved = vec![rustix::io::dup(rustix::stdio::stdin())?.into_raw_fd()];
    if role == Role::OneProgram {
        moved.push(rustix::io::dup(rustix::stdio::stdout())?.into_raw_fd());
    }
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(moved)
}

/// Returns the host program as arguments: its compiled code, a descriptor or empty, and its source.
fn program(order: &LaunchOrder) -> std::io::Result<[String; 2]> {
    let code = order.code.as_deref().and_then(|file| host_program::open(file, &order.executable));
    let code = code.map(handed_over).transpose()?;
    Ok([code.unwrap_or_default(), source()?])
}

/// Returns the number of a descriptor that stays open across the execution.
fn handed_over(file: File) -> std::io::Result<String> {
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file.into_raw_fd().to_string())
}

/// Passed as a descriptor, because Python copies its arguments several times, as wide characters.
#[cfg(target_os = "linux")]
fn source() -> std::io::Result<String> {
    let mut file = File::from(rustix::fs::memfd_create("host", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(HOST.as_bytes())?;
    file.rewind()?;
    handed_over(file)
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as where it is a descriptor")]
fn source() -> std::io::Result<String> {
    Ok(HOST.to_owned())
}

fn limit() {
    let limits = [
        (Resource::As, MAX_ADDRESS_SPACE),
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::Nofile, MAX_OPEN_FILES),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ];
    for (resource, ceiling) in limits {
        let current = rustix::process::getrlimit(resource);
        let maximum = current.maximum.map_or(ceiling, |maximum| maximum.min(ceiling));
        // Lowering one's own limits never fails where the system supports them.
        let _ = setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) });
    }
}

#[cfg(target_os = "linux")]
fn confine(order: &LaunchOrder) -> Result<(), String> {
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("cannot give up privileges: {error}"))?;
    super::wall::raise_first(&order.read, &order.execute).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
fn confine(_: &LaunchOrder) -> Result<(), String> {
    Err("this system has no Landlock and seccomp".to_owned())
}
