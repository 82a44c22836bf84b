//! A thread that lives as long as this process.
//!
//! On Linux, a child that asks to be killed with its parent is killed when the *thread* that started it ends. The
//! runtime's own threads come and go: one that did blocking work is replaced, and ends a few seconds later.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel, sync_channel};

use tokio::runtime::Handle;

type Job = Box<dyn FnOnce() + Send>;

static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();

/// Runs short work on that thread, within the caller's runtime, and waits for it.
pub fn on_lasting_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = sync_channel(1);
    let runtime = Handle::try_current().ok();
    let job = move || {
        let _entered = runtime.as_ref().map(Handle::enter);
        // A panic must not end the shared thread; the caller resumes it.
        let _ = done.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
    };
    match jobs() {
        Some(jobs) => {
            if let Err(unsent) = jobs.send(Box::new(job)) {
                unsent.0();
            }
        }
        None => job(),
    }
    match outcome.recv() {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => unreachable!("a job is done or unwinds"),
    }
}

fn jobs() -> Option<&'static Sender<Job>> {
    let start = || {
        let (sender, jobs) = channel::<Job>();
        let serve = move || jobs.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("children".to_owned()).spawn(serve).ok().map(|_| sender)
    };
    JOBS.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_thread_and_survives_what_unwinds() {
        let thread = || std::thread::current().id();
        let first = on_lasting_thread(thread);
        assert_ne!(first, thread());
        assert!(std::panic::catch_unwind(|| on_lasting_thread(|| panic!("on purpose"))).is_err());
        assert_eq!(std::thread::spawn(move || on_lasting_thread(thread)).join().unwrap(), first);
    }

    #[tokio::test]
    async fn it_starts_children_of_the_runtime() {
        let mut child = on_lasting_thread(|| tokio::process::Command::new("true").spawn()).unwrap();
        assert!(child.wait().await.unwrap().success());
    }
}
