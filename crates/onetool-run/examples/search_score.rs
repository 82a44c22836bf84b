//! Scores the search on the labelled set in `bench/search/`: how often the right tool is among the first 1, 3 and 5.
//!
//! Plain BM25 over the same words is scored for comparison. Half of the prompts are for tuning and the other half is
//! held out, split by a hash of the prompt. `--misses` prints the prompts of the tuning half whose tool is not among
//! the first 3.
#![expect(clippy::print_stdout, reason = "it is a report")]

#[expect(clippy::unwrap_used, reason = "the set is part of the repository")]
#[path = "../src/search/tests/labelled.rs"]
mod labelled;

use std::time::Instant;

use labelled::{LabelledSet, Part, Score, Style};

/// Number of tools for measuring search time; copies of the set's tools fill the index.
const TIMED_TOOLS: usize = 5_000;

fn main() {
    let set = LabelledSet::load();
    println!("{} tools in {} packs, {} prompts", set.tools.len(), set.packs(), set.prompts.len());
    let index = set.index(set.tools.len());
    let parts = [(Part::Tuning, "tuning"), (Part::HeldOut, "held out")];
    let styles = [
        (Style::Plain, "plain"),
        (Style::Office, "office"),
        (Style::Drawn, "drawn"),
        (Style::Colloquial, "colloquial"),
    ];
    for (style, (part, title)) in styles.iter().flat_map(|style| parts.map(|part| (style, part))) {
        let ours = set.score(style.0, part, |query| index.search(query));
        if ours.prompts == 0 {
            continue;
        }
        let plain = set.score(style.0, part, |query| index.search_plainly(query));
        println!(
            "{:<10} {title:<8} {:>4} prompts   {}   plain BM25: {}",
            style.1,
            ours.prompts,
            percentages(ours),
            percentages(plain)
        );
    }
    let large = set.index(TIMED_TOOLS);
    let mut times: Vec<f64> = set
        .prompts
        .iter()
        .map(|prompt| {
            let started = Instant::now();
            std::hint::black_box(large.search(&prompt.text));
            started.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "time over {TIMED_TOOLS} tools: median {:.2} ms, 99 % {:.2} ms, longest {:.2} ms",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1]
    );
    if std::env::args().any(|argument| argument == "--misses") {
        for (prompt, found) in styles.iter().flat_map(|style| set.misses(&index, style.0, 3)) {
            println!("\n{prompt}\n    {found}");
        }
    }
}

fn percentages(score: Score) -> String {
    let percent = |count: usize| 100.0 * count as f64 / score.prompts as f64;
    format!(
        "first {:5.1} %   first 3 {:5.1} %   first 5 {:5.1} %",
        percent(score.first),
        percent(score.first_3),
        percent(score.first_5)
    )
}
