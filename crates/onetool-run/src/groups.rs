//! Groups of principals, with their own rules, packs, secrets and limits.
//!
//! A group only restricts what the configuration allows, and never adds to it. With several groups, the strictest rule
//! and the lowest limit apply; their packs and secrets add up. Unauthenticated requesters (standard input, the command
//! line, a server without tokens) belong to no group.

use std::collections::HashMap;
use std::sync::Arc;

use globset::{Glob, GlobMatcher};
use onetool_sdk::{QualifiedName, Requester, ToolError};
use parking_lot::Mutex;

use crate::permission::{Permission, Permissions};

/// The pack that everyone has, unless a rule denies it.
const OWN_PACK: &str = "ot";
/// Maximum number of cached group combinations.
const MAX_REMEMBERED: usize = 1_000;

/// Limits on a principal's usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    pub runs_at_once: Option<u32>,
    pub calls_per_minute: Option<u32>,
    pub cpu_seconds_per_day: Option<u32>,
}

impl Quota {
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the lower of each limit.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let lower = |one: Option<u32>, other: Option<u32>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            runs_at_once: lower(self.runs_at_once, other.runs_at_once),
            calls_per_minute: lower(self.calls_per_minute, other.calls_per_minute),
            cpu_seconds_per_day: lower(self.cpu_seconds_per_day, other.cpu_seconds_per_day),
        }
    }

    /// Takes missing limits from `fallback`.
    #[must_use]
    fn or(self, fallback: Self) -> Self {
        Self {
            runs_at_once: self.runs_at_once.or(fallback.runs_at_once),
            calls_per_minute: self.calls_per_minute.or(fallback.calls_per_minute),
            cpu_seconds_per_day: self.cpu_seconds_per_day.or(fallback.cpu_seconds_per_day),
        }
    }
}

/// Patterns of names.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<GlobMatcher>);

impl Names {
    /// Compiles the patterns; the error names the invalid one.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, globset::Error> {
        let compiled = patterns.into_iter().map(|pattern| Ok(Glob::new(pattern)?.compile_matcher()));
        compiled.collect::<Result<_, globset::Error>>().map(Self)
    }

    fn contain(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(name))
    }
}

/// One group.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub name: String,
    /// Patterns of principals.
    pub members: Names,
    pub permissions: Permissions,
    /// The packs that its members see; all if `None`.
    pub packs: Option<Names>,
    /// The secrets that tools may use for its members; all if `None`.
    pub secrets: Option<Names>,
    pub quota: Quota,
}

/// All groups.
#[derive(Debug, Default)]
pub struct Groups {
    groups: Vec<Group>,
    /// The user's groups, if a project has its own: both must allow a call.
    user: Vec<Group>,
    quota: Quota,
    /// The section is invalid: until it is fixed, authenticated principals may call only `ot`.
    is_closed: bool,
    /// Cached access by combination of group indexes.
    combined: Mutex<HashMap<[Vec<usize>; 2], Arc<Access>>>,
}

impl Groups {
    /// `quota` applies to limits that none of a principal's groups sets.
    pub fn new(groups: Vec<Group>, quota: Quota) -> Self {
        Self { groups, quota, ..Self::default() }
    }

    /// Adds the user's groups, which a project's groups cannot loosen.
    #[must_use]
    pub fn within(self, user: Vec<Group>) -> Self {
        Self { user, ..self }
    }

    /// Groups of an invalid section.
    #[must_use]
    pub fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    /// What a requester may do; `None` if nothing is restricted.
    pub fn access(&self, requester: &Requester) -> Option<Arc<Access>> {
        let principal = requester.principal.as_deref()?;
        if self.is_closed {
            return Some(Arc::new(Access::closed("security.groups cannot be read")));
        }
        let all = || self.groups.iter().chain(&self.user);
        let is_unknown = |name: &&String| !all().any(|group| group.name == **name);
        if let Some(unknown) = requester.groups.iter().find(is_unknown) {
            return Some(Arc::new(Access::closed(&format!("there is no group '{unknown}' in security.groups"))));
        }
        let is_member = |group: &Group| group.members.contain(principal) || requester.groups.contains(&group.name);
        let own = [&self.groups, &self.user].map(|groups| {
            let own = groups.iter().enumerate().filter(|(_, group)| is_member(group));
            own.map(|(index, _)| index).collect::<Vec<usize>>()
        });
        if own.iter().all(Vec::is_empty) && self.quota.is_unlimited() {
            return None;
        }
        let mut combined = self.combined.lock();
        if let Some(access) = combined.get(&own) {
            return Some(access.clone());
        }
        let mut access = combine(&self.groups, &own[0]);
        let user = combine(&self.user, &own[1]);
        access.quota = access.quota.and(user.quota).or(self.quota);
        access.user = Some(Box::new(user)).filter(|_| !own[1].is_empty());
        let access = Arc::new(access);
        if combined.len() >= MAX_REMEMBERED {
            combined.clear();
        }
        combined.insert(own, access.clone());
        Some(access)
    }
}

fn combine(groups: &[Group], own: &[usize]) -> Access {
    let mut access = Access::default();
    for group in own.iter().filter_map(|index| groups.get(*index)) {
        access.permissions = std::mem::take(&mut access.permissions).and(group.permissions.clone());
        for (all, own) in [(&mut access.packs, &group.packs), (&mut access.secrets, &group.secrets)] {
            if let Some(own) = own {
                all.get_or_insert_with(Names::default).0.extend(own.0.iter().cloned());
            }
        }
        access.quota = access.quota.and(group.quota);
    }
    access
}

