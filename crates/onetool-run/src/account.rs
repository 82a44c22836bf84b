//! The error report of a failed run: what happened, where in the user's code, what was printed and which calls were
//! already made, so that nobody repeats a call that took effect.

use onetool_sandbox::{Failure, Frame, Limits};
use onetool_sdk::{Caller, QualifiedName};

use crate::code::{PreparedCode, SyntaxProblem};
use crate::pack_proxy::{CallRecord, CallState};
use crate::packages::Packages;
use crate::precheck::Refusal;
use crate::shapes::Shape;

pub(crate) struct Account<'a> {
    pub(crate) failure: &'a Failure,
    pub(crate) code: &'a PreparedCode,
    pub(crate) printed: &'a str,
    pub(crate) printed_truncated: bool,
    pub(crate) calls: &'a [CallRecord],
    /// Shapes of the results that calls returned.
    pub(crate) returned: &'a [(QualifiedName, Shape)],
    /// Who reads it: a terminal shows the whole traceback of a tool, a model gets the last frame.
    pub(crate) caller: Caller,
    pub(crate) limits: &'a Limits,
    /// Extra hint about this failure.
    pub(crate) hint: Option<&'a str>,
    pub(crate) packages: Packages<'a>,
}

/// Maximum number of traceback frames shown.
const SHOWN_FRAMES: usize = 8;
/// Maximum number of calls shown.
const SHOWN_CALLS: usize = 20;
/// Maximum bytes of printed text included, from the end.
const SHOWN_PRINTED: usize = 4 << 10;
/// Hint for code that calls `exit()`.
const NO_EXIT: &str = "a run needs no exit: it ends with its code, and its last expression or `return` is its value";
/// Maximum characters shown per line of code or error.
const SHOWN_LINE: usize = 200;

pub(crate) fn syntax(problem: &SyntaxProblem) -> String {
    let hint = hint_for_commands(problem.text.trim_start());
    let caret = " ".repeat(problem.column.saturating_sub(1).min(SHOWN_LINE as u32) as usize);
    format!(
        "SyntaxError: {} (line {})\n  line {}: {}\n  {}{caret}^{hint}",
        problem.message,
        problem.line,
        problem.line,
        problem.text,
        " ".repeat(format!("line {}: ", problem.line).len()),
    )
}

/// The hint for a line of a notebook or a shell, which is not Python.
fn hint_for_commands(line: &str) -> &'static str {
    let command = line.trim_start_matches(['!', '%']);
    if command.starts_with("pip install") || command.starts_with("pip3 install") {
        "\nhint: code cannot install packages; the user adds them to the configuration: run: {packages: [name]}"
    } else if command.len() < line.len() {
        "\nhint: this is a command of a notebook; only Python runs here, and ot.packs() lists the tools it can call"
    } else {
        ""
    }
}

/// Formats the refusal of a call before anything ran.
pub(crate) fn refused(refusal: &Refusal, code: &PreparedCode) -> String {
    let line = code.original.lines().nth(refusal.line as usize - 1).unwrap_or("").trim();
    let hint = refusal.error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!(
        "{}: {}\n  line {}: {}\nnothing was run, because this call cannot work (`__check__ = False` runs it all the same){hint}",
        refusal.error.exception(),
        refusal.error.message,
        refusal.line,
        clip(line)
    )
}

pub(crate) fn text(account: &Account<'_>) -> String {
    let mut text = headline(account);
    if let Some(place) = raised_by(account).and_then(|call| place_in_tool(call, account.caller)) {
        text.push_str(&format!("\n{place}"));
    }
    if may_be_misread(account) {
        text.push_str("\n\nwhat the calls returned:");
        for (name, shape) in account.returned {
            text.push_str(&format!("\n- {name}: {}", shape.text()));
        }
    }
    // A terminal showed it as it was printed.
    if !account.printed.is_empty() && account.caller != Caller::Cli {
        let start = account.printed.len().saturating_sub(SHOWN_PRINTED);
        let start = (start..=account.printed.len()).find(|&at| account.printed.is_char_boundary(at)).unwrap_or(0);
        let cut = if start > 0 || account.printed_truncated { " (cut)" } else { "" };
        text.push_str(&format!("\n\nprinted before{cut}:\n{}", account.printed[start..].trim_end_matches('\n')));
    }
    if !account.calls.is_empty() && !is_all_that_happened(account) {
        text.push_str("\n\ntool calls already made (their effects remain):");
        let skipped = account.calls.len().saturating_sub(SHOWN_CALLS);
        if skipped > 0 {
            text.push_str(&format!("\n- {skipped} earlier calls"));
        }
        for call in &account.calls[skipped..] {
            let outcome = match &call.state {
                CallState::Completed { milliseconds } => format!("completed in {milliseconds} ms"),
                CallState::Failed(error) => format!("failed: {}", clip(error.lines().next().unwrap_or(error))),
                CallState::UnderWay | CallState::Refused => "begun, and stopped with the run".to_owned(),
            };
            text.push_str(&format!("\n- {}: {outcome}", call.name));
        }
    }
    text
}

/// Whether the code may have misread a result: the error is typical of that, and no tool raised it.
fn may_be_misread(account: &Account<'_>) -> bool {
    let Failure::Raised { exception, message, .. } = account.failure else { return false };
    let is_about_a_value = match exception.as_str() {
        "KeyError" | "IndexError" => true,
        "TypeError" => {
            ["subscriptable", "indices must be", "not iterable", "unsupported operand", "object is not callable"]
                .iter()
                .any(|part| message.contains(part))
        }
        "AttributeError" => message.contains("object has no attribute"),
        _ => false,
    };
    is_about_a_value && raised_by(account).is_none() && !account.returned.is_empty()
}

