//! `output` and `stats`: what happens with large results, and what is counted.

use std::time::Duration;

use onetool_config::{MAX_BYTES, MAX_COUNT, MAX_KB, MAX_MB, Reader, Section, Shape, keys};

use crate::{OutputSettings, StatsSettings};

keys! {
    /// What happens with large results.
    pub struct OutputKeys {
        /// Larger results are stored, in bytes; 0 stores none.
        max_inline_size: usize [Shape::Count(0, MAX_BYTES)] = 50_000, live;
        /// Seconds that a stored result is kept; 0 keeps it for ever.
        result_ttl: u64 [Shape::Count(0, MAX_COUNT)] = 3600, live;
        /// Lines of a stored result that the reply shows.
        preview_lines: usize [Shape::Count(0, 100_000)] = 10, live;
        /// Images, recordings and resources of one reply, in kilobytes; more are left out.
        max_media_kb: usize [Shape::Count(0, MAX_KB)] = 8192, live;
        /// Folder of stored results, relative to .onetool.
        result_store_dir: String = "tmp".to_owned(), live;
        /// Megabytes of all stored results together; beyond it the oldest go.
        max_store_mb: u64 [Shape::Count(1, MAX_MB)] = 8192, live;
    }
}

pub const OUTPUT: Section<OutputKeys> = Section::new("output");

pub fn output(reader: &mut Reader) -> OutputSettings {
    let keys = reader.read(&OUTPUT);
    OutputSettings {
        max_inline_size: keys.max_inline_size,
        result_ttl: Duration::from_secs(keys.result_ttl),
        preview_lines: keys.preview_lines,
        max_media_bytes: keys.max_media_kb << 10,
        result_store_dir: reader.state_folder(&["output", "result_store_dir"], &keys.result_store_dir),
        max_store_bytes: keys.max_store_mb << 20,
    }
}

keys! {
    /// What is counted, and what the figures assume.
    pub struct StatsKeys {
        /// Keep statistics.
        enabled: bool = true, live;
        /// Folder of the statistics, relative to .onetool.
        persist_dir: String = "stats".to_owned(), live;
        /// Name of the file in that folder.
        persist_path: String = "stats.jsonl".to_owned(), live;
        /// Seconds between writes.
        flush_interval_seconds: u64 [Shape::Count(1, 86_400)] = 30, live;
        /// Tokens that a call saves, by assumption. Without it, savings are measured.
        context_per_call: Option<u64> = None, live, example "30000";
        /// Milliseconds that a call saves, by assumption. Without it, savings are measured.
        time_overhead_per_call_ms: Option<u64> = None, live, example "4000";
        /// Learn the shapes of what tools return, never the values.
        shapes: bool = true, live;
        /// US dollars per million input tokens.
        cost_per_million_input_tokens: f64 = 15.0, live;
        /// US dollars per million output tokens.
        cost_per_million_output_tokens: f64 = 75.0, live;
        /// Characters per token.
        chars_per_token: f64 [Shape::Number(0.01, 1e6)] = 4.0, live;
        /// Accepted for older files.
        model: Option<String> = None, ignored;
    }
}

pub const STATS: Section<StatsKeys> = Section::new("stats");

pub fn stats(reader: &mut Reader) -> StatsSettings {
    let keys = reader.read(&STATS);
    StatsSettings {
        enabled: keys.enabled,
        file: reader.state_folder(&["stats", "persist_dir"], &keys.persist_dir).join(&keys.persist_path),
        flush_interval: Duration::from_secs(keys.flush_interval_seconds),
        context_per_call: keys.context_per_call,
        time_overhead_per_call_ms: keys.time_overhead_per_call_ms,
        input_cost: keys.cost_per_million_input_tokens,
        output_cost: keys.cost_per_million_output_tokens,
        chars_per_token: keys.chars_per_token,
        shapes: keys.enabled && keys.shapes,
    }
}
