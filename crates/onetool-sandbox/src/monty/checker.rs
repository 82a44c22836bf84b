//! The interpreter's type checker, asked before anything runs.
//!
//! It works in a child of its own, started when first asked and ended when nobody asked for a while: what it learns of
//! Python's own types takes more memory than an idle interpreter, and code that it cannot get through must cost neither a
//! run nor a sandbox. No answer (too large, too slow, a child that died) means that nothing was found.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use monty_pool::{Pool, PoolConfig, PoolError, ReplConfig, on_print_sync};
use monty_types::{ResourceLimits, TypeCheckingConfig, TypeCheckingFormat};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

/// Something that the type checker says of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// From 1, as is the column, which counts characters.
    pub line: u32,
    pub column: u32,
    /// The rule's name, e.g. `invalid-argument-type`.
    pub rule: String,
    pub message: String,
}

/// The checker.
pub(crate) struct Checker {
    executable: PathBuf,
    pool: OnceCell<Arc<Pool>>,
    retiring: Mutex<Option<AbortHandle>>,
}

/// Larger code is not checked.
const MAX_CODE: usize = 16 << 10;
/// How long a run waits for an answer, starting a child included.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a run waits for the checks of others.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Bytes that the checker may use on top of its own caches.
const MAX_MEMORY: usize = 64 << 20;
/// The child is ended when nothing was checked for this long.
const IDLE: Duration = Duration::from_secs(30);
/// A child is replaced after this many checks, because its caches only grow.
const CHECKS_PER_CHILD: u32 = 1000;
/// Stands before the code and is defined nowhere: the checker always has something to say, so nothing is ever run; and if
/// it were, this name would be asked for first.
const NOT_TO_BE_RUN: &str = "__not_to_be_run__";

impl Checker {
    pub(crate) fn new(executable: PathBuf) -> Self {
        Self { executable, pool: OnceCell::new(), retiring: Mutex::new(None) }
    }

    /// What the checker finds in the code, which is never run. `declarations` is a stub file of the names around it.
    pub(crate) async fn findings(&self, code: &str, declarations: &str) -> Vec<Finding> {
        if code.len() > MAX_CODE {
            return Vec::new();
        }
        self.retire(None);
        let answer = tokio::time::timeout(PATIENCE, self.ask(code, declarations)).await;
        if let Some(pool) = self.pool.get().cloned() {
            let retirement = tokio::spawn(async move {
                tokio::time::sleep(IDLE).await;
                pool.close().await;
            });
            self.retire(Some(retirement.abort_handle()));
        }
        answer.ok().flatten().map(|report| read(&report)).unwrap_or_default()
    }

    pub(crate) async fn shutdown(&self) {
        self.retire(None);
        if let Some(pool) = self.pool.get() {
            pool.close().await;
        }
    }

    fn retire(&self, next: Option<AbortHandle>) {
        if let Some(last) = std::mem::replace(&mut *self.retiring.lock(), next) {
            last.abort();
        }
    }

    async fn ask(&self, code: &str, declarations: &str) -> Option<String> {
        let start = || async {
            let mut config = PoolConfig::subprocess(&self.executable);
            config.min_processes = 0;
            config.max_processes = 1;
            config.checkout_timeout = Some(MAX_WAIT);
            config.max_checkouts_per_worker = Some(CHECKS_PER_CHILD);
            Pool::new(config).await.map(Arc::new)
        };
        let pool = self.pool.get_or_try_init(start).await.ok()?;
        let config = ReplConfig {
            script_name: "run".to_owned(),
            limits: Some(ResourceLimits::default().max_duration(PATIENCE).max_memory(MAX_MEMORY)),
            type_check: true,
            type_check_stubs: Some(declarations.to_owned()),
            type_check_config: TypeCheckingConfig { format: TypeCheckingFormat::Concise, color: false },
            ..ReplConfig::default()
        };
        let mut checkout = pool.checkout(&config).await.ok()?;
        let mut on_print = on_print_sync(|_, _: &str| {});
        let text = format!("{NOT_TO_BE_RUN}\n{code}");
        // Dropping the checkout, here or by running out of patience, kills the child.
        match checkout.feed(&text, Vec::new(), Vec::new(), false, &mut on_print).await {
            Err(PoolError::Typing(report)) => {
                let _ = checkout.finish().await;
                Some(report)
            }
            Ok(_) | Err(_) => None,
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.retire(None);
    }
}

/// Reads `run:4:11: error[rule] message`, one a line; other lines say nothing.
fn read(report: &str) -> Vec<Finding> {
    let read_line = |line: &str| {
        let mut parts = line.splitn(4, ':');
        let (_, at, column, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (rule, message) = rest.split_once('[')?.1.split_once("] ")?;
        // The line that stands before the code.
        let line = at.parse::<u32>().ok()?.checked_sub(1)?;
        Some(Finding { line, column: column.parse().ok()?, rule: rule.to_owned(), message: message.to_owned() })
    };
    report.lines().filter_map(read_line).filter(|finding| finding.line > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report = "run:1:1: error[unresolved-reference] Name `__not_to_be_run__` used when not defined\n\
                      run:3:11: error[invalid-argument-type] Argument: found `Literal[\"a: [b] c\"]`\n\nodd\n";
        let finding = |line, column, rule: &str, message: &str| Finding {
            line,
            column,
            rule: rule.to_owned(),
            message: message.to_owned(),
        };
        assert_eq!(read(report), [finding(2, 11, "invalid-argument-type", "Argument: found `Literal[\"a: [b] c\"]`")]);
    }
}