/// The call whose failure is reported.
fn raised_by<'a>(account: &Account<'a>) -> Option<&'a CallRecord> {
    let Failure::Raised { exception, message, .. } = account.failure else { return None };
    let raised = format!("{exception}: {message}");
    account
        .calls
        .iter()
        .rev()
        .find(|call| matches!(&call.state, CallState::Failed(error) if error.lines().next() == raised.lines().next()))
}

/// Where in its own code a tool failed.
fn place_in_tool(call: &CallRecord, caller: Caller) -> Option<String> {
    let traceback = call.traceback.as_deref()?;
    if caller == Caller::Cli {
        return Some(format!("\n{}", traceback.trim_end()));
    }
    let lines: Vec<&str> = traceback.lines().collect();
    let at = lines.iter().rposition(|line| line.trim_start().starts_with("File \""))?;
    let (path, rest) = lines[at].trim_start().strip_prefix("File \"")?.split_once('"')?;
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let code = lines.get(at + 1).map(|line| line.trim()).filter(|line| !line.is_empty());
    let code = code.map(|code| format!(": {}", clip(code))).unwrap_or_default();
    Some(format!("  in {}, {file}{rest}{code}", call.name))
}

/// Whether the only call is the one whose failure is reported, so that there is nothing to add.
fn is_all_that_happened(account: &Account<'_>) -> bool {
    let ([CallRecord { state: CallState::Failed(error), .. }], Failure::Raised { exception, message, .. }) =
        (account.calls, account.failure)
    else {
        return false;
    };
    let raised = format!("{exception}: {message}");
    raised.lines().next() == error.lines().next()
}

fn headline(account: &Account<'_>) -> String {
    let limits = account.limits;
    match account.failure {
        Failure::Raised { exception, message, frames } => {
            let (message, hint) = onetool_sdk::split_hint(message);
            let head = if message.is_empty() { exception.clone() } else { format!("{exception}: {message}") };
            let hint = account.hint.map(str::to_owned).or(hint.map(str::to_owned)).or(match exception.as_str() {
                "ModuleNotFoundError" => account.packages.missing(message),
                "SystemExit" => Some(NO_EXIT.to_owned()),
                _ => None,
            });
            let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            format!("{head}{}{hint}", places(account.code, frames))
        }
        Failure::Timeout(limit) if *limit == limits.timeout => format!(
            "TimeoutError: the run was stopped after {} s\nhint: do less in one run, or raise run.total_timeout",
            limit.as_secs_f64()
        ),
        Failure::Timeout(limit) => format!(
            "TimeoutError: the code computed for more than {} s and was stopped\nhint: look for a loop without end, do less in one run, or raise run.timeout",
            limit.as_secs_f64()
        ),
        Failure::Memory => format!(
            "MemoryError: the code needs more than {} MB of memory and was stopped\nhint: work on less data at once, or raise run.max_memory_mb",
            limits.max_memory >> 20
        ),
        Failure::Calls(limit) => format!(
            "RuntimeError: the run made more than {limit} tool calls and was stopped\nhint: make fewer calls, or raise run.max_calls"
        ),
        Failure::Crashed(reason) => format!(
            "RuntimeError: the sandbox died while it ran this code ({reason})\nhint: the next run gets a new one; simplify the code if this happens again"
        ),
        Failure::Busy(reason) => format!("RuntimeError: too many runs at once: {reason}\nhint: try again in a moment"),
        Failure::Cancelled => "CancelledError: the run was cancelled".to_owned(),
        Failure::TooLarge(reason) => format!("ValueError: {reason}"),
        Failure::Session(reason) => format!("RuntimeError: {reason}"),
        Failure::Unavailable(reason) => {
            let why = account.code.need.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("RuntimeError: this code needs full Python{why}, which cannot run here: {reason}")
        }
    }
}

/// `  line 3, in f: return 1 / 0`, the innermost last.
fn places(code: &PreparedCode, frames: &[Frame]) -> String {
    let lines: Vec<&str> = code.original.lines().collect();
    let mut shown: Vec<String> = Vec::new();
    for frame in frames {
        let Some(line) = frame.line.checked_sub(code.line_offset).filter(|&line| line > 0) else { continue };
        let Some(text) = lines.get(line as usize - 1) else { continue };
        let function = frame
            .function
            .as_deref()
            .filter(|name| *name != "<module>" && *name != "__main__")
            .map(|name| format!(", in {name}"))
            .unwrap_or_default();
        let place = format!("\n  line {line}{function}: {}", clip(text.trim()));
        if shown.last() != Some(&place) {
            shown.push(place);
        }
    }
    if shown.len() > SHOWN_FRAMES {
        let skipped = shown.len() - SHOWN_FRAMES;
        shown.splice(1..=skipped, [format!("\n  … {skipped} more")]);
    }
    shown.concat()
}

fn clip(text: &str) -> String {
    if text.chars().count() <= SHOWN_LINE {
        return text.to_owned();
    }
    text.chars().take(SHOWN_LINE).chain(['…']).collect()
}

/// Cuts a text in the middle, keeping its beginning and end.
pub(crate) fn cap(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let head = boundary(max * 2 / 3);
    let tail = boundary(text.len() - max / 3);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
