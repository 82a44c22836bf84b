//! Resolves arguments to full parameter names: positions, prefixes, and missing ones.
//!
//! A name that is not a parameter but a prefix of one means the first such parameter in signature order. A name that
//! matches nothing is passed on, so that the tool gives its own error.

use indexmap::IndexMap;
use onetool_sdk::{Arguments, ParameterKind, Signature, ToolError, ToolSpec, Value};

/// Binds arguments to the parameters of a tool.
pub fn bind(qualified_name: &str, tool: &ToolSpec, arguments: Arguments) -> Result<Arguments, ToolError> {
    let signature = &tool.signature;
    let mistaken = |problem: String| {
        ToolError::arguments(format!("{qualified_name}() {problem}"))
            .with_hint(format!("expected {}", signature.render(qualified_name)))
    };
    let mut named: IndexMap<String, Value> =
        IndexMap::with_capacity(arguments.named.len() + arguments.positional.len());
    let mut rest = Vec::new();
    let takes_rest = signature.parameters.iter().any(|parameter| parameter.kind == ParameterKind::VarPositional);
    let mut places = signature.parameters.iter().filter(|parameter| {
        matches!(parameter.kind, ParameterKind::PositionalOnly | ParameterKind::PositionalOrKeyword)
    });
    let given = arguments.positional.len();
    // Python would mistake a name for a position here, so positional arguments stay positional.
    let by_position =
        takes_rest || signature.parameters.iter().any(|parameter| parameter.kind == ParameterKind::PositionalOnly);
    let mut placed: Vec<&str> = Vec::new();
    for value in arguments.positional {
        match places.next() {
            Some(parameter) if by_position => {
                placed.push(&parameter.name);
                rest.push(value);
            }
            Some(parameter) => {
                named.insert(parameter.name.clone(), value);
            }
            None if takes_rest => rest.push(value),
            None => {
                let count = signature.parameters.iter().filter(|p| p.kind != ParameterKind::KeywordOnly).count();
                return Err(mistaken(format!("takes {count} positional arguments but {given} were given")));
            }
        }
    }
    // Exact names first, so that a prefix never takes a parameter that is also given in full.
    let (exact, inexact): (Vec<_>, Vec<_>) =
        arguments.named.into_iter().partition(|(name, _)| find(signature, name).is_some());
    let is_free = |name: &str| takes_keywords(signature) && is_positional_only(signature, name);
    for (name, value) in exact {
        let is_placed = placed.contains(&name.as_str()) && !is_free(&name);
        if is_placed || named.insert(name.clone(), value).is_some() {
            return Err(mistaken(format!("got multiple values for argument '{name}'")));
        }
    }
    for (name, value) in inexact {
        let full = match_prefix(signature, &name, &named)
            .filter(|parameter| !(placed.contains(parameter) && is_free(parameter)))
            .unwrap_or(&name);
        if named.contains_key(full) {
            return Err(mistaken(format!("got multiple values for argument '{full}'")));
        }
        named.insert(full.to_owned(), value);
    }
    if let Some(unknown) = named.keys().find(|name| find(signature, name).is_none())
        && tool.checkable
        && !takes_keywords(signature)
        && !unknown.starts_with('_')
    {
        let names = signature.parameters.iter().map(|parameter| parameter.name.as_str());
        let meant =
            crate::nearest::nearest(unknown, names).map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
        return Err(
            mistaken(format!("got an unexpected keyword argument '{unknown}'{meant}")).at(format!("/{unknown}"))
        );
    }
    let missing: Vec<String> = signature
        .parameters
        .iter()
        .filter(|parameter| parameter.required && !named.contains_key(&parameter.name))
        .filter(|parameter| !placed.contains(&parameter.name.as_str()))
        .filter(|parameter| !matches!(parameter.kind, ParameterKind::VarPositional | ParameterKind::VarKeyword))
        .map(|parameter| parameter.name.clone())
        .collect();
    if !missing.is_empty() {
        let noun = if missing.len() == 1 { "argument" } else { "arguments" };
        let named: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
        let first = missing.first().cloned().unwrap_or_default();
        return Err(mistaken(format!("missing {} required {noun}: {}", missing.len(), named.join(", ")))
            .at(format!("/{first}")));
    }
    Ok(Arguments { positional: rest, named })
}

fn takes_keywords(signature: &Signature) -> bool {
    signature.parameters.iter().any(|parameter| parameter.kind == ParameterKind::VarKeyword)
}

/// Whether `name` can only be given by position, so that `**kwargs` may hold another argument of that name.
pub(crate) fn is_positional_only(signature: &Signature, name: &str) -> bool {
    signature
        .parameters
        .iter()
        .any(|parameter| parameter.name == name && parameter.kind == ParameterKind::PositionalOnly)
}

