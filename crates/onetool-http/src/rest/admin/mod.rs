//! The API of the admin page beyond bundles: every tool of the toolbox, runs, activity, approvals, servers, results,
//! configuration and secrets, all below `/api`.
//!
//! Calls and runs go through the same runner and toolbox as everywhere else. [`Operations`] covers what only the
//! program as a whole can do (restart a server, write a secret).

mod activity;
mod approvals;
mod audit;
mod calls;
mod config;
mod elsewhere;
pub(super) mod events;
mod listing;
mod model;
mod operations;
mod results;
mod runs;
mod servers;
mod session;
mod stats;
mod team;
mod tokens;
mod tools;
mod trust;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use onetool_run::ToolboxView;
use onetool_run::activity::Activity;
use onetool_run::approvals::Approvals;
use onetool_sdk::ToolSource;
use onetool_state::switches::Switches;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::RestState;
use super::routes::Routes;
use crate::ApiError;
use crate::relay::Relay;

pub(crate) use elsewhere::{Here, room};
pub(super) use model::PartRow;
pub use model::{
    ChangedTool, ConfigFile, ConfigProblem, ConfigReply, DiffLine, LineChange, SecretRow, ServerKind, ServerRow,
    SignInRow, TokenRow, TrustReply,
};
pub use operations::Operations;
pub use session::PageSessions;
pub(crate) use team::TeamActivity;

/// The parts of the program that the admin page shows.
#[derive(Clone)]
pub struct AdminParts {
    pub view: Arc<dyn ToolboxView>,
    /// Sources whose packs have no flag of their own, behind the switches.
    pub switchable: Vec<Arc<dyn ToolSource>>,
    pub switches: Arc<Switches>,
    pub activity: Arc<Activity>,
    pub approvals: Arc<Approvals>,
    pub operations: Arc<dyn Operations>,
}

/// Runs by id, each with its owner and the token that cancels it.
pub(crate) type Running = Arc<Mutex<HashMap<String, (Arc<str>, CancellationToken)>>>;

/// The state of the admin API on one server.
pub(crate) struct Admin {
    pub(crate) parts: AdminParts,
    /// Runs that were started here and have not ended, with their owners, and other activity that can be cancelled.
    pub(crate) here: Arc<Here>,
    /// Other servers: how they are reached, and their activity.
    pub(crate) relay: Arc<Relay>,
    pub(crate) team: Arc<TeamActivity>,
    /// Streams end when this is cancelled.
    pub(crate) stop: CancellationToken,
}

impl Deref for Admin {
    type Target = AdminParts;

    fn deref(&self) -> &AdminParts {
        &self.parts
    }
}

/// The API's state together with the admin state.
#[derive(Clone)]
struct AdminState {
    rest: RestState,
    admin: Arc<Admin>,
}

impl Deref for AdminState {
    type Target = RestState;

    fn deref(&self) -> &RestState {
        &self.rest
    }
}

impl FromRequestParts<RestState> for AdminState {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &RestState) -> Result<Self, ApiError> {
        let admin = state.admin.clone().ok_or_else(|| ApiError::not_found("this server has no admin page"))?;
        Ok(Self { rest: state.clone(), admin })
    }
}

/// Every topic of the page.
pub(super) fn topics() -> Vec<Routes> {
    vec![
        session::routes(),
        tools::routes(),
        calls::routes(),
        runs::routes(),
        activity::routes(),
        approvals::routes(),
        results::routes(),
        servers::routes(),
        config::routes(),
        tokens::routes(),
        audit::routes(),
        trust::routes(),
        stats::routes(),
    ]
}
