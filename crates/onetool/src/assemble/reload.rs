//! Reloads the configuration. Unchanged parts keep their processes and connections; active runs and calls finish with
//! the parts they started with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onetool_config::RestartKeys;
use onetool_sdk::{HealthNote, NoteFacts, Severity};

use super::{App, cpython_settings, service, toolbox, watch};
use crate::config::{self, Resolved};

impl App {
    /// Reloads the configuration; if the current files do not take effect, returns the reasons.
    ///
    /// A file that was valid before and is now broken or missing holds back the whole reload: a partial configuration
    /// could be worse than the previous one. Until it is fixed, the last valid state stays in effect, and health
    /// reports it.
    pub fn reload_now(&self) -> Vec<HealthNote> {
        let _one = self.reloading.lock();
        let old = self.settings.get();
        let new = Arc::new(config::resolve(&self.places, config::load(&self.places)));
        crate::log::hide(new.secrets.values());
        crate::log::hide(crate::governing::literal_secrets(&new).iter().map(String::as_str));
        let held_back = held_back(&old, &new);
        let settings = if held_back.is_empty() { new } else { old };
        let mut pending = held_back.clone();
        pending.extend(needs_restart(&self.started_with, &settings.restart));
        // Built outside the lock: other threads get the old part meanwhile.
        let old_parts = self.parts.lock().clone();
        let parts = old_parts.renewed(&self.settings, &settings, self.traces, &mut pending);
        for note in &pending {
            tracing::warn!(span = "reload", subject = note.subject, "{}", note.message);
        }
        if !Arc::ptr_eq(&old_parts.state.value, &parts.state.value) {
            self.watch.switches.move_to(watch::switch_place(&settings, &parts.state.value));
        }
        self.settings.replace(settings.clone());
        *self.parts.lock() = parts.clone();
        *self.served.lock() = service::served(&settings, &parts);
        service::renew_durable(&self.durable, &settings, &parts);
        self.runner.toolbox().replace(toolbox::parts(&settings, &parts, &self.watch, &pending, self.this.clone()));
        self.runner.replace_settings(settings.run.clone());
        let (sandbox, python) = (self.runner.sandbox().clone(), cpython_settings(&settings));
        tokio::spawn(async move { sandbox.replace_cpython(python).await });
        crate::log::set_level(settings.log_level);
        if self.stays.load(Ordering::Relaxed) {
            if self.takes_callbacks.load(Ordering::Relaxed) {
                parts.servers.value.source.take_callbacks_at(self.callback_address().as_deref());
            }
            parts.servers.value.source.wait_for_sign_ins();
        }
        old_parts.retire(&parts);
        held_back
    }
}

/// Notes on files that were valid in `old` and are broken or missing in `new`.
fn held_back(old: &Resolved, new: &Resolved) -> Vec<HealthNote> {
    let was_good = |path| old.files.contains(path) && !old.unreadable.contains(path);
    let broken: Vec<String> =
        new.unreadable.iter().filter(|path| was_good(path)).map(|path| path.display().to_string()).collect();
    let of_broken = new.notes.iter().filter(|note| broken.contains(&note.subject)).map(|note| HealthNote {
        message: format!("{}; the last good configuration stays in effect until this is fixed", note.message),
        ..note.clone()
    });
    let of_gone = new.absent.iter().filter(|path| was_good(path)).map(|path| HealthNote {
        severity: Severity::Error,
        subject: path.display().to_string(),
        message: "this file is gone; the last good configuration stays in effect until it is back, or until onetool \
                  is restarted"
            .to_owned(),
        facts: NoteFacts::default(),
    });
    of_broken.chain(of_gone).collect()
}

/// Notes on keys that take effect at the next start.
fn needs_restart(started_with: &RestartKeys, now: &RestartKeys) -> Vec<HealthNote> {
    let note = |key: String| HealthNote {
        severity: Severity::Warning,
        subject: key,
        message: "has changed; restart onetool for the change to take effect".to_owned(),
        facts: NoteFacts::default(),
    };
    started_with.changed(now).into_iter().map(note).collect()
}
