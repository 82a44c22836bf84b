//! The wall of a process that already has everything it will ever need: memory, a clock, its own threads and two pipes.
//!
//! It cannot open files, execute or signal anything, or create sockets. The wall is raised before the first program is
//! read, is inherited by threads, and cannot be removed.

use seccompiler::{SeccompAction, SeccompCmpOp};

use super::{Rules, WallError, always, filter, one_of, restrict_files, rule};

/// Confines the calling thread and everything it starts. Whatever should be open must already be open.
pub(crate) fn raise_compute_only() -> Result<(), WallError> {
    // Each of the two is useful without the other.
    let files = restrict_files(&[], &[]);
    // `ENOSYS` makes the C library fall back to the older of two calls, e.g. for threads.
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    seccompiler::apply_filter(&filter(permitted()?, refused, SeccompAction::Allow)?)?;
    files
}

fn permitted() -> Result<Rules, WallError> {
    let mut rules = always(COMPUTING);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_poll, Vec::new());
    let own_id = u64::from(std::process::id());
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    rules.extend([
        (libc::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), thread)])?]),
        // An abort is a signal to the process itself.
        (libc::SYS_tgkill, one_of(0, &[own_id])?),
        (libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64])?),
        // Descriptors may be duplicated and queried, but not set up to send signals.
        (libc::SYS_fcntl, one_of(1, &[libc::F_DUPFD_CLOEXEC as u64, libc::F_GETFD as u64, libc::F_GETFL as u64])?),
    ]);
    Ok(rules)
}

const COMPUTING: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];
