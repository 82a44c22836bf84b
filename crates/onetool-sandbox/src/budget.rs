//! Limits on the server memory and time that one message from a child may use.
//!
//! Everything a child sends is hostile input, whichever program normally writes it. A decoder charges the budget before
//! it allocates, and stops at the first charge that fails. The raw message may be as large as the program's memory
//! ([`Budget::max_message_bytes`]), and so may the values decoded from it, so no message takes more than twice
//! `run.max_memory_mb` in the server.

use onetool_sdk::{Part, Value};

use crate::Limits;

/// The memory of one value inside a container, including the spare capacity of a growing container.
const NODE_BYTES: usize = 2 * size_of::<Value>();
/// Maximum number of values in one message.
const MAX_NODES: usize = 5_000_000;
/// Maximum number of decimal digits in one message. Parsing them takes quadratic time, so this bounds time rather than
/// memory. It is slightly more than an integer of a million bits needs.
const MAX_DIGITS: usize = 320_000;
/// Maximum levels of nesting.
const MAX_DEPTH: usize = 200;
/// Maximum number of names in one message: looked up, read back, or naming arguments.
const MAX_NAMES: usize = 10_000;

/// The remaining budget of one message. Depth is a fixed limit; everything else is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    nodes: usize,
    bytes: usize,
    /// The initial number of bytes.
    whole: usize,
    digits: usize,
    depth: usize,
    names: usize,
}

/// A message that is larger than its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BudgetExceeded {
    #[error("a value has more than {} parts", MAX_NODES)]
    Nodes,
    #[error("a value takes more memory than `run.max_memory_mb` allows")]
    Bytes,
    #[error("the integers of a value have more than {} digits", MAX_DIGITS)]
    Digits,
    #[error("a value is nested more than {} levels deep", MAX_DEPTH)]
    Depth,
    #[error("a message has more than {} names", MAX_NAMES)]
    Names,
}

impl Budget {
    /// The budget of one message of a program with these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = limits.max_memory;
        Self { nodes: MAX_NODES, bytes, whole: bytes, digits: MAX_DIGITS, depth: MAX_DEPTH, names: MAX_NAMES }
    }

    /// The budget for messages that the server itself sends: their limit is the child's allocator.
    pub(crate) fn of_the_server() -> Self {
        let most = usize::MAX;
        Self { nodes: most, bytes: most, whole: most, digits: most, depth: MAX_DEPTH, names: most }
    }

    /// Maximum number of values in one message of a program with these limits.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only full Python, which needs Unix, asks"))]
    pub(crate) fn max_nodes(limits: &Limits) -> usize {
        MAX_NODES.min(limits.max_memory / NODE_BYTES)
    }

    /// Maximum size of one message before it is decoded.
    pub(crate) fn max_message_bytes(limits: &Limits) -> usize {
        limits.max_value_bytes.min(limits.max_memory)
    }

    /// Bytes of arguments that a program's calls may hold in the server together before the next call is read. One call
    /// alone may hold more.
    pub(crate) fn max_held_bytes(limits: &Limits) -> usize {
        limits.max_memory / 8
    }

    /// Memory charged so far.
    pub(crate) fn spent(&self) -> usize {
        self.whole - self.bytes
    }

    /// Charges one more value, without the memory it points to.
    pub(crate) fn charge_node(&mut self) -> Result<(), BudgetExceeded> {
        take(&mut self.nodes, 1, BudgetExceeded::Nodes)?;
        self.charge_bytes(NODE_BYTES)
    }

    /// Charges memory that a value points to: the bytes of a text or an integer.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        take(&mut self.bytes, bytes, BudgetExceeded::Bytes)
    }

    /// Charges decimal digits that will be read as one integer.
    pub(crate) fn charge_digits(&mut self, digits: usize) -> Result<(), BudgetExceeded> {
        take(&mut self.digits, digits, BudgetExceeded::Digits)?;
        self.charge_bytes(digits / 2)
    }

    /// Lifts the limit on digits, for integers that nobody formats before they are inspected.
    pub(crate) fn allow_any_digits(&mut self) {
        self.digits = usize::MAX;
    }

    /// Charges one more name, with its text.
    pub(crate) fn charge_name(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        take(&mut self.names, 1, BudgetExceeded::Names)?;
        self.charge_bytes(size_of::<String>() + bytes)
    }

    /// Checks a level of nesting; the outermost value is at level 0.
    pub(crate) fn check_depth(&self, level: usize) -> Result<(), BudgetExceeded> {
        if level > self.depth { Err(BudgetExceeded::Depth) } else { Ok(()) }
    }
}

/// The approximate memory size of a value, in bytes.
pub(crate) fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::Str(text) | Value::Path(text) | Value::Opaque(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.iter().map(weight).sum()
        }
        Value::Dict(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
        Value::Record { fields, .. } => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
        Value::Part(Part::Image { data, .. }) => data.len(),
        _ => 0,
    };
    size_of::<Value>() + inside
}

fn take(left: &mut usize, amount: usize, exceeded: BudgetExceeded) -> Result<(), BudgetExceeded> {
    *left = left.checked_sub(amount).ok_or(exceeded)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max_memory: usize) -> Budget {
        Budget::new(&Limits { max_memory, ..Limits::default() })
    }

    #[test]
    fn nodes_and_text_share_the_memory_of_the_program() {
        let mut budget = budget(10 * NODE_BYTES);
        assert_eq!(budget.charge_bytes(8 * NODE_BYTES), Ok(()));
        assert_eq!((budget.charge_node(), budget.charge_node()), (Ok(()), Ok(())));
        assert_eq!(budget.charge_node(), Err(BudgetExceeded::Bytes));
        assert_eq!(budget.spent(), 10 * NODE_BYTES);
    }

    #[test]
    fn each_limit_is_met_by_itself() {
        let mut budget = budget(usize::MAX);
        assert_eq!(budget.charge_digits(MAX_DIGITS), Ok(()));
        assert_eq!(budget.charge_digits(1), Err(BudgetExceeded::Digits));
        assert_eq!((0..MAX_NAMES).try_for_each(|_| budget.charge_name(1)), Ok(()));
        assert_eq!(budget.charge_name(1), Err(BudgetExceeded::Names));
        assert_eq!((0..MAX_NODES).try_for_each(|_| budget.charge_node()), Ok(()));
        assert_eq!(budget.charge_node(), Err(BudgetExceeded::Nodes));
        assert_eq!(budget.check_depth(MAX_DEPTH), Ok(()));
        assert_eq!(budget.check_depth(MAX_DEPTH + 1), Err(BudgetExceeded::Depth));
    }

    #[test]
    fn a_message_has_at_most_the_memory_of_the_program() {
        let limits = Limits { max_memory: 1000, max_value_bytes: 2000, ..Limits::default() };
        assert_eq!(Budget::max_message_bytes(&limits), 1000);
    }
}
