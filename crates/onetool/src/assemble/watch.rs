//! Activity, approvals and switches, which outlive reloads.

use std::sync::Arc;

use onetool_run::activity::Activity;
use onetool_run::approvals::{Approvals, StandingApprovals};
use onetool_run::durable::Durable;
use onetool_state::State;
use onetool_state::switches::{SwitchPlace, Switches};

use crate::config::{ConfigPlaces, Resolved};
use crate::metrics::Measures;
use crate::policy_file::PolicyFile;

#[derive(Clone)]
pub(super) struct Watch {
    pub(super) activity: Arc<Activity>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) policy: Arc<PolicyFile>,
    pub(super) switches: Arc<Switches>,
    pub(super) measures: Arc<Measures>,
}

impl Watch {
    pub(super) fn new(settings: &Resolved, places: &ConfigPlaces, state: &State, durable: &Arc<Durable>) -> Self {
        let policy = Arc::new(PolicyFile::new(places.clone()));
        Self {
            activity: Arc::default(),
            approvals: Arc::new(
                Approvals::new(Some(policy.clone() as Arc<dyn StandingApprovals>)).with_durable(durable),
            ),
            policy,
            measures: Arc::default(),
            switches: Arc::new(Switches::at(switch_place(settings, state))),
        }
    }
}

/// Where switches are stored: with the project, or in state shared with other servers.
pub(super) fn switch_place(settings: &Resolved, state: &State) -> SwitchPlace {
    match state.is_shared() {
        true => SwitchPlace::Shared(state.documents()),
        false => SwitchPlace::File(settings.state_home.join("switches.json")),
    }
}
