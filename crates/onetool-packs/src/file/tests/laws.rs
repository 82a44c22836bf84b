//! Properties of every edit and patch: the file is exactly as requested, or unchanged.

use proptest::prelude::*;
use serde_json::json;

use super::Desk;
use crate::file::diff;

fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a",
        "b",
        "  a",
        "\ta",
        "    b",
        "aa",
        "a b",
        "a  b",
        "é",
        "}",
        "",
        "x = 1",
        "y(\"q\")",
        "-- a",
        "++ b",
        "\\n",
        "a\rb",
        "@@ -1 +1 @@",
    ]);
    let ending = prop::sample::select(vec!["\n", "\r\n"]);
    (prop::collection::vec((line, ending), 0..14), 0..4_u8, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(lines, style, open, mark)| {
            let mut text = String::from(if mark { "\u{feff}" } else { "" });
            for (line, ending) in &lines {
                text.push_str(line);
                text.push_str(match style {
                    0 | 1 => "\n",
                    2 => "\r\n",
                    _ => ending,
                });
            }
            if open {
                text = text.strip_suffix("\r\n").or(text.strip_suffix('\n')).unwrap_or(&text).to_owned();
            }
            text
        },
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// A substring, by character positions.
fn part(text: &str, from: usize, length: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let from = if chars.is_empty() { 0 } else { from % chars.len() };
    chars.iter().skip(from).take(length).collect()
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn an_edit_is_exact_or_does_nothing(
        before in text(), from in 0..200_usize, length in 1..30_usize, new in text(), strange in any::<bool>(), all in any::<bool>(),
    ) {
        let mark = before.starts_with('\u{feff}');
        let body = before.trim_start_matches('\u{feff}');
        let new = new.trim_start_matches('\u{feff}').to_owned();
        // A part of the text, exact or with changed whitespace.
        let old = part(body, from, length);
        let old = if strange { old.split_whitespace().collect::<Vec<_>>().join(" ") } else { old };
        let desk = Desk::new();
        desk.put("f", &before);
        let ask = json!({"path": "f", "old_string": old, "new_string": new, "replace_all": all});
        let answer = runtime().block_on(desk.try_call("edit", ask));
        let after = desk.text("f");
        let Ok(answer) = answer else {
            prop_assert_eq!(after, before);
            return Ok(());
        };
        prop_assert_eq!(answer["changed"] == true, after != before);
        // The text around the change is the same, byte for byte.
        let (plain, plain_old, plain_new) = (unix(body), unix(&old), unix(&new));
        if answer["matched"] == "exact" {
            let count = plain.match_indices(&plain_old).count();
            prop_assert!(count == 1 || all);
            let (found, wanted) = (unix(after.trim_start_matches('\u{feff}')), plain.replace(&plain_old, &plain_new));
            if plain.contains('\r') || plain_new.contains('\r') {
                // A lone carriage return that ends up before a newline looks like a line ending.
                prop_assert_eq!(found.replace('\r', ""), wanted.replace('\r', ""));
            } else {
                prop_assert_eq!(found, wanted);
            }
            // A newline at the start of the match includes the carriage return before it.
            let kept = body.find(&old).map_or("", |at| body[..at].trim_end_matches('\r'));
            let prefix_kept = all || after.trim_start_matches('\u{feff}').starts_with(kept);
            prop_assert!(prefix_kept);
        } else {
            prop_assert!(!plain.contains(&plain_old));
        }
        prop_assert_eq!(after.starts_with('\u{feff}'), mark);
        if !body.contains('\r') && body.contains('\n') {
            prop_assert!(!after.contains("\r\n"));
        }
        if body.contains("\r\n") && !body.replace("\r\n", "").contains('\n') {
            prop_assert!(!after.replace("\r\n", "").contains('\n'), "{:?}", after);
        }
        // Applying the reported diff gives the same result.
        if after != before {
            desk.put("f", &before);
            let patched = runtime().block_on(desk.try_call("patch", json!({"patch": answer["diff"]})));
            prop_assert!(patched.is_ok(), "{patched:?}");
            prop_assert_eq!(desk.text("f"), after);
        }
    }

    #[test]
    fn a_patch_is_whole_or_does_nothing(
        files in prop::collection::vec((text(), text()), 1..4), broken in prop::option::of(0..4_usize),
    ) {
        let desk = Desk::new();
        let mut patch = String::new();
        for (index, (before, after)) in files.iter().enumerate() {
            desk.put(&format!("f{index}"), before);
            patch.push_str(&diff::unified(&format!("f{index}"), Some(before), Some(after)));
        }
        let broken = broken.filter(|index| files.get(*index).is_some_and(|(before, after)| before != after && !before.is_empty()));
        if let Some(index) = broken {
            desk.put(&format!("f{index}"), "something else altogether\n");
        }
        let state = || (0..files.len()).map(|index| desk.text(&format!("f{index}"))).collect::<Vec<_>>();
        let untouched = state();
        let answer = runtime().block_on(desk.try_call("patch", json!({"patch": patch})));
        let wanted: Vec<String> = files.iter().map(|(_, after)| after.clone()).collect();
        let none = files.iter().all(|(before, after)| before == after);
        if broken.is_some() || none {
            prop_assert!(answer.is_err(), "{answer:?}");
            prop_assert_eq!(state(), untouched);
        } else {
            prop_assert!(answer.is_ok(), "{:?}\n{}", answer, patch);
            prop_assert_eq!(state(), wanted);
        }
        prop_assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), files.len());
    }
}
