//! The laws of trimming, and reading back what was trimmed.

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Clock, ErrorKind, Part};

fn cache(budget: Budget) -> OutputCache {
    OutputCache::new(Arc::new(MemoryOutputStore::default()), "test", budget)
}

fn message(id: usize, text: String) -> ToolMessage {
    ToolMessage::new(id.to_string(), "tool", Ok(text.into()))
}

fn reference(message: &ToolMessage) -> OutputRef {
    message.output_ref.as_ref().unwrap().parse().unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn parts() -> MessageContent {
    MessageContent::Parts(vec![
        Part::Text("first\nsecond".into()),
        Part::Image { media_type: "image/png".into(), data: vec![7; 3000] },
        Part::Other(json!({"type": "resource_link", "uri": "a:b"})),
        Part::Text("last".into()),
    ])
}

#[tokio::test]
async fn the_oldest_give_way_and_come_back_whole() {
    let cache = cache(Budget { keep_bytes: 1000, trim_to_bytes: 600 });
    let texts: Vec<String> = (0..4).map(|n| format!("{n}\n").repeat(150)).collect();
    let mut messages: Vec<ToolMessage> = texts.iter().cloned().enumerate().map(|(n, text)| message(n, text)).collect();
    assert_eq!(cache.fit(&mut messages[..3]).await.messages, 0, "900 bytes fit");
    let report = cache.fit(&mut messages).await;
    assert_eq!(report.messages, 3, "trimmed until 600 bytes are left, not just until it fits");
    assert_eq!(messages[3].content, MessageContent::Text(texts[3].clone()));
    for (message, text) in messages.iter().zip(&texts).take(3) {
        assert_eq!(cache.restore(&reference(message)).await.unwrap(), MessageContent::Text(text.clone()));
    }
    assert_eq!(
        messages[0].content.text(),
        format!(
            "[output trimmed: 300 bytes, 150 lines; read it with tool_output_cache, ref_id {}]",
            reference(&messages[0])
        )
    );
    let before = messages.clone();
    assert_eq!(cache.fit(&mut messages).await.messages, 0);
    assert_eq!(messages, before, "what is trimmed is not trimmed again");
}

#[tokio::test]
async fn a_small_addition_after_trimming_changes_nothing_old() {
    let cache = cache(Budget::new(4000));
    let mut messages: Vec<ToolMessage> = (0..10).map(|n| message(n, "x".repeat(500))).collect();
    assert!(cache.fit(&mut messages).await.messages > 0);
    let before = messages.clone();
    messages.push(message(10, "y".repeat(500)));
    assert_eq!(cache.fit(&mut messages).await.messages, 0);
    assert_eq!(messages[..10], before[..]);
}

#[tokio::test]
async fn parts_are_kept_whole_and_read_as_lines() {
    let cache = cache(Budget::new(100));
    let content = parts();
    let mut messages = vec![message(0, String::new()), message(1, "newest".into())];
    messages[0].content = content.clone();
    assert_eq!(cache.fit(&mut messages).await.messages, 1);
    let reference = reference(&messages[0]);
    assert_eq!(cache.restore(&reference).await.unwrap(), content);
    let page = cache.lines(&reference, LineRange { first: 1, count: 10 }).await.unwrap();
    let texts: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((texts[0], texts[1], texts[4]), ("first", "second", "last"));
    assert!(texts[2].starts_with("[image/png, 3000 bytes, ref_id "), "{}", texts[2]);
    // The image can be requested by itself.
    let image = texts[2].trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
    let MessageContent::Parts(parts) = cache.restore(&image).await.unwrap() else { panic!("an image is a part") };
    assert_eq!(parts, [Part::Image { media_type: "image/png".into(), data: vec![7; 3000] }]);
}

#[tokio::test]
async fn scopes_are_apart_and_outputs_expire() {
    let now = Arc::new(Mutex::new(DateTime::<Utc>::UNIX_EPOCH));
    let clock: Clock = {
        let now = now.clone();
        Arc::new(move || *now.lock())
    };
    let limits = MemoryLimits { time_to_live: Some(TimeDelta::seconds(10)), ..MemoryLimits::default() };
    let store = Arc::new(MemoryOutputStore::new(limits, clock));
    let cache = OutputCache::new(store.clone(), "a", Budget::default());
    let reference = cache.put(&MessageContent::Text("text".into())).await.unwrap();
    assert_eq!(cache.put(&MessageContent::Text("text".into())).await.unwrap(), reference, "named by content");
    let other = OutputCache::new(store.clone(), "b", Budget::default());
    assert_eq!(other.restore(&reference).await.unwrap_err().kind, ErrorKind::NotFound);
    *now.lock() += TimeDelta::seconds(9);
    assert!(cache.restore(&reference).await.is_ok());
    *now.lock() += TimeDelta::seconds(1);
    assert_eq!(cache.restore(&reference).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(store.sweep().await.unwrap(), 1);
}

#[tokio::test]
async fn the_memory_store_has_a_limit_and_a_failure_to_store_keeps_the_message() {
    let limits = MemoryLimits { total_bytes: 1000, output_bytes: 600, time_to_live: None };
    let store = Arc::new(MemoryOutputStore::new(limits, Arc::new(Utc::now)));
    let cache = OutputCache::new(store, "a", Budget::new(100));
    let first = cache.put(&MessageContent::Text("1".repeat(500))).await.unwrap();
    let second = cache.put(&MessageContent::Text("2".repeat(500))).await.unwrap();
    let third = cache.put(&MessageContent::Text("3".repeat(500))).await.unwrap();
    assert!(cache.describe(&first).await.is_err() && cache.describe(&second).await.is_ok());
    assert!(cache.describe(&third).await.is_ok());
    let mut messages = vec![message(0, "x".repeat(601)), message(1, String::new())];
    let report = cache.fit(&mut messages).await;
    assert_eq!((report.messages, report.failures.len()), (0, 1));
    assert_eq!(messages[0].content.size(), 601);
}

#[tokio::test]
async fn a_huge_output_is_written_in_chunks_and_read_by_lines() {
    let cache = cache(Budget::default());
    let mut writer = cache.writer(TEXT_MEDIA_TYPE).await.unwrap();
    // Chunks that break lines and characters anywhere.
    let text = (1..=20_000).map(|n| format!("zeile {n} größer")).collect::<Vec<_>>().join("\n") + "\n";
    for chunk in text.as_bytes().chunks(997) {
        writer.write(chunk).await.unwrap();
    }
    let stored = writer.finish().await.unwrap();
    assert_eq!(stored.bytes, text.len() as u64);
    let page = cache.lines(&stored.reference, LineRange { first: 19_999, count: 5 }).await.unwrap();
    assert_eq!(page.render(), " 19999\tzeile 19999 größer\n 20000\tzeile 20000 größer\n");
    let page = cache.lines(&stored.reference, LineRange { first: 1, count: usize::MAX }).await.unwrap();
    assert_eq!(page.next, page.lines.last().map(|line| line.number + 1), "a page has a limit of its own");
    let search = OutputSearch::regex("^zeile 1234[05] ").unwrap().with_surroundings(1, 1);
    let found = cache.search(&stored.reference, &search).await.unwrap();
    assert_eq!(
        found.render(),
        " 12339\tzeile 12339 größer\n 12340:\tzeile 12340 größer\n 12341\tzeile 12341 größer\n--\n \
         12344\tzeile 12344 größer\n 12345:\tzeile 12345 größer\n 12346\tzeile 12346 größer\n"
    );
    let some =
        cache.search(&stored.reference, &OutputSearch::text("größer").unwrap().with_max_matches(2)).await.unwrap();
    assert_eq!((some.lines.len(), some.next), (2, Some(3)));
    assert_eq!(OutputSearch::regex("(").unwrap_err().kind, ErrorKind::Arguments);
}

#[tokio::test]
async fn a_line_without_end_is_cut_at_a_character() {
    let cache = cache(Budget::default());
    let text = format!("{}\r\nend", "é".repeat(1_000_000));
    let reference = cache.put(&MessageContent::Text(text)).await.unwrap();
    let page = cache.lines(&reference, LineRange { first: 1, count: 10 }).await.unwrap();
    assert!(page.lines[0].text.len() < MAX_LINE_BYTES + 100);
    assert!(page.lines[0].text.ends_with("é… (1995905 more bytes)"), "{}", &page.lines[0].text[4000..]);
    assert_eq!(page.lines[1].text, "end");
}

#[test]
fn what_is_not_a_reference_is_refused() {
    for text in ["", "../../etc/passwd", &"g".repeat(32), &"0".repeat(33)] {
        assert_eq!(text.parse::<OutputRef>().unwrap_err().kind, ErrorKind::Arguments);
    }
}

proptest! {
    #[test]
    fn trimming_never_lengthens_and_spares_errors_and_the_newest(
        sizes in prop::collection::vec((0..400_usize, any::<bool>()), 1..20),
        keep in 0..2000_usize,
    ) {
        let cache = cache(Budget::new(keep));
        let mut messages: Vec<ToolMessage> = sizes.iter().enumerate().map(|(n, (size, is_error))| {
            let mut message = message(n, "z".repeat(*size));
            message.is_error = *is_error;
            message
        }).collect();
        let before = messages.clone();
        let report = run(cache.fit(&mut messages));
        prop_assert!(report.failures.is_empty());
        let total = |messages: &[ToolMessage]| messages.iter().map(|message| message.content.size()).sum::<usize>();
        prop_assert_eq!(total(&before) - total(&messages), report.bytes_saved);
        for (old, new) in before.iter().zip(&messages) {
            if old != new {
                prop_assert!(!old.is_error && new.content.size() < old.content.size());
                prop_assert_eq!(&run(cache.restore(&reference(new))).unwrap(), &old.content);
            }
        }
        prop_assert_eq!(before.last(), messages.last());
        if total(&before) <= keep {
            prop_assert_eq!(before, messages);
        }
    }
}
