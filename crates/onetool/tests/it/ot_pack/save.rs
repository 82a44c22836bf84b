//! `ot.save`: saves the code of a run under a name.

use super::House;
use crate::client::Project;

const CODE: &str = "word = 'ab'\nn = 2\nparts = [word * i for i in range(1, n + 1)]\not.save('triangle', 'Repeats a word, longer each time', parameters=['word', 'n'])\nparts";

async fn output(project: &Project, arguments: &[&str]) -> (String, String, i32) {
    let output = project.command(arguments).output().await.unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap(),
    )
}

#[tokio::test]
async fn saved_code_is_found_and_run_again() {
    let project = Project::empty();
    let client = project.serve().await;
    assert_eq!(client.ok(CODE).await, r#"["ab","abab"]"#);
    assert_eq!(client.ok("$triangle").await, r#"["ab","abab"]"#);
    assert_eq!(client.ok("$triangle word=x n=3").await, r#"["x","xx","xxx"]"#);
    assert_eq!(client.ok("len(saved.triangle(word='q', n=4)) + 1").await, "5");
    let found = client.ok("ot.help(query='repeat a word')").await;
    assert!(found.contains("saved.triangle(word: str = 'ab', n: int = 2)"), "{found}");
    assert!(client.ok("ot.snippets(pattern='triangle')").await.contains("Repeats a word"));
    assert!(client.ok("ot.packs(pattern='saved')").await.contains("ot.save"));
    // Arguments are checked like those of any tool.
    let error = client.err("saved.triangle(n='three')").await;
    assert!(error.contains("saved.triangle(word: str = 'ab', n: int = 2)"), "{error}");
    // A failure inside names its place.
    client.ok("x = 0\n1 if x == 0 else 1 / (x - x)\not.save('div', 'Divides', parameters=['x'])").await;
    let error = client.err("saved.div(x=5)").await;
    assert!(error.contains("ZeroDivisionError"), "{error}");
    // Another process and the next start see it; the command line lists and removes it.
    let (out, err, code) = output(&project, &["run", "$triangle n=1"]).await;
    assert_eq!((out.as_str(), code), ("[\"ab\"]\n", 0), "{err}");
    let (out, _, _) = output(&project, &["saved", "list"]).await;
    assert!(out.contains("$triangle  Repeats a word, longer each time"), "{out}");
    let (out, _, _) = output(&project, &["saved", "show", "triangle"]).await;
    assert_eq!(
        out,
        "# Repeats a word, longer each time\nword = 'ab'\nn = 2\nparts = [word * i for i in range(1, n + 1)]\nparts\n"
    );
    assert_eq!(output(&project, &["saved", "remove", "triangle"]).await.2, 0);
    assert_eq!(output(&project, &["saved", "remove", "triangle"]).await.2, 1);
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    while client.run("$triangle").await.text
        != "ValueError: unknown snippet '$triangle'; ot.snippets() lists what there is"
    {
        assert!(tokio::time::Instant::now() < until, "{:?}", client.run("$triangle").await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[test]
fn saved_code_takes_no_name_of_the_user_and_replaces_nothing_unasked() {
    let house = House::of(Project::with("snippets:\n  mine: '1 + 1'\nalias: {rd: file.read}\n"));
    for name in ["mine", "rd"] {
        let error = house.err(&format!("2\not.save('{name}', 'x')"));
        assert!(error.contains("is a name of the configuration"), "{error}");
    }
    assert_eq!(house.ok("$mine"), "2");
    house.ok("3\not.save('own', 'three')");
    let error = house.err("4\not.save('own', 'four')");
    assert!(error.contains("is saved already") && error.contains("replace=True"), "{error}");
    assert_eq!(house.ok("$own"), "3");
    house.ok("4\not.save('own', 'four', replace=True)");
    assert_eq!(house.ok("$own"), "4");
    for (code, told) in [
        ("ot.save('x', 'y')", "no code to keep"),
        ("1\not.save('a b', 'y')", "not a name for saved code"),
        ("1\not.save('../x', 'y')", "not a name for saved code"),
        ("1\not.save('x', '')", "must say what the code does"),
        ("1\not.save('x', 'y', parameters=['z'])", "assigns no literal to the parameter 'z'"),
    ] {
        let error = house.err(code);
        assert!(error.contains(told), "{code}: {error}");
    }
    // No file of the user was changed.
    let configuration = std::fs::read_to_string(house.project.path().join(".onetool/onetool.yaml")).unwrap();
    assert_eq!(configuration, "snippets:\n  mine: '1 + 1'\nalias: {rd: file.read}\n");
}

#[test]
fn saved_code_has_the_rights_of_the_moment_it_runs_in() {
    let project = Project::empty();
    let house = House::of(project);
    house.ok("p = 'a.txt'\nfile.write(path=p, content='x')\not.save('writes', 'Writes a file', parameters=['p'])");
    std::fs::write(
        house.project.path().join(".onetool/onetool.yaml"),
        "security:\n  policy:\n    file.write: deny\n    ot.save: ask\n",
    )
    .unwrap();
    let error = house.until("saved.writes(p='b.txt')", |text| text.contains("denied"));
    assert!(error.contains("file.write is denied by policy"), "{error}");
    house.err("saved.writes(p='c.txt')");
    assert!(!house.project.path().join("c.txt").exists());
    let error = house.err("1\not.save('more', 'More')");
    assert!(error.contains("needs the user's permission"), "{error}");
    // Code that calls itself ends.
    let error = house.err("saved.writes.nothing");
    assert!(!error.is_empty());
}
