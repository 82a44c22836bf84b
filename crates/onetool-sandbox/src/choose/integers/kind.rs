//! Kinds of values, and what operators make of them.

use ruff_python_ast::{Expr, Number, Operator, UnaryOp};

/// What is known about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// Nothing is bound yet; after the last round: never.
    #[default]
    Nothing,
    /// An integer that is not negative.
    Natural,
    Integer,
    /// A collection of such values.
    Naturals,
    Integers,
    Unknown,
}

impl Kind {
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Nothing) | (Self::Nothing, one) => one,
            (one, other) if one == other => one,
            (Self::Natural | Self::Integer, Self::Natural | Self::Integer) => Self::Integer,
            (Self::Naturals | Self::Integers, Self::Naturals | Self::Integers) => Self::Integers,
            _ => Self::Unknown,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Self::Nothing | Self::Natural | Self::Integer)
    }

    pub(super) fn is_natural(self) -> bool {
        matches!(self, Self::Nothing | Self::Natural)
    }

    /// The kind of an item of this collection.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Naturals => Self::Natural,
            Self::Integers => Self::Integer,
            _ => Self::Unknown,
        }
    }

    /// The kind of a collection of this item.
    pub(super) fn collection(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Natural => Self::Naturals,
            Self::Integer => Self::Integers,
            _ => Self::Unknown,
        }
    }
}

pub(super) fn combined(left: Kind, operator: Operator, right: Kind) -> Kind {
    if left == Kind::Nothing || right == Kind::Nothing {
        return Kind::Nothing;
    }
    let both = left.or(right);
    match operator {
        Operator::Add if both == Kind::Naturals || both == Kind::Integers => both,
        Operator::BitOr | Operator::BitAnd | Operator::BitXor if both == Kind::Naturals || both == Kind::Integers => {
            both
        }
        Operator::Sub if matches!(left, Kind::Naturals | Kind::Integers) && both != Kind::Unknown => left,
        Operator::Mult if matches!(left, Kind::Naturals | Kind::Integers) && right.is_integer() => left,
        Operator::Mult if matches!(right, Kind::Naturals | Kind::Integers) && left.is_integer() => right,
        _ if !left.is_integer() || !right.is_integer() => Kind::Unknown,
        Operator::Add | Operator::Mult | Operator::FloorDiv | Operator::BitOr | Operator::BitXor => both,
        Operator::Sub => Kind::Integer,
        // The sign is that of the divisor.
        Operator::Mod => right,
        Operator::BitAnd if left == Kind::Natural || right == Kind::Natural => Kind::Natural,
        Operator::BitAnd => Kind::Integer,
        Operator::LShift | Operator::RShift => left,
        Operator::Pow if right == Kind::Natural => left,
        Operator::Pow | Operator::Div | Operator::MatMult => Kind::Unknown,
    }
}

/// The value of an integer that is written down.
pub(super) fn integer(value: &Expr) -> Option<u64> {
    match value {
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(digits) => digits.as_u64(),
            _ => None,
        },
        _ => None,
    }
}

/// `n` of `-n`.
pub(super) fn negated(value: &Expr) -> Option<u64> {
    match value {
        Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => integer(&unary.operand),
        _ => None,
    }
}

/// Whether a value is a float if it is a number.
pub(super) fn is_float(value: &Expr) -> bool {
    match value {
        Expr::NumberLiteral(number) => matches!(number.value, Number::Float(_)),
        Expr::BinOp(binary) => binary.op == Operator::Div,
        Expr::UnaryOp(unary) => is_float(&unary.operand),
        _ => false,
    }
}
