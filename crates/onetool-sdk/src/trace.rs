//! The trace that a request belongs to, as in W3C Trace Context: it arrives with the request and is propagated to every
//! request made on its behalf.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The name of the header, and of the key in `_meta`.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of a `tracestate` that is passed on, in bytes.
const MAX_STATE: usize = 512;

/// A trace that was started elsewhere, or here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// 32 hexadecimal digits.
    trace: Arc<str>,
    /// The span of the trace that our work belongs to.
    parent: Option<NonZeroU64>,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Parses `traceparent` and `tracestate`. Invalid headers are ignored, as the standard demands.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        // Later versions may have more parts; version 00 may not.
        let is_known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !is_known || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        if trace.bytes().all(|byte| byte == b'0') {
            return None;
        }
        let parent = NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?;
        let state = state.map(str::trim).filter(|state| {
            (1..=MAX_STATE).contains(&state.len()) && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        });
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self { trace: trace.into(), parent: Some(parent), flags, state: state.map(Arc::from) })
    }

    /// Creates a trace that starts with a run. Its id is the run's id, if that has the right form.
    pub fn of_run(run_id: &str) -> Option<Self> {
        let is_id = run_id.len() == 32 && run_id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self { trace: run_id.to_ascii_lowercase().into(), parent: None, flags: 1, state: None })
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> &Arc<str> {
        &self.trace
    }

    pub(crate) fn parent(&self) -> Option<NonZeroU64> {
        self.parent
    }
}

/// The headers of a request that is made within a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeaders {
    pub parent: String,
    pub state: Option<Arc<str>>,
}

impl TraceHeaders {
    pub(crate) fn new(trace: &TraceContext, span: NonZeroU64) -> Self {
        Self { parent: format!("00-{}-{span:016x}-{:02x}", trace.trace, trace.flags), state: trace.state.clone() }
    }
}

impl fmt::Display for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_read_and_passed_on() {
        let trace = TraceContext::parse(PARENT, Some("vendor=1")).unwrap();
        let headers = TraceHeaders::new(&trace, NonZeroU64::new(0xab).unwrap());
        assert_eq!(headers.parent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000ab-01");
        assert_eq!(headers.state.as_deref(), Some("vendor=1"));
    }

    #[test]
    fn what_the_standard_calls_invalid_is_no_trace() {
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
        assert!(TraceContext::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None).is_some());
        let long = "x".repeat(MAX_STATE + 1);
        assert_eq!(TraceContext::parse(PARENT, Some(&long)).unwrap().state, None);
    }
}
