//! Kernel restrictions on child processes.
//!
//! A Monty child only computes, and gives up everything else at once ([`compute_only`]). A Python child is confined in
//! two steps:
//! The first wall is raised before the interpreter is executed: Landlock (read the interpreter and its libraries,
//! nothing else, no network), a list of system calls that are allowed at all, and a list of calls that are refused as
//! "not permitted". Each child raises the second itself before it reads a program; it revokes what only startup needed:
//! executing, forking, signals to others, receiving descriptors and opening files for writing. Both are inherited and
//! cannot be removed.

mod compute_only;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

pub(crate) use compute_only::raise_compute_only;

/// Why a wall could not be raised.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WallError {
    #[error("Landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    #[error("this kernel does not enforce Landlock")]
    NoLandlock,
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
    #[error("seccomp: {0}")]
    Install(#[from] seccompiler::Error),
}

/// FIONBIO, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ and FIONREAD: the same numbers on every architecture with a filter.
const DEVICE_COMMANDS: &[u64] = &[0x5421, 0x5451, 0x5450, 0x5401, 0x5413, 0x541b];

/// Placeholder for the child's own process id in the second wall, filled in by the child. Occurs only there.
const OWN_ID: u64 = 0x2a2a_2a2a;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Confines this process and everything it executes.
pub(crate) fn raise_first(read: &[PathBuf], execute: &[PathBuf]) -> Result<(), WallError> {
    restrict_files(read, execute)?;
    // If both filters refuse a call, the later one's error number counts.
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    seccompiler::apply_filter(&filter(permitted()?, unknown, SeccompAction::Allow)?)?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    seccompiler::apply_filter(&filter(forbidden(), SeccompAction::Allow, refused)?)?;
    Ok(())
}

/// The second wall as the bytes of a BPF program, in hexadecimal digits.
pub(crate) fn second() -> Result<String, WallError> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let program = filter(forbidden_to_programs()?, SeccompAction::Allow, refused)?;
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend(step.code.to_ne_bytes());
        bytes.extend([step.jt, step.jf]);
        bytes.extend(step.k.to_ne_bytes());
    }
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

fn restrict_files(read: &[PathBuf], execute: &[PathBuf]) -> Result<(), WallError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(execute, AccessFs::ReadFile | AccessFs::Execute))?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced { Err(WallError::NoLandlock) } else { Ok(()) }
}

fn filter(rules: Rules, otherwise: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, WallError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, matching, architecture)?.try_into()?)
}

