//! Invalid queries: every answer says what is wrong and what would be right, and none is long.

use super::house;

/// Maximum length of a refusal, however long the input is.
const SHORT: usize = 1_200;

#[test]
fn an_unknown_info_level_is_refused_with_the_levels_there_are() {
    let house = house();
    for function in ["tools", "packs", "aliases", "snippets", "help"] {
        for info in ["'detailed'", "''", "None", "5", "True", "['min']", "'x' * 100000"] {
            let error = house.err(&format!("ot.{function}(info={info})"));
            assert!(error.starts_with("TypeError: ") && error.len() < SHORT, "{function} {info}: {error:.2000}");
            assert!(error.contains(r#"must be one of "list", "sig", "min", "full""#), "{function} {info}: {error}");
            assert_eq!(error.matches("one of").count(), 1, "{error}");
            assert!(!error.contains("expected string"), "the levels say it all: {error}");
        }
        let near = house.err(&format!("ot.{function}(info='FULL')"));
        assert!(near.contains("did you mean 'full'?"), "{near}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_the_type_and_the_signature() {
    let house = house();
    for (call, expected) in [
        ("ot.tools(pattern=5)", "argument 'pattern' must be str or None, not int 5"),
        ("ot.packs(pattern=['a'])", "argument 'pattern' must be str or None, not list ['a']"),
        ("ot.help(query=True)", "argument 'query' must be str or None, not bool True"),
        ("ot.stats(period=None)", "argument 'period' must be str, not None"),
        ("ot.notify(topic='notes', message=None)", "argument 'message' must be str, not None"),
        ("ot.result(handle=5)", "argument 'handle' must be str, not int 5"),
        ("ot.result(handle='a', offset=1.5)", "argument 'offset' must be int, not float 1.5"),
        ("ot.result(handle='a', limit=None)", "argument 'limit' must be int, not None"),
        ("ot.result(handle='a', fuzzy='yes')", "argument 'fuzzy' must be bool, not str 'yes'"),
    ] {
        let error = house.err(call);
        assert!(error.starts_with("TypeError: ") && error.contains(expected), "{call}: {error}");
        let function = call.split('(').next().unwrap();
        assert!(error.contains(&format!("\nhint: expected {function}(")), "{call}: {error}");
    }
}

#[test]
fn arguments_that_no_function_takes_are_refused_with_its_signature() {
    let house = house();
    for (call, expected) in [
        ("ot.version(1)", "ot.version() takes 0 positional arguments but 1 were given"),
        ("ot.health(x=1)", "ot.health() got an unexpected keyword argument 'x'"),
        ("ot.config(None)", "ot.config() takes 0 positional arguments"),
        ("ot.result()", "ot.result() missing 1 required argument: 'handle'"),
        ("ot.notify('notes')", "ot.notify() missing 1 required argument: 'message'"),
        ("ot.tools('a', 'min', 3)", "ot.tools() takes 2 positional arguments but 3 were given"),
    ] {
        let error = house.err(call);
        assert!(error.starts_with(&format!("TypeError: {expected}")), "{call}: {error}");
        assert!(error.contains("\nhint: expected ot."), "{call}: {error}");
    }
    let error = house.err("ot.tool()");
    assert!(error.contains("did you mean 'tools'?") && error.contains("available functions in ot: "), "{error}");
}

#[test]
fn what_is_far_too_long_is_not_repeated() {
    let house = house();
    for call in [
        "ot.help(query='x' * 100000)",
        "ot.stats(period='x' * 100000)",
        "ot.stats(tool='x' * 100000)",
        "ot.stats(output='x' * 100000)",
        "ot.notify(topic='x' * 100000, message='m')",
        "ot.result(handle='x' * 100000)",
        "ot.result(handle='abc', search='x' * 100000)",
        "ot.timed('x' * 100000)",
    ] {
        let answer = house.run(call).text;
        assert!(answer.len() < SHORT, "{call}: {} bytes: {answer:.200}", answer.len());
    }
}

#[test]
fn only_a_tool_can_be_timed() {
    let house = house();
    for given in ["len", "None", "5", "''", "'x'", "['ot.version']", "lambda: 1"] {
        let error = house.err(&format!("ot.timed({given})"));
        assert!(error.starts_with("TypeError: ot.timed() takes a tool to call first, not "), "{given}: {error}");
        assert!(error.contains("\nhint: give the function and its arguments: ot.timed(ot.tools"), "{given}: {error}");
    }
    assert!(house.err("ot.timed(ot.version, x=1)").starts_with("TypeError: ot.version() got an unexpected keyword"));
    assert!(house.err("ot.timed('no.such')").contains("no pack 'no'"));
    assert!(house.ok("ot.timed('ot.version')").contains("result: "));
}

#[test]
fn a_search_that_is_no_expression_is_refused_with_a_way_out() {
    let house = house();
    let stored: serde_json::Value = serde_json::from_str(&house.ok("demo.lines(count=20000)")).unwrap();
    let handle = stored["handle"].as_str().unwrap();
    let error = house.err(&format!("ot.result(handle='{handle}', search='(')"));
    assert!(error.starts_with("ValueError: search is not a regular expression"), "{error}");
    assert!(error.contains("hint: fuzzy=True searches for plain words"), "{error}");
    assert!(!error.contains("already made"), "the call that failed is not told twice: {error}");
}
