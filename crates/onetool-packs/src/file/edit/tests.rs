//! The ladder on texts: each step, and its refusals.

use super::ladder::{Answer, Request, Step, Wanted, apply};

fn one(text: &str, old: &str, new: &str) -> Answer {
    apply(text, Request { old, new, wanted: Wanted::One })
}

/// The resulting text, and the step that matched.
fn edited(text: &str, old: &str, new: &str) -> (String, Step) {
    match one(text, old, new) {
        Answer::Edited { text, step, .. } => (text, step),
        other => panic!("{other:?}"),
    }
}

fn all(text: &str, old: &str, new: &str) -> Answer {
    apply(text, Request { old, new, wanted: Wanted::All })
}

#[test]
fn replacement_text_is_literal() {
    let new = r"$1 \1 ${x} \n %s &";
    assert_eq!(edited("a = old;\n", "old", new), (format!("a = {new};\n"), Step::Exact));
}

#[test]
fn exact_must_be_unique_also_where_it_overlaps_itself() {
    assert_eq!(one("x\ny\nx\n", "x", "z"), Answer::Ambiguous { step: Step::Exact, lines: vec![1, 3] });
    assert_eq!(one("aaa\n", "aa", "b"), Answer::Ambiguous { step: Step::Exact, lines: vec![1, 1] });
    assert_eq!(
        all("aaaaa\n", "aa", "b"),
        Answer::Edited { text: "bba\n".into(), step: Step::Exact, lines: vec![1, 1] }
    );
    let expect = |count| apply("x x x\n", Request { old: "x", new: "xx", wanted: Wanted::Exactly(count) });
    assert_eq!(expect(3), Answer::Edited { text: "xx xx xx\n".into(), step: Step::Exact, lines: vec![1, 1, 1] });
    assert_eq!(expect(2), Answer::Ambiguous { step: Step::Exact, lines: vec![1, 1, 1] });
}

#[test]
fn line_endings_and_the_end_of_the_file_stay() {
    assert_eq!(edited("a\r\nb\r\nc", "a\nb", "a\nx\nb").0, "a\r\nx\r\nb\r\nc");
    assert_eq!(edited("a\r\nb\r\n", "b\n", "b\nc\n").0, "a\r\nb\r\nc\r\n");
    assert_eq!(edited("a\nb\n", "b\r\n", "b\r\nc\r\n").0, "a\nb\nc\n");
    // With mixed endings every line keeps its own, and new lines follow their neighbours.
    assert_eq!(edited("a\r\nb\nc\nd\r\n", "c\n", "c\nx\n").0, "a\r\nb\nc\nx\nd\r\n");
    assert_eq!(edited("a\r\nb\nc\nd\r\n", "a\n", "a\nx\n").0, "a\r\nx\r\nb\nc\nd\r\n");
    // No newline at the end, and none is added.
    assert_eq!(edited("  one\n  two", "one\ntwo\n", "one\n2\n"), ("  one\n  2".into(), Step::Indentation));
    assert_eq!(edited("é\r\nfoo\r\n", "é\nfoo", "ü\nfoo").0, "ü\r\nfoo\r\n");
}

#[test]
fn trailing_whitespace_is_overlooked_and_kept_where_nothing_changed() {
    assert_eq!(
        edited("one  \ntwo\t\nthree\n", "one\ntwo\nthree\n", "one\n2\nthree\n"),
        ("one  \n2\nthree\n".into(), Step::TrailingWhitespace)
    );
}

#[test]
fn what_is_inserted_gets_the_indentation_of_the_file() {
    let file = "class A:\n    def f(self):\n        if x:\n            return 1\n";
    assert_eq!(
        edited(file, "if x:\n    return 1\n", "if x:\n    log()\n    if y:\n        return 2\n"),
        (
            "class A:\n    def f(self):\n        if x:\n            log()\n            if y:\n                return 2\n".into(),
            Step::Indentation
        )
    );
    // The caller indents too deep.
    assert_eq!(
        edited("def f():\n    a\n    b\n", "        def f():\n            a\n", "        def f():\n            z\n").0,
        "def f():\n    z\n    b\n"
    );
}

#[test]
fn tabs_and_spaces_translate_both_ways() {
    let file = "func f() {\n\tif x {\n\t\treturn\n\t}\n}\n";
    let (text, step) = edited(
        file,
        "    if x {\n        return\n    }\n",
        "    if x {\n        for {\n            y()\n        }\n    }\n",
    );
    assert_eq!((text.as_str(), step), ("func f() {\n\tif x {\n\t\tfor {\n\t\t\ty()\n\t\t}\n\t}\n}\n", Step::Trimmed));
    let (text, _) =
        edited("def f():\n    if x:\n        pass\n", "\tif x:\n\t\tpass\n", "\tif x:\n\t\tif y:\n\t\t\tpass\n");
    assert_eq!(text, "def f():\n    if x:\n        if y:\n            pass\n");
    // The caller indents by two spaces, the file by four.
    let (text, _) = edited("a:\n    b:\n        c\n", "a:\n  b:\n    c\n", "a:\n  b:\n    c\n    d:\n      e\n");
    assert_eq!(text, "a:\n    b:\n        c\n        d:\n            e\n");
}

