//! The page of `ot.stats(output=...)` and `onetool stats --html` in a real browser: charts, hostile names, no requests,
//! and both colour schemes.

use std::net::TcpListener;
use std::path::PathBuf;

use chrono::{TimeDelta, Utc};
use serde_json::{Value as Json, json};

use crate::browser::{Browser, Scheme, address};
use crate::client::Project;

/// Names that would run a script or send a request if they were not treated as text. `HOME` is a listening address.
const HOSTILE: &[&str] = &[
    "<script>document.title = 'hacked'</script>.a",
    "<img src=\"HOME/image\" onerror=\"document.title = 'hacked'\">.b",
    "x\"><svg onload=\"document.title = 'hacked'\">.c",
    "</td></style><style>@import 'HOME/style';</style>.d",
    "&lt;b&gt;{{7*7}}${7*7}'.e",
];

/// A project with a month of calls: every hostile name once, `file.read` 20 times a day with every fifth call failed.
fn used_project(home: &str) -> Project {
    let project = Project::empty();
    let mut lines = String::new();
    for day in (1..28).rev() {
        let at = (Utc::now() - TimeDelta::days(day)).to_rfc3339();
        let mut call = |tool: &str, ms: f64, errors: Json| {
            let line =
                json!({"ts": at, "kind": "call", "tool": tool, "in": 10, "out": 100, "ms": ms, "errors": errors});
            lines.push_str(&format!("{line}\n"));
        };
        for number in 0..20 {
            call("file.read", 5.0, if number % 5 == 0 { json!({"<b>ValueError</b>": 1}) } else { json!({}) });
        }
        if let Some(name) = HOSTILE.get(day as usize - 1) {
            call(&name.replace("HOME", home), 900.0, json!({}));
        }
    }
    project.write(".onetool/stats/stats.jsonl", &lines);
    project
}

/// Both ways to create a page, the second with a hostile filter.
async fn pages(project: &Project) -> Vec<PathBuf> {
    let client = project.serve().await;
    client.ok("ot.stats(output='stats.html')").await;
    client.ok("ot.stats(tool=\"<img src=x onerror=document.title='hacked'>\", output='filtered.html')").await;
    client.service.cancel().await.unwrap();
    let output = project.command(&["stats", "--html", "command.html"]).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    ["stats.html", "command.html", "filtered.html"].map(|name| project.path().join(name)).to_vec()
}

#[tokio::test]
async fn the_charts_are_drawn() {
    let Some(mut browser) = Browser::start().await else { return };
    let project = used_project("http://127.0.0.1:1");
    for page in &pages(&project).await[..2] {
        browser.open(page).await;
        let charts = browser
            .evaluate("[...document.querySelectorAll('svg[role=img]')].map(c => c.getAttribute('aria-label'))")
            .await;
        assert_eq!(charts, json!(["Calls over time", "Calls of each tool", "Average time of each tool"]));
        // Each is as wide as its card, and each bar is visible.
        let bars = browser
            .evaluate(
                "[...document.querySelectorAll('svg[role=img]')].map(chart => [...chart.querySelectorAll('rect.ok')]
                    .map(bar => bar.getBoundingClientRect()).filter(box => box.width > 0 && box.height > 0).length)",
            )
            .await;
        assert!(bars[0].as_u64().unwrap() >= 27, "a bar a day: {bars}");
        assert!(bars[1].as_u64().unwrap() >= 6 && bars[2].as_u64().unwrap() >= 6, "a bar a tool: {bars}");
        // The bar of the most called tool fills its track, and a fifth of it is red.
        let shares = browser
            .evaluate(
                "(() => { const row = document.querySelectorAll('svg[role=img]')[1].querySelector('g');
                    const width = part => row.querySelector(part).getBoundingClientRect().width;
                    return [width('.ok') / width('.track'), width('.err') / width('.ok')] })()",
            )
            .await;
        let share = |index: usize| shares[index].as_f64().unwrap();
        assert!((share(0) - 1.0).abs() < 0.01 && (share(1) - 0.2).abs() < 0.01, "{shares}");
        let colours = browser
            .evaluate("['.ok', '.err'].map(part => getComputedStyle(document.querySelector('svg ' + part)).fill)")
            .await;
        assert_eq!(colours, json!(["rgb(59, 111, 224)", "rgb(214, 69, 69)"]));
        assert_eq!(browser.complaints(), Vec::<&Json>::new());
    }
    browser.close().await;
}

