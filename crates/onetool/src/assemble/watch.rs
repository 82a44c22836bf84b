//! What people watch, decide and switch. It outlives reloads.

use std::sync::Arc;

use onetool_run::activity::Activity;
use onetool_run::approvals::{Approvals, StandingApprovals};
use onetool_run::durable::Durable;
use onetool_state::switches::Switches;

use crate::config::Resolved;
use crate::operations::KeptApprovals;

#[derive(Clone)]
pub(super) struct Watch {
    pub(super) activity: Arc<Activity>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) switches: Arc<Switches>,
}

impl Watch {
    pub(super) fn new(settings: &Resolved, durable: &Arc<Durable>) -> Self {
        let kept = settings.global.as_ref().map(|global| KeptApprovals::new(global, &settings.folder));
        Self {
            activity: Arc::default(),
            approvals: Arc::new(
                Approvals::new(kept.map(|kept| Arc::new(kept) as Arc<dyn StandingApprovals>)).with_durable(durable),
            ),
            switches: Arc::new(Switches::new(settings.own.join("switches.json"))),
        }
    }
}