#[test]
fn less_indented_lines_stay_relative() {
    let (text, _) =
        edited("mod m {\n    fn f() {\n        a();\n    }\n}\n", "  a();\n}\n", "  a();\n}\nfn g() {\n  b();\n}\n");
    assert_eq!(text, "mod m {\n    fn f() {\n        a();\n    }\n    fn g() {\n        b();\n    }\n}\n");
}

#[test]
fn whitespace_and_typography_inside_lines_are_overlooked() {
    assert_eq!(
        edited("x  =  1\ny = 2\n", "x = 1\ny = 2\n", "x = 1\ny = 3\n"),
        ("x  =  1\ny = 3\n".into(), Step::Whitespace)
    );
    assert_eq!(
        edited("say \u{201c}hi\u{201d}\nend\n", "say \"hi\"\nend\n", "say \"hi\"\nfin\n"),
        ("say \u{201c}hi\u{201d}\nfin\n".into(), Step::Typography)
    );
}

#[test]
fn escapes_are_undone_on_both_sides_or_on_one() {
    assert_eq!(
        edited("print(\"a\")\n", r#"print(\"a\")"#, r#"print(\"b\")"#),
        ("print(\"b\")\n".into(), Step::Escapes)
    );
    assert_eq!(edited("a = 1\nb = 2\n", r"a = 1\nb = 2", r"a = 1\nb = 3").0, "a = 1\nb = 3\n");
    // The new text is not escaped: it is used as it is.
    assert_eq!(edited("print(\"a\")\n", r#"print(\"a\")"#, r#"print("b\n")"#).0, "print(\"b\\n\")\n");
}

#[test]
fn numbers_copied_from_read_are_removed() {
    assert_eq!(
        edited("a = 1\nb = 2\n", "     1\ta = 1\n     2\tb = 2\n", "a = 1\nb = 3\n"),
        ("a = 1\nb = 3\n".into(), Step::LineNumbers)
    );
    assert_eq!(edited("a = 1\nb = 2\n", "     2:\tb = 2", "     2:\tb = 3").0, "a = 1\nb = 3\n");
}

#[test]
fn a_file_of_equal_lines_ends() {
    let file = format!("{}end\n", "  same\n".repeat(20_000));
    let old = format!("{}other\n", "same\n".repeat(10_000));
    assert_eq!(one(&file, &old, "x"), Answer::NotFound);
    let letters = "a".repeat(200_000);
    assert!(matches!(one(&letters, &letters[..100_000], "b"), Answer::Ambiguous { .. }));
}

#[test]
fn empty_lines_around_the_old_text_are_overlooked() {
    assert_eq!(edited("a\n  one();\nb\n", "\n\none();\n\n", "\n\n1();\n\n").0, "a\n  1();\nb\n");
    assert_eq!(edited("a\n  one();\nb\n", "\none();\n", "1();\n\n").0, "a\n  1();\n\nb\n");
}

#[test]
fn loose_deletions_leave_no_empty_line() {
    assert_eq!(edited("a\n  gone()\nb\n", "gone()  \n", "").0, "a\nb\n");
    assert_eq!(edited("a\n  gone()", "gone()  \n", "").0, "a");
    assert_eq!(edited("  gone()", "gone()  \n", "").0, "");
}

#[test]
fn a_newline_is_not_doubled() {
    assert_eq!(edited("  one();\n  two();\n", "one(); \n", "1();\n").0, "  1();\n  two();\n");
    assert_eq!(edited("  one();\n  two();\n", "one(); ", "1();\n").0, "  1();\n  two();\n");
}

#[test]
fn loose_matches_must_be_unique_too() {
    let text = "  foo()\nx\n    foo()\n";
    assert_eq!(one(text, "foo() ", "bar()"), Answer::Ambiguous { step: Step::Indentation, lines: vec![1, 3] });
    let Answer::Edited { text, .. } = all(text, "foo() ", "bar()") else { panic!() };
    assert_eq!(text, "  bar()\nx\n    bar()\n");
    assert_eq!(all("  aaa\n  aaa\n  aaa\n", "aaa\naaa \n", "b\n"), Answer::Overlapping { lines: vec![1, 2] });
    // Too few characters.
    assert_eq!(one("a {\n  }\n", "} ", "]"), Answer::NotFound);
}

#[test]
fn an_edit_made_before_is_recognised() {
    assert_eq!(one("let total = 2;\n", "let total = 1;", "let total = 2;"), Answer::AlreadyApplied);
    assert_eq!(one("foo\n", "  foo", "foo"), Answer::AlreadyApplied);
    assert_eq!(one("b\nabc\n", "x1z", "abc"), Answer::AlreadyApplied);
    // A text this short may be present for another reason.
    assert_eq!(one("xabc\n", "q1z", "abc"), Answer::NotFound);
    assert_eq!(one("something\n", "not there", ""), Answer::NotFound);
}

#[test]
fn anchors_need_similar_lines_and_a_margin() {
    let file = "fn a() {\n    let total = first + second;\n    println!(\"{total}\");\n    finish(total);\n}\n";
    let old = "fn a() {\n    let total = first + secnd;\n    println!(\"{total}\");\n    finish(total);\n}\n";
    let new = "fn a() {\n    let total = first + secnd;\n    println!(\"{total}\");\n    finish(total + 1);\n}\n";
    assert_eq!(edited(file, old, new), (file.replace("finish(total)", "finish(total + 1)"), Step::Anchors));
    // Only two of five lines are similar: another function.
    let other = "fn a() {\n    open_the_door();\n    walk();\n    sing(\"la\");\n}\n";
    assert_eq!(one(other, old, new), Answer::NotFound);
    // Two equally similar places: neither is chosen.
    let twice = format!("{file}{file}");
    assert_eq!(one(&twice, old, new), Answer::Ambiguous { step: Step::Anchors, lines: vec![1, 6] });
}

mod laws {
    use proptest::prelude::*;

    use super::super::ladder::Step;
    use super::{Answer, one};

    fn render(lines: &[(usize, String)], unit: &str) -> String {
        lines.iter().flat_map(|(depth, text)| [unit.repeat(*depth), text.clone(), "\n".to_owned()]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Any text gives an answer.
        #[test]
        fn no_text_is_too_strange(
            text in "[ab\\n\\r\\t \u{a0}\u{3000}é\"\\\\n1}]{0,60}", old in "[ab\\n\\t \u{a0}\u{3000}é\"\\\\n1}]{1,20}",
            new in "[ab\\n\\r\\t \u{a0}\u{3000}é\"\\\\n1}]{0,20}",
        ) {
            let answer = one(&text, &old, &new);
            if answer == Answer::NotFound {
                super::super::nearest::describe(&text, &old);
            }
            let overlapping = matches!(answer, Answer::Overlapping { .. });
            prop_assert!(!overlapping, "one place overlaps nothing");
        }

        /// A block given with another indentation is changed as if its indentation were right.
        #[test]
        fn indentation_is_always_the_files(
            depths in prop::collection::vec(0..4_usize, 4..30), from in any::<prop::sample::Index>(), length in 1..8_usize,
            file_unit in prop::sample::select(vec!["\t", "  ", "    "]), caller_unit in prop::sample::select(vec!["\t", "  ", "    "]),
            spaces_at_end in any::<bool>(), crlf in any::<bool>(), changed_line in any::<prop::sample::Index>(),
        ) {
            // Depth grows by one level at a time, as in code.
            let mut file: Vec<(usize, String)> = Vec::new();
            for (index, depth) in depths.iter().enumerate() {
                let most = file.last().map_or(0, |(depth, _)| depth + 1);
                file.push(((*depth).min(most), format!("statement_{index};")));
            }
            let start = from.index(file.len());
            let end = (start + length).min(file.len());
            let least = file[start..end].iter().map(|(depth, _)| *depth).min().unwrap_or(0);
            let mut block: Vec<(usize, String)> =
                file[start..end].iter().map(|(depth, text)| (depth - least, text.clone())).collect();
            let mut old = render(&block, caller_unit);
            if spaces_at_end {
                old = old.replace('\n', "  \n");
            }
            let at = changed_line.index(block.len());
            let depth = block[at].0;
            block[at].1 = "changed {".to_owned();
            block.insert(at + 1, (depth + 1, "deeper;".to_owned()));
            block.insert(at + 2, (depth, "}".to_owned()));
            let new = render(&block, caller_unit);

            let mut wanted = file.clone();
            wanted.splice(start..end, block.into_iter().map(|(depth, text)| (depth + least, text)));
            let ending = |text: String| if crlf { text.replace('\n', "\r\n") } else { text };
            let (text, wanted) = (ending(render(&file, file_unit)), ending(render(&wanted, file_unit)));
            // A file without indented lines does not reveal its unit.
            prop_assume!(file.windows(2).any(|pair| pair[1].0 > pair[0].0));
            match one(&text, &old, &new) {
                Answer::Edited { text, step, .. } => {
                    // An exact match is literal, whatever the rest of the file looks like.
                    if step != Step::Exact {
                        prop_assert_eq!(text, wanted, "{:?}", step);
                    }
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
