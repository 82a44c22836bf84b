//! Declarations for the type checker that make it tell the type of every argument.
//!
//! A tool's parameters are declared as a type that no value has: the checker then says of each argument what it found
//! instead, unless that may be anything. What fits is for us to judge, because values are converted on their way to a
//! tool (a path is text, a tuple is a list) and names may be shortened, which no signature can express. Only tools whose
//! arguments are asked for are declared so; everything else that the host offers may be anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The type that no value has.
pub(super) const NOTHING_FITS: &str = "_NothingFits";

/// How a name of the host is declared.
enum Declared {
    /// A pack, with the tools that are asked about.
    Pack(BTreeSet<String>),
    /// An alias of a tool.
    Tool,
    Untyped,
}

/// Declarations by name.
#[derive(Default)]
pub(super) struct Stubs(BTreeMap<String, Declared>);

impl Stubs {
    /// A tool that is called as `name.function(…)`, or by an alias as `name(…)`.
    pub(super) fn add(&mut self, name: &str, function: Option<&str>) {
        let Some(function) = function else {
            self.0.insert(name.to_owned(), Declared::Tool);
            return;
        };
        let declared = self.0.entry(name.to_owned()).or_insert_with(|| Declared::Pack(BTreeSet::new()));
        if let Declared::Pack(functions) = declared {
            functions.insert(function.to_owned());
        }
    }

    /// Something else that the host knows by this name.
    pub(super) fn add_untyped(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_insert(Declared::Untyped);
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "from typing import Any\n\
             class {NOTHING_FITS}: ...\n\
             class _Tool:\n \
             def __call__(self, /, *arguments: {NOTHING_FITS}, **named: {NOTHING_FITS}) -> Any: ...\n \
             def __getattr__(self, name: str, /) -> Any: ...\n"
        );
        for (index, (name, declared)) in self.0.iter().enumerate() {
            let _ = match declared {
                Declared::Untyped => writeln!(text, "{name}: Any"),
                Declared::Tool => writeln!(text, "{name}: _Tool"),
                Declared::Pack(functions) => {
                    let _ = writeln!(text, "class _Pack{index}:");
                    for function in functions {
                        let _ = writeln!(text, " {function}: _Tool");
                    }
                    writeln!(text, " def __getattr__(self, name: str, /) -> Any: ...\n{name}: _Pack{index}")
                }
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_about_is_declared() {
        let mut stubs = Stubs::default();
        stubs.add("file", Some("read"));
        stubs.add("file", Some("glob"));
        stubs.add("ws", None);
        stubs.add_untyped("file");
        stubs.add_untyped("proj");
        let text = stubs.text();
        let (_, declarations) =
            text.split_once("-> Any: ...\n def __getattr__(self, name: str, /) -> Any: ...\n").unwrap();
        assert_eq!(
            declarations,
            "class _Pack0:\n glob: _Tool\n read: _Tool\n def __getattr__(self, name: str, /) -> Any: ...\n\
             file: _Pack0\nproj: Any\nws: _Tool\n"
        );
    }
}
