//! What people watch, decide and switch. It outlives reloads.

use std::sync::Arc;

use onetool_run::activity::Activity;
use onetool_run::approvals::{Approvals, StandingApprovals};
use onetool_run::durable::Durable;
use onetool_state::switches::Switches;

use crate::config::{ConfigPlaces, Resolved};
use crate::policy_file::PolicyFile;

#[derive(Clone)]
pub(super) struct Watch {
    pub(super) activity: Arc<Activity>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) policy: Arc<PolicyFile>,
    pub(super) switches: Arc<Switches>,
}

impl Watch {
    pub(super) fn new(settings: &Resolved, places: &ConfigPlaces, durable: &Arc<Durable>) -> Self {
        let policy = Arc::new(PolicyFile::new(places.clone()));
        Self {
            activity: Arc::default(),
            approvals: Arc::new(
                Approvals::new(Some(policy.clone() as Arc<dyn StandingApprovals>)).with_durable(durable),
            ),
            policy,
            switches: Arc::new(Switches::new(settings.own.join("switches.json"))),
        }
    }
}
