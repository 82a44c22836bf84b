//! Messages that nobody would write: random ones, and honest ones with something done to them.
//!
//! Shared by the tests named `fuzz_*` of several crates. Each tries messages for `ONETOOL_FUZZ_SECONDS` (one second in the
//! ordinary tests; `scripts/fuzz.sh` gives them more), and says what it tried. `ONETOOL_FUZZ_SEED` repeats a sequence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A message that takes longer hangs whoever reads it, also on a machine that does much else.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Messages grow no longer, most of the time.
const USUAL_BYTES: usize = 64 << 10;
/// Messages grow no longer at all.
const MAX_BYTES: usize = 4 << 20;

/// Small and good enough: it only has to differ from run to run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit.max(1)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// What messages are made of.
pub(crate) struct Messages {
    pub(crate) honest: Vec<Vec<u8>>,
    /// Pieces that mean something where they stand.
    pub(crate) pieces: Vec<&'static [u8]>,
}

/// Pieces of JSON messages.
pub(crate) const JSON_PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"null",
    b"true",
    b"-",
    b"1e999",
    b"0",
    b"99999999999999999999",
    b"\"$ot\":",
    b"\"int\"",
    b"\"dict\"",
    b"\"image\"",
    b"\"v\":",
    b"\"t\":",
    b"\"id\":",
    b"\"result\":",
    b"\"error\":",
    b"\"method\":",
    b"\"params\":",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xe2\x80\xae",
];

impl Messages {
    pub(crate) fn json(honest: &[&str]) -> Self {
        Self { honest: honest.iter().map(|text| text.as_bytes().to_vec()).collect(), pieces: JSON_PIECES.to_vec() }
    }

    /// The next message: an honest one with something done to it, or nonsense.
    pub(crate) fn next(&self, random: &mut Random) -> Vec<u8> {
        let mut message = if random.below(20) == 0 { Vec::new() } else { random.pick(&self.honest).clone() };
        for _ in 0..=random.below(8) {
            self.change(&mut message, random);
            if message.len() > MAX_BYTES {
                message.truncate(MAX_BYTES);
            }
        }
        message
    }

    fn change(&self, message: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(message.len() + 1);
        let to = at + random.below((message.len() - at).min(64) + 1);
        match random.below(10) {
            0 if at < message.len() => message[at] = random.next() as u8,
            1 if at < message.len() => message[at] ^= 1 << random.below(8),
            2 => message.insert(at, random.next() as u8),
            3 | 4 => {
                let piece = *random.pick(&self.pieces);
                message.splice(at..at, piece.iter().copied());
            }
            5 => {
                message.drain(at..to);
            }
            6 => message.truncate(at),
            7 => {
                // A part of another message.
                let other = random.pick(&self.honest);
                let from = random.below(other.len() + 1);
                message.splice(at..to, other[from..].iter().copied());
            }
            _ => {
                // The same again and again: nesting, lists and digits without end.
                let part = if at == to { random.pick(&self.pieces).to_vec() } else { message[at..to].to_vec() };
                let room = if random.below(50) == 0 { MAX_BYTES } else { USUAL_BYTES };
                let times = random.below(room / part.len().max(1)) + 1;
                let repeated = part.repeat(if random.below(4) == 0 { times } else { times.min(8) });
                message.splice(at..at, repeated);
            }
        }
    }
}

/// Reads messages until the time is over. `read` may refuse a message; it must neither panic nor take for ever.
pub(crate) fn fuzz(name: &str, messages: &Messages, mut read: impl FnMut(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number("ONETOOL_FUZZ_SECONDS").unwrap_or(1));
    let by_clock =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let seed = number("ONETOOL_FUZZ_SEED").unwrap_or_else(by_clock);
    let mut random = Random::new(seed);
    let (mut count, mut bytes, mut slowest) = (0_u64, 0_usize, Duration::ZERO);
    let started = Instant::now();
    while started.elapsed() < time {
        let message = messages.next(&mut random);
        let before = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&message)));
        let took = before.elapsed();
        let shown = || String::from_utf8_lossy(&message[..message.len().min(2000)]).into_owned();
        assert!(outcome.is_ok(), "{name}: a panic with seed {seed}, message {count}: {:?}", shown());
        assert!(took < MAX_TIME, "{name}: {took:?} with seed {seed}, message {count}: {:?}", shown());
        count += 1;
        bytes += message.len();
        slowest = slowest.max(took);
    }
    println!("{name}: {count} messages, {} MB, slowest {slowest:?}, seed {seed}", bytes >> 20);
}