#[tokio::test]
async fn hostile_names_are_text_and_nothing_leaves_the_page() {
    let Some(mut browser) = Browser::start().await else { return };
    let home = TcpListener::bind("127.0.0.1:0").unwrap();
    home.set_nonblocking(true).unwrap();
    let base = format!("http://{}", home.local_addr().unwrap());
    let project = used_project(&base);
    for page in pages(&project).await {
        browser.open(&page).await;
        assert_eq!(browser.requested(), [address(&page)], "the page itself and nothing else");
        assert_eq!(browser.evaluate("document.title").await, "OneTool statistics");
        let made = "document.querySelectorAll('script, img, iframe, link, object, a, b, [onload], [onerror], style + style, body style').length";
        assert_eq!(browser.evaluate(made).await, 0, "no element is made of a name");
        assert_eq!(browser.complaints(), Vec::<&Json>::new());
        let names = browser.evaluate("[...document.querySelectorAll('td.tool')].map(cell => cell.textContent)").await;
        let header = browser.evaluate("document.querySelector('header').textContent").await;
        if page.ends_with("filtered.html") {
            assert!(header.as_str().unwrap().contains("<img src=x onerror=document.title='hacked'>"), "{header}");
            continue;
        }
        for name in HOSTILE {
            let name = name.replace("HOME", &base);
            assert!(names.as_array().unwrap().contains(&json!(name)), "{name} is not shown as it is: {names}");
        }
        let errors = browser.evaluate("document.body.innerText.includes('<b>ValueError</b> (')").await;
        assert_eq!(errors, true);
        // Even if a name became a script, the page's own policy would not let it run or fetch anything.
        let ran = browser
            .evaluate(&format!(
                "(() => {{ const add = (name, fill) => {{ const made = document.createElement(name); fill(made); document.body.append(made) }};
                    add('script', script => script.textContent = 'window.ran = true');
                    return fetch('{base}/fetched').then(() => 'fetched', () => window.ran ?? 'nothing ran') }})()"
            ))
            .await;
        assert_eq!(ran, "nothing ran");
    }
    browser.close().await;
    let caller = home.accept();
    assert!(caller.is_err(), "somebody was called: {caller:?}");
}

/// The contrast between colours, as defined by the accessibility guidelines.
const CONTRAST: &str = "
    const channels = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
        .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const light = colour => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
    const contrast = (one, other) => {
        const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05) };
    const style = (selector, key) => getComputedStyle(document.querySelector(selector))[key];
    const card = style('section.card', 'backgroundColor');";

#[tokio::test]
async fn both_colour_schemes_can_be_read_on_screens_of_any_width() {
    let Some(mut browser) = Browser::start().await else { return };
    let project = used_project("http://127.0.0.1:1");
    let page = pages(&project).await.remove(0);
    let mut papers = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.prefer(scheme).await;
        browser.open(&page).await;
        let paper = browser
            .evaluate(&format!("(() => {{ {CONTRAST} return light(style('body', 'backgroundColor')) }})()"))
            .await;
        papers.push(paper.as_f64().unwrap());
        for (selector, key, least) in [
            (".figure", "color", 7.0),
            (".label", "color", 4.5),
            ("td.tool", "color", 7.0),
            ("svg .name", "fill", 7.0),
            ("svg .value", "fill", 4.5),
            ("svg .ok", "fill", 3.0),
            ("svg .err", "fill", 3.0),
            (".rate", "color", 3.0),
        ] {
            let question = format!("(() => {{ {CONTRAST} return contrast(style('{selector}', '{key}'), card) }})()");
            let contrast = browser.evaluate(&question).await.as_f64().unwrap();
            assert!(contrast >= least, "{scheme:?} {selector}: {contrast}");
        }
        for width in [1400, 1000, 700, 360] {
            browser.resize(width).await;
            let wide = browser.evaluate("document.documentElement.scrollWidth").await;
            assert!(wide.as_u64().unwrap() <= u64::from(width), "{scheme:?}: {wide} at {width}");
        }
    }
    assert!(papers[0] > 0.8 && papers[1] < 0.05, "light paper, dark paper: {papers:?}");
    browser.close().await;
}
