//! What Monty 0.0.23 has and lacks, each entry tried on that version.

mod modules;
mod names;
#[cfg(test)]
mod tried;

use modules::{LACKING_MODULES, MODULES};
use names::{
    BUILTINS, CALLBACKS, LACKING_ATTRIBUTES, LACKING_BUILTINS, LACKING_KEYWORDS, LACKING_ON_DATES, METHODS,
    RAISED_FOR_LACK, RESERVED_NAMES, SPECIAL_CALLBACKS, SPECIAL_METHODS, TYPES,
};
#[cfg(test)]
pub(super) use tried::{ANSWERED_DIFFERENTLY, REFUSED_BY_MONTY, TRIED_IN_MONTY};

/// Which argument is the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callback {
    First,
    Second,
    Key,
}

pub(super) fn members(module: &str) -> Option<&'static [&'static str]> {
    MODULES.iter().find(|(name, _)| *name == module).map(|(_, members)| *members)
}

/// Whether a module, by its dotted name, is one that only full Python has.
pub(super) fn lacks_module(dotted: &str) -> bool {
    let top = dotted.split('.').next().unwrap_or(dotted);
    LACKING_MODULES.binary_search(&top).is_ok() || (top != dotted && members(top).is_some())
}

/// Whether a module is one of the standard library, whichever engine has it.
pub(super) fn is_standard_module(name: &str) -> bool {
    members(name).is_some() || LACKING_MODULES.binary_search(&name).is_ok()
}

pub(super) fn is_of_itertools(name: &str) -> bool {
    members("itertools").is_some_and(|members| members.contains(&name))
}

/// Whether a member of `sys` says which interpreter this is.
pub(super) fn tells_engine(name: &str) -> bool {
    matches!(name, "platform" | "version" | "version_info")
}

/// Whether Monty raises an exception of this name, or one that is caught as it, where it lacks something.
pub(super) fn is_raised_for_lack(exception: &str) -> bool {
    RAISED_FOR_LACK.contains(&exception)
}

pub(super) fn lacks_builtin(name: &str) -> bool {
    LACKING_BUILTINS.binary_search(&name).is_ok()
}

pub(crate) fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name) || lacks_builtin(name)
}

pub(super) fn honours_method(name: &str) -> bool {
    SPECIAL_METHODS.contains(&name) || !is_special(name)
}

pub(super) fn is_special_callback(name: &str) -> bool {
    SPECIAL_CALLBACKS.contains(&name)
}

pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

pub(super) fn lacks_attribute(name: &str) -> bool {
    LACKING_ATTRIBUTES.binary_search(&name).is_ok()
}

pub(super) fn lacks_on_dates(name: &str) -> bool {
    LACKING_ON_DATES.contains(&name)
}

pub(super) fn is_method(name: &str) -> bool {
    METHODS.binary_search(&name).is_ok()
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
    LACKING_KEYWORDS.iter().any(|(name, keywords)| *name == function && keywords.contains(&keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_lists_are_sorted() {
        for list in [LACKING_MODULES, LACKING_BUILTINS, LACKING_ATTRIBUTES, METHODS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}