/// A rule of conditions on 32-bit arguments, all of which must hold.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, WallError> {
    let conditions = conditions
        .iter()
        .map(|(argument, operation, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operation.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

/// One rule per value that the argument may have.
fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, WallError> {
    values.iter().map(|value| rule(&[(argument, SeccompCmpOp::Eq, *value)])).collect()
}

fn always(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Everything that an interpreter without files, network and children needs.
fn permitted() -> Result<Rules, WallError> {
    let mut rules = always(HARMLESS);
    rules.extend(always(HARMLESS_OF_THIS_ARCHITECTURE));
    rules.extend(always(BEFORE_A_PROGRAM));
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    // All bits that a plain fork does not set: no new namespaces, nothing shared.
    let unlike_fork = 0xffff_ffff ^ (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | 0xff) as u64;
    let stream = rule(&[
        (0, SeccompCmpOp::Eq, libc::AF_UNIX as u64),
        (1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_STREAM as u64),
    ])?;
    // Excludes F_SETOWN and similar, which make the kernel send signals to other processes.
    let descriptor_commands =
        [libc::F_DUPFD, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];
    rules.extend([
        (
            libc::SYS_clone,
            vec![
                rule(&[(0, SeccompCmpOp::MaskedEq(thread), thread)])?,
                rule(&[(0, SeccompCmpOp::MaskedEq(unlike_fork), 0)])?,
            ],
        ),
        (libc::SYS_socketpair, vec![stream]),
        // For the socket pair that an event loop wakes itself with: no address, so no other socket.
        (
            libc::SYS_sendto,
            vec![SeccompRule::new(vec![SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?])?],
        ),
        (libc::SYS_fcntl, one_of(1, &descriptor_commands.map(|command| command as u64))?),
        (libc::SYS_ioctl, one_of(1, DEVICE_COMMANDS)?),
        (libc::SYS_prlimit64, one_of(0, &[0])?),
        (libc::SYS_prctl, one_of(0, &PROCESS_COMMANDS.map(|command| command as u64))?),
    ]);
    Ok(rules)
}

/// Calls refused as "not permitted", a PermissionError in Python; other unknown calls are "not implemented".
fn forbidden() -> Rules {
    let mut rules = always(FORBIDDEN);
    rules.extend(always(FORBIDDEN_OF_THIS_ARCHITECTURE));
    rules
}

fn forbidden_to_programs() -> Result<Rules, WallError> {
    let mut rules = always(&[libc::SYS_execve, libc::SYS_execveat, libc::SYS_seccomp, libc::SYS_setitimer]);
    rules.extend(always(BEFORE_A_PROGRAM));
    // Landlock does not check links.
    rules.extend(always(&[libc::SYS_readlinkat]));
    #[cfg(target_arch = "x86_64")]
    rules.extend(always(&[libc::SYS_readlink]));
    rules.insert(libc::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0)])?]);
    for signalling in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(signalling, vec![rule(&[(0, SeccompCmpOp::Ne, OWN_ID)])?]);
    }
    let writing = |argument: u8| -> Result<Vec<SeccompRule>, WallError> {
        [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC]
            .iter()
            .map(|flag| rule(&[(argument, SeccompCmpOp::MaskedEq(*flag as u64), *flag as u64)]))
            .collect()
    };
    rules.insert(libc::SYS_openat, writing(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, writing(1)?);
    rules.insert(libc::SYS_prctl, vec![rule(&[(0, SeccompCmpOp::Ne, libc::PR_SET_NAME as u64)])?]);
    // The alarm ends a program whose host has died.
    rules.insert(libc::SYS_rt_sigaction, one_of(0, &[libc::SIGALRM as u64])?);
    Ok(rules)
}

const PROCESS_COMMANDS: [libc::c_int; 4] =
    [libc::PR_SET_SECCOMP, libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_NAME, libc::PR_SET_PDEATHSIG];

/// Calls that the zygote and a child need before there is a program, and that no program may make.
const BEFORE_A_PROGRAM: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_recvmsg,
    libc::SYS_setpgid,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

const HARMLESS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_seccomp,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setitimer,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

#[cfg(target_arch = "x86_64")]
const HARMLESS_OF_THIS_ARCHITECTURE: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];

#[cfg(not(target_arch = "x86_64"))]
const HARMLESS_OF_THIS_ARCHITECTURE: &[i64] = &[];

const FORBIDDEN: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chdir,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_execveat,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_ftruncate,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_memfd_create,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sendmsg,
    libc::SYS_setgid,
    libc::SYS_setns,
    libc::SYS_setpriority,
    libc::SYS_setsid,
    libc::SYS_setuid,
    libc::SYS_socket,
    libc::SYS_symlinkat,
    libc::SYS_tkill,
    libc::SYS_truncate,
    libc::SYS_umount2,
    libc::SYS_unlinkat,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_utimensat,
];

#[cfg(target_arch = "x86_64")]
const FORBIDDEN_OF_THIS_ARCHITECTURE: &[i64] = &[
    libc::SYS_alarm,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_creat,
    libc::SYS_fork,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_unlink,
    libc::SYS_vfork,
];

#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_OF_THIS_ARCHITECTURE: &[i64] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_both_harmless_and_forbidden() {
        let harmless: Vec<i64> = [HARMLESS, HARMLESS_OF_THIS_ARCHITECTURE].concat();
        let forbidden: Vec<i64> = [FORBIDDEN, FORBIDDEN_OF_THIS_ARCHITECTURE].concat();
        assert!(harmless.iter().all(|call| !forbidden.contains(call)));
    }

    #[test]
    fn the_second_wall_is_a_program_of_whole_steps() {
        let digits = second().unwrap();
        assert!(!digits.is_empty() && digits.len().is_multiple_of(16), "{} digits", digits.len());
    }
}