fn find<'a>(signature: &'a Signature, name: &str) -> Option<&'a str> {
    signature
        .parameters
        .iter()
        .find(|parameter| parameter.name == name && is_nameable(parameter.kind))
        .map(|parameter| parameter.name.as_str())
}

fn is_nameable(kind: ParameterKind) -> bool {
    !matches!(kind, ParameterKind::VarPositional | ParameterKind::VarKeyword)
}

/// The first parameter that begins with `prefix` and has no value yet; failing that, the first that begins with it.
fn match_prefix<'a>(signature: &'a Signature, prefix: &str, taken: &IndexMap<String, Value>) -> Option<&'a str> {
    if prefix.is_empty() {
        return None;
    }
    let mut matches = signature
        .parameters
        .iter()
        .filter(|parameter| is_nameable(parameter.kind) && parameter.name.starts_with(prefix))
        .map(|parameter| parameter.name.as_str());
    let first = matches.next()?;
    if taken.contains_key(first) {
        matches.find(|name| !taken.contains_key(*name)).or(Some(first))
    } else {
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(names: &[&str], required: usize) -> ToolSpec {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let schema = json!({"type": "object", "properties": properties, "required": &names[..required]});
        ToolSpec::from_schema("f", "", schema)
    }

    fn bound(names: &[&str], given: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let arguments = Arguments::named(given.iter().map(|(k, v)| (*k, Value::from(*v))));
        bind("p.f", &tool(names, 0), arguments)
            .map(|bound| bound.named.into_iter().map(|(k, v)| (k, v.str())).collect())
            .map_err(|error| error.text())
    }

    #[test]
    fn prefixes_follow_the_signatures_order() {
        let names = ["query_info", "query", "quality"];
        assert_eq!(bound(&names, &[("q", "1")]).unwrap(), [("query_info".into(), "1".into())]);
        assert_eq!(bound(&names, &[("qual", "1")]).unwrap(), [("quality".into(), "1".into())]);
        assert_eq!(bound(&names, &[("query", "1")]).unwrap(), [("query".into(), "1".into())]);
        assert_eq!(
            bound(&names, &[("q", "1"), ("query_info", "2")]).unwrap(),
            [("query_info".into(), "2".into()), ("query".into(), "1".into())]
        );
    }

    #[test]
    fn mistakes_show_the_signature() {
        let error = bound(&["query"], &[("xyz", "1")]).unwrap_err();
        assert_eq!(error, "p.f() got an unexpected keyword argument 'xyz'\nhint: expected p.f(query: str = '...')");
        let error = bind("p.f", &tool(&["a", "b"], 2), Arguments::default()).unwrap_err();
        assert_eq!(error.message, "p.f() missing 2 required arguments: 'a', 'b'");
        let many = Arguments { positional: vec![Value::None; 3], ..Default::default() };
        let error = bind("p.f", &tool(&["a", "b"], 2), many).unwrap_err();
        assert_eq!(error.message, "p.f() takes 2 positional arguments but 3 were given");
    }

    #[test]
    fn a_name_that_is_given_by_position_is_free_for_keywords() {
        let mut prompt = tool(&["name"], 1);
        prompt.signature.parameters[0].kind = ParameterKind::PositionalOnly;
        let mut rest = prompt.signature.parameters[0].clone();
        (rest.name, rest.kind, rest.required) = ("arguments".into(), ParameterKind::VarKeyword, false);
        prompt.signature.parameters.push(rest);
        let given = |positional: &[&str], named: &[(&str, &str)]| {
            let arguments = Arguments {
                positional: positional.iter().map(|text| Value::from(*text)).collect(),
                ..Arguments::named(named.iter().map(|(name, value)| (*name, Value::from(*value))))
            };
            bind("p.prompt", &prompt, arguments).map(|bound| (bound.positional, bound.named))
        };
        let (positional, named) = given(&["greet"], &[("name", "Ada"), ("n", "1")]).unwrap();
        assert_eq!(positional, ["greet".into()]);
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [("name".into(), "Ada".into()), ("n".into(), "1".into())]);
        let (positional, named) = given(&[], &[("name", "greet"), ("who", "Ada")]).unwrap();
        assert!(positional.is_empty() && named["name"] == "greet".into(), "{named:?}");
        assert!(given(&[], &[("who", "Ada")]).unwrap_err().message.contains("missing 1 required argument: 'name'"));
    }

    #[test]
    fn positions_come_first() {
        let arguments = Arguments {
            positional: vec!["x".into()],
            named: [("b".to_owned(), Value::from("y"))].into_iter().collect(),
        };
        let bound = bind("p.f", &tool(&["alpha", "beta"], 1), arguments).unwrap();
        assert_eq!(bound.named.keys().collect::<Vec<_>>(), ["alpha", "beta"]);
    }
}
