//! Names with a special meaning in Python, and how they affect the choice of an engine.

use super::Callback;

/// Special methods that must not call the host.
pub(super) const SPECIAL_CALLBACKS: &[&str] =
    &["__repr__", "__str__", "__eq__", "__hash__", "__contains__", "__iter__", "__next__", "__index__"];

/// Functions that take a callback, and the argument that holds it. The callback must not call the host.
pub(super) const CALLBACKS: &[(&str, Callback)] = &[
    ("map", Callback::First),
    ("filter", Callback::First),
    ("reduce", Callback::First),
    ("starmap", Callback::First),
    ("takewhile", Callback::First),
    ("dropwhile", Callback::First),
    ("filterfalse", Callback::First),
    ("defaultdict", Callback::First),
    ("iter", Callback::First),
    ("accumulate", Callback::Second),
    ("sorted", Callback::Key),
    ("min", Callback::Key),
    ("max", Callback::Key),
    ("sort", Callback::Key),
];

pub(super) const RESERVED_NAMES: &[&str] =
    &["__name__", "__debug__", "__doc__", "__annotations__", "__spec__", "__package__"];

pub(super) const TYPES: &[&str] =
    &["bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"];

/// Exceptions that Monty raises for missing features, and their base classes.
pub(super) const RAISED_FOR_LACK: &[&str] = &[
    "ArithmeticError",
    "AttributeError",
    "BaseException",
    "Exception",
    "NotImplementedError",
    "OverflowError",
    "RuntimeError",
    "TypeError",
    "ValueError",
];
