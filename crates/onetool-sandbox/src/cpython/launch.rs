//! The launcher: our own executable, started again under a hidden argument, that becomes the confined interpreter.
//!
//! It gets the protocol as its standard input and output (the zygote: one socket as its input) and the printed text as its
//! standard error. It moves the protocol to descriptors of its own, so that nothing a program prints can touch it, limits itself, raises the first wall
//! and executes Python. It returns only when one of these fails.

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

/// The argument under which our executable is the launcher.
pub const LAUNCH_ARGUMENT: &str = "sandbox-launch";

/// How the launcher says that it could not confine: its standard error holds the reason.
pub(super) const CANNOT_CONFINE: i32 = 78;

/// Ceilings; the run's own limits are lower and are set by the host script.
const MAX_ADDRESS_SPACE: u64 = 16 << 30;
const MAX_CPU_SECONDS: u64 = 24 * 3600;
const MAX_OPEN_FILES: u64 = 256;

/// What to do when the system cannot confine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Confinement {
    Required,
    /// The user opted in: as much as there is.
    WherePossible,
}

/// What the interpreter is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    OneProgram,
    /// To fork a child per program: its standard input is the socket over which it is asked.
    Zygote,
    /// To write the code of the host program to its standard output.
    Compiler,
}

/// What the launcher is told, as one argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LaunchOrder {
    pub(super) executable: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) execute: Vec<PathBuf>,
    pub(super) confinement: Confinement,
    pub(super) role: Role,
    /// The file with the code of the host program.
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

/// Starts the launcher. What it becomes ends when the process is dropped, and with this one.
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
    // It ends with the thread that starts it.
    onetool_process::on_lasting_thread(move || command.spawn())
}

/// The main function of the launcher: `arguments` are those after [`LAUNCH_ARGUMENT`]. On success it never returns: the
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
    // However the server ends, what it runs ends too. The thread that starts it lives as long as the server.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // Behind the wall there is no changing of folders.
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
        // Warnings would stand before the value, as if the program had printed them.
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

/// The protocol moves to descriptors of its own, which stay open across the execution and whose numbers this returns;
/// then input is empty, and output goes where errors go.
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

/// The host program as arguments: its code, which is a descriptor or nothing, and its source.
fn program(order: &LaunchOrder) -> std::io::Result<[String; 2]> {
    let code = order.code.as_deref().and_then(|file| host_program::open(file, &order.executable));
    let code = code.map(handed_over).transpose()?;
    Ok([code.unwrap_or_default(), source()?])
}

/// The number of a descriptor that stays open across the execution.
fn handed_over(file: File) -> std::io::Result<String> {
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file.into_raw_fd().to_string())
}

/// As a descriptor: Python copies its arguments several times, as wide characters.
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
        // Lowering one's own limits is never refused where the system has them.
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