/// A requester's access.
#[derive(Debug, Clone, Default)]
pub struct Access {
    permissions: Permissions,
    packs: Option<Names>,
    secrets: Option<Names>,
    pub quota: Quota,
    /// Why nothing is allowed.
    closed: Option<String>,
    /// The access that the user's own groups give.
    user: Option<Box<Self>>,
}

impl Access {
    fn closed(reason: &str) -> Self {
        Self { closed: Some(reason.to_owned()), packs: Some(Names::default()), ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.user.as_deref())
    }

    /// Whether this hides tools.
    pub fn hides(&self) -> bool {
        self.limits_secrets() || self.all().any(|access| access.packs.is_some() || !access.permissions.is_empty())
    }

    pub fn sees_pack(&self, pack: &str) -> bool {
        pack == OWN_PACK || self.all().all(|access| access.packs.as_ref().is_none_or(|packs| packs.contain(pack)))
    }

    /// Whether a tool is shown and can be called.
    pub fn sees(&self, name: &QualifiedName) -> bool {
        self.permission(name) != Permission::Deny
    }

    /// The permission by the groups' rules.
    pub fn permission(&self, name: &QualifiedName) -> Permission {
        if !self.sees_pack(&name.pack) {
            return Permission::Deny;
        }
        self.all().map(|access| access.permissions.of(name)).max().unwrap_or(Permission::Allow)
    }

    /// Whether tools may use a secret, or all secrets that match a pattern such as `DB_*`.
    pub fn may_use_secret(&self, name: &str) -> bool {
        self.all().all(|access| access.secrets.as_ref().is_none_or(|secrets| secrets.contain(name)))
    }

    /// Whether any call may need approval.
    pub(crate) fn may_ask(&self) -> bool {
        self.all().any(|access| access.permissions.may_ask())
    }

    /// Whether secrets are restricted.
    pub fn limits_secrets(&self) -> bool {
        self.all().any(|access| access.secrets.is_some())
    }

    /// The error for a tool that is not available.
    pub fn refusal(&self, what: &str, requester: &Requester) -> ToolError {
        let principal = requester.principal.as_deref().unwrap_or_default();
        match &self.closed {
            Some(reason) => ToolError::denied(format!("{what} is not available to '{principal}': {reason}"))
                .with_hint("whoever runs the server corrects security.groups, or the groups of the token"),
            None => ToolError::denied(format!("{what} is not available to '{principal}'"))
                .with_hint("security.groups in the configuration decides who may call what"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str]) -> Names {
        Names::new(patterns.iter().copied()).unwrap()
    }

    fn who(name: &str, groups: &[&str]) -> Requester {
        Requester {
            principal: Some(name.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Requester::default()
        }
    }

    fn groups() -> Groups {
        let readers = Group {
            name: "readers".to_owned(),
            members: names(&["ana", "ci-*"]),
            permissions: Permissions::new([("*.write", Permission::Deny), ("*.delete", Permission::Ask)]).unwrap(),
            packs: Some(names(&["file"])),
            secrets: Some(names(&["DB_*"])),
            quota: Quota { calls_per_minute: Some(10), ..Quota::default() },
        };
        let web = Group {
            name: "web".to_owned(),
            packs: Some(names(&["web"])),
            quota: Quota { calls_per_minute: Some(5), ..Quota::default() },
            ..Group::default()
        };
        Groups::new(vec![readers, web], Quota { runs_at_once: Some(3), ..Quota::default() })
    }

    #[test]
    fn lists_add_up_and_the_strictest_rule_counts() {
        let groups = groups();
        let ana = groups.access(&who("ana", &[])).unwrap();
        let tool = |pack: &str, function: &str| QualifiedName::new(pack, function);
        assert!(ana.sees(&tool("file", "read")) && !ana.sees(&tool("file", "write")) && !ana.sees(&tool("web", "get")));
        assert!(ana.sees(&tool("ot", "help")));
        assert_eq!(ana.permission(&tool("file", "delete")), Permission::Ask);
        assert!(ana.may_use_secret("DB_URL") && !ana.may_use_secret("API_KEY"));
        assert_eq!(ana.quota, Quota { runs_at_once: Some(3), calls_per_minute: Some(10), ..Quota::default() });
        let both = groups.access(&who("ci-7", &["web"])).unwrap();
        assert!(
            both.sees(&tool("web", "get")) && both.sees(&tool("file", "read")) && !both.sees(&tool("web", "write"))
        );
        assert_eq!(both.quota.calls_per_minute, Some(5));
        let eve = groups.access(&who("eve", &[])).unwrap();
        assert!(eve.sees(&tool("file", "write")) && !eve.hides() && eve.quota.runs_at_once == Some(3));
        assert!(groups.access(&Requester::default()).is_none());
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        let read = QualifiedName::new("file", "read");
        let lost = groups().access(&who("ana", &["reders"])).unwrap();
        assert!(!lost.sees(&read) && lost.refusal("file.read", &who("ana", &[])).message.contains("reders"));
        assert!(!Groups::closed().access(&who("ana", &[])).unwrap().sees(&read));
        assert!(Groups::closed().access(&Requester::default()).is_none());
    }
}
