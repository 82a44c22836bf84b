//! Tests whose outcome is known from the source: `n > 10` after `n = 5`.

use std::cmp::Ordering;

use ruff_python_ast::{BoolOp, CmpOp, Expr, Number, Operator, UnaryOp};

use super::Kind;
use super::bindings::Binding;
use super::infer::{Inference, Inferred};

/// A value known from the source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    None,
    Truth(bool),
    Integer(i64),
    Text(String),
}

impl Constant {
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::None => false,
            Self::Truth(truth) => *truth,
            Self::Integer(number) => *number != 0,
            Self::Text(text) => !text.is_empty(),
        }
    }

    /// The value as an integer; Python's booleans are integers.
    fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Truth(truth) => Some((*truth).into()),
            Self::None | Self::Text(_) => None,
        }
    }
}

impl<'a> Inference<'a> {
    /// The value of an expression, if the source shows it.
    pub(super) fn constant(&self, expr: &'a Expr, depth: usize) -> Option<Constant> {
        if !self.step(depth) {
            return None;
        }
        let below = |expr: &'a Expr| self.constant(expr, depth + 1);
        match expr {
            Expr::NoneLiteral(_) => Some(Constant::None),
            Expr::BooleanLiteral(truth) => Some(Constant::Truth(truth.value)),
            Expr::StringLiteral(text) => Some(Constant::Text(text.value.to_str().to_owned())),
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) => int.as_i64().map(Constant::Integer),
                Number::Float(_) | Number::Complex { .. } => None,
            },
            // Only a name that is bound once has the same value everywhere.
            Expr::Name(name) => match self.bindings.get(&name.id) {
                [Binding::Value(value)] => below(value),
                _ => None,
            },
            Expr::UnaryOp(unary) => match (unary.op, below(&unary.operand)?) {
                (UnaryOp::Not, value) => Some(Constant::Truth(!value.is_true())),
                (UnaryOp::USub, value) => value.number()?.checked_neg().map(Constant::Integer),
                (UnaryOp::UAdd | UnaryOp::Invert, _) => None,
            },
            Expr::BinOp(binary) => {
                let (left, right) = (below(&binary.left)?.number()?, below(&binary.right)?.number()?);
                match binary.op {
                    Operator::Add => left.checked_add(right),
                    Operator::Sub => left.checked_sub(right),
                    Operator::Mult => left.checked_mul(right),
                    _ => None,
                }
                .map(Constant::Integer)
            }
            Expr::BoolOp(choice) => {
                let (last, first) = choice.values.split_last()?;
                for value in first {
                    let value = below(value)?;
                    if value.is_true() == (choice.op == BoolOp::Or) {
                        return Some(value);
                    }
                }
                below(last)
            }
            Expr::Compare(compare) => {
                let mut left = below(&compare.left)?;
                for (op, right) in compare.ops.iter().zip(&compare.comparators) {
                    let right = below(right)?;
                    if !holds(*op, &left, &right)? {
                        return Some(Constant::Truth(false));
                    }
                    left = right;
                }
                Some(Constant::Truth(true))
            }
            Expr::Call(call) => match (&*call.func, &*call.arguments.args) {
                (Expr::Name(name), [value, Expr::Name(class)])
                    if name.id == "isinstance" && self.bindings.is_builtin("isinstance") =>
                {
                    self.is_instance(value, &class.id, depth).map(Constant::Truth)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn is_instance(&self, value: &'a Expr, class: &str, depth: usize) -> Option<bool> {
        let Inferred::Kind(kind) = self.kind(value, depth + 1) else { return None };
        if !self.bindings.is_builtin(class) {
            return None;
        }
        match (class, kind) {
            // This kind covers several types.
            ("list" | "tuple" | "set" | "frozenset", Kind::List) => None,
            ("list" | "tuple" | "set" | "frozenset", _) => Some(false),
            ("str", kind) => Some(kind == Kind::Text),
            ("int", kind) => Some(matches!(kind, Kind::Integer | Kind::Truth)),
            ("float", kind) => Some(kind == Kind::Float),
            ("bool", kind) => Some(kind == Kind::Truth),
            ("dict", kind) => Some(kind == Kind::Dict),
            _ => None,
        }
    }
}

fn holds(op: CmpOp, left: &Constant, right: &Constant) -> Option<bool> {
    let order = match (left, right) {
        (Constant::Text(left), Constant::Text(right)) => left.cmp(right),
        _ => match (left.number(), right.number()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => return None,
        },
    };
    match op {
        CmpOp::Eq => Some(order == Ordering::Equal),
        CmpOp::NotEq => Some(order != Ordering::Equal),
        CmpOp::Lt => Some(order == Ordering::Less),
        CmpOp::LtE => Some(order != Ordering::Greater),
        CmpOp::Gt => Some(order == Ordering::Greater),
        CmpOp::GtE => Some(order != Ordering::Less),
        CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn => None,
    }
}
