//! Bounds the depth of a syntax tree from the text alone.
//!
//! The parser bounds its own recursion, but chains such as `1+1+…` or `f()()…` become trees as deep as they are long
//! without any, and walking or freeing such a tree overflows the stack. So their length is bounded before parsing.

/// Maximum number of operators in one chain, including brackets around it. Monty gives up at 200.
const MAX_CHAIN: usize = 150;

/// Whether the program has a chain of operators, calls or brackets that is too long to parse safely.
pub fn is_nested_deeply(code: &str) -> bool {
    let bytes = code.as_bytes();
    // One counter per open bracket; a comma or a new line starts a new chain.
    let mut levels = vec![0_usize];
    let mut total = 0_usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'#' => at += bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at),
            b'\'' | b'"' => {
                let end = end_of_string(bytes, at - 1);
                if is_interpolated(bytes, at - 1) {
                    // The text in its braces is code again; all of it counts as one chain.
                    let inside =
                        bytes[at..end].iter().filter(|byte| is_operator(**byte) || matches!(byte, b'(' | b'[')).count();
                    bump(&mut levels, &mut total, inside);
                }
                at = end;
            }
            b'(' | b'[' | b'{' => {
                bump(&mut levels, &mut total, 1);
                levels.push(0);
            }
            b')' | b']' | b'}' if levels.len() > 1 => total -= levels.pop().unwrap_or_default(),
            b',' => reset(&mut levels, &mut total),
            b'\n' | b';' if levels.len() == 1 => reset(&mut levels, &mut total),
            byte if is_operator(byte) => bump(&mut levels, &mut total, 1),
            _ => {}
        }
        if total > MAX_CHAIN {
            return true;
        }
    }
    false
}

fn is_operator(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b'*' | b'/' | b'%' | b'@' | b'&' | b'|' | b'^' | b'.' | b'~')
}

fn bump(levels: &mut [usize], total: &mut usize, count: usize) {
    if let Some(level) = levels.last_mut() {
        *level += count;
        *total += count;
    }
}

fn reset(levels: &mut [usize], total: &mut usize) {
    if let Some(level) = levels.last_mut() {
        *total -= *level;
        *level = 0;
    }
}

/// Whether the quote at `quote` has an `f` or a `t` before it.
fn is_interpolated(bytes: &[u8], quote: usize) -> bool {
    bytes[quote.saturating_sub(2)..quote].iter().any(|byte| matches!(byte.to_ascii_lowercase(), b'f' | b't'))
}

/// Returns the position after the string that starts at `quote`; an unterminated string is a syntax error anyway.
fn end_of_string(bytes: &[u8], quote: usize) -> usize {
    let mark = bytes[quote];
    let triple = bytes[quote..].starts_with(&[mark; 3]);
    let mut at = quote + if triple { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' if !triple => return at,
            byte if byte == mark && !triple => return at + 1,
            byte if byte == mark && bytes[at..].starts_with(&[mark; 3]) => return at + 3,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
