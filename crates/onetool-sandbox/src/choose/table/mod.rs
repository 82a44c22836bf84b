//! Which features Monty has and lacks.
//!
//! `monty.tsv` holds one entry per line: its kind, its name, a verdict and the program that was tried. The verdicts
//! come from running every program in both engines; `tests/choices.rs` repeats that and fails when a verdict differs.

mod names;
#[cfg(test)]
mod tried;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use names::{CALLBACKS, RAISED_FOR_LACK, RESERVED_NAMES, SPECIAL_CALLBACKS, TYPES};
#[cfg(test)]
pub(super) use tried::{ANSWERED_DIFFERENTLY, REFUSED_BY_MONTY, TRIED_IN_MONTY};

/// Which argument holds the callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callback {
    First,
    Second,
    Key,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("monty.tsv")));

/// The entries by kind. Modules and builtins: both present and missing ones; other kinds: only one of the two.
#[derive(Default)]
struct Table {
    /// Modules that Monty has, with the members that it has.
    modules: HashMap<&'static str, Vec<&'static str>>,
    lacking_modules: HashSet<&'static str>,
    builtins: HashSet<&'static str>,
    lacking_builtins: HashSet<&'static str>,
    /// Attributes of builtin types that no other type has under the same name.
    lacking_attributes: HashSet<&'static str>,
    /// Attributes of `datetime`'s classes.
    lacking_on_dates: HashSet<&'static str>,
    /// Special methods that Monty honours on the program's classes.
    special_methods: HashSet<&'static str>,
    /// Methods of builtin types, which Monty can call but not pass as values.
    unbound_methods: HashSet<&'static str>,
    /// `function.keyword`.
    lacking_keywords: HashSet<&'static str>,
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (Some(kind), Some(name), Some(verdict)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            table.add(kind, name, verdict == "has");
        }
        table
    }

    fn add(&mut self, kind: &str, name: &'static str, has: bool) {
        let names = match (kind, has) {
            ("module", true) => {
                self.modules.entry(name).or_default();
                return;
            }
            ("member", true) => {
                if let Some((module, member)) = name.split_once('.') {
                    self.modules.entry(module).or_default().push(member);
                }
                return;
            }
            ("module", false) => &mut self.lacking_modules,
            ("builtin", true) => &mut self.builtins,
            ("builtin", false) => &mut self.lacking_builtins,
            ("attribute", false) => &mut self.lacking_attributes,
            ("date-attribute", false) => &mut self.lacking_on_dates,
            ("special-method", true) => &mut self.special_methods,
            ("method-value", false) => &mut self.unbound_methods,
            ("keyword", false) => &mut self.lacking_keywords,
            _ => return,
        };
        names.insert(name);
    }
}

/// The programs that try a feature of the language or a difference: whether Monty answers as Python does, and the code.
#[cfg(test)]
pub(super) fn programs() -> impl Iterator<Item = (bool, String)> {
    include_str!("monty.tsv").lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["syntax" | "difference", _, verdict, program] => Some((*verdict == "has", program.replace("\\n", "\n"))),
            _ => None,
        }
    })
}

pub(super) fn members(module: &str) -> Option<&'static [&'static str]> {
    TABLE.modules.get(module).map(Vec::as_slice)
}

/// Whether only full Python has a module, given its dotted name.
pub(super) fn lacks_module(dotted: &str) -> bool {
    let top = dotted.split('.').next().unwrap_or(dotted);
    TABLE.lacking_modules.contains(top) || (top != dotted && members(top).is_some())
}

/// Whether a module belongs to the standard library, whichever engine has it.
pub(super) fn is_standard_module(name: &str) -> bool {
    members(name).is_some() || TABLE.lacking_modules.contains(name)
}

pub(super) fn is_of_itertools(name: &str) -> bool {
    members("itertools").is_some_and(|members| members.contains(&name))
}

/// Whether a member of `sys` identifies the interpreter.
pub(super) fn tells_engine(name: &str) -> bool {
    matches!(name, "platform" | "version" | "version_info")
}

/// Whether Monty raises this exception, or a subclass of it, for a missing feature.
pub(super) fn is_raised_for_lack(exception: &str) -> bool {
    RAISED_FOR_LACK.contains(&exception)
}

pub(super) fn lacks_builtin(name: &str) -> bool {
    TABLE.lacking_builtins.contains(name)
}

pub(crate) fn is_builtin(name: &str) -> bool {
    TABLE.builtins.contains(name) || lacks_builtin(name)
}

pub(super) fn honours_method(name: &str) -> bool {
    TABLE.special_methods.contains(name) || !is_special(name)
}

pub(super) fn is_special_callback(name: &str) -> bool {
    SPECIAL_CALLBACKS.contains(&name)
}

pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

pub(super) fn lacks_attribute(name: &str) -> bool {
    TABLE.lacking_attributes.contains(name)
}

pub(super) fn lacks_on_dates(name: &str) -> bool {
    TABLE.lacking_on_dates.contains(name)
}

pub(super) fn is_method(name: &str) -> bool {
    TABLE.unbound_methods.contains(name)
}

pub(super) fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name)
}

pub(super) fn callback_of(function: &str) -> Option<Callback> {
    CALLBACKS.iter().find(|(name, _)| *name == function).map(|(_, callback)| *callback)
}

pub(super) fn lacks_keyword(function: &str, keyword: &str) -> bool {
    TABLE.lacking_keywords.iter().any(|entry| entry.split_once('.') == Some((function, keyword)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read() {
        let kinds = ["module", "member", "builtin", "attribute", "date-attribute", "special-method", "method-value"];
        for line in include_str!("monty.tsv").lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, _, verdict, _] = fields.as_slice() else { panic!("{line}") };
            assert!(kinds.contains(kind) || ["keyword", "callback", "syntax", "difference"].contains(kind), "{line}");
            assert!(["has", "lacks", "differs"].contains(verdict), "{line}");
        }
        assert!(is_builtin("len") && lacks_builtin("eval") && lacks_module("time") && lacks_attribute("to_bytes"));
    }
}
