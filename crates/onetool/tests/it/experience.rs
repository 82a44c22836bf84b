//! Scripted office work: how many runs it takes somebody who knows only what replies say.
//!
//! The worker knows the description of `run`, which names the packs, and the signatures that it has seen. For a task
//! with unknown tools it asks for the signatures of their packs. Then it works, with one run per task. Effects are
//! checked in the files that the tools write. In addition, `ot.help` is asked each task in its own words, as by
//! somebody who does not know the packs: it must show the signatures of the required tools.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value as Json;

use crate::client::{Client, Project};

/// Pack, its subject, and its functions with their parameters.
const OFFICE: &[(&str, &str, &[(&str, &str, &str)])] = &[
    (
        "crm",
        "Customers and contacts.",
        &[
            ("create_customer", "Create a customer.", "name: str, city: str = ''"),
            ("list_customers", "List customers.", "city: str = ''"),
            ("get_customer", "Get one customer by name.", "name: str"),
            ("update_customer", "Change a customer's city.", "name: str, city: str"),
            ("delete_customer", "Delete a customer.", "name: str"),
            ("add_contact", "Add a contact person to a customer.", "customer: str, name: str"),
            ("list_contacts", "List contact persons.", "customer: str = ''"),
            ("add_visit", "Record a visit to a customer.", "customer: str, note: str"),
        ],
    ),
    (
        "billing",
        "Invoices and payments.",
        &[
            ("create_invoice", "Create an invoice for a customer.", "customer: str, amount: float"),
            ("list_invoices", "List invoices.", "customer: str = '', status: Literal['', 'open', 'paid'] = ''"),
            ("add_payment", "Record a payment.", "customer: str, amount: float"),
            ("list_payments", "List payments.", "customer: str = ''"),
            ("create_refund", "Refund a payment.", "customer: str, amount: float"),
            ("list_refunds", "List refunds.", "customer: str = ''"),
            ("add_discount", "Grant a discount in percent.", "customer: str, percent: int"),
            ("send_reminder", "Send a reminder about an unpaid invoice.", "customer: str"),
        ],
    ),
    (
        "support",
        "Tickets of customers who need help.",
        &[
            ("create_ticket", "Open a ticket.", "subject: str, customer: str = ''"),
            ("list_tickets", "List tickets.", "customer: str = ''"),
            ("close_ticket", "Close the tickets with this subject.", "subject: str"),
            ("add_comment", "Comment on a ticket.", "subject: str, text: str"),
            ("assign_ticket", "Assign a ticket to a colleague.", "subject: str, person: str"),
            ("list_articles", "List help articles.", ""),
            ("create_article", "Write a help article.", "title: str, text: str"),
            ("add_rating", "Record how content a customer was, from 1 to 5.", "customer: str, stars: int"),
        ],
    ),
    (
        "mail",
        "Email.",
        &[
            ("send_email", "Send an email.", "to: str, subject: str, body: str"),
            ("list_sent", "List emails that were sent.", "to: str = ''"),
            ("create_draft", "Prepare an email without sending it.", "to: str, subject: str, body: str"),
            ("list_drafts", "List drafts.", ""),
            ("add_label", "Label an email.", "subject: str, label: str"),
            ("create_filter", "Sort incoming email by its sender.", "sender: str, folder: str"),
            ("list_filters", "List filters.", ""),
            ("add_signature", "Set the signature below emails.", "text: str"),
        ],
    ),
    (
        "planner",
        "Calendar, rooms and tasks.",
        &[
            ("create_event", "Put an event into the calendar.", "title: str, day: str, attendees: list[str] = []"),
            ("list_events", "List the events of a day.", "day: str = ''"),
            ("delete_event", "Cancel an event.", "title: str"),
            ("book_room", "Book a meeting room.", "room: str, day: str"),
            ("list_bookings", "List bookings of rooms.", "day: str = ''"),
            ("create_task", "Create a task for somebody.", "title: str, person: str = ''"),
            ("list_tasks", "List tasks.", "person: str = ''"),
            ("add_holiday", "Enter a holiday.", "person: str, day: str"),
        ],
    ),
    (
        "shop",
        "Products, stock and orders of the web shop.",
        &[
            ("create_product", "Add a product.", "name: str, price: float"),
            ("list_products", "List products.", ""),
            ("update_price", "Change the price of a product.", "name: str, price: float"),
            ("add_stock", "Add items to the stock of a product.", "name: str, quantity: int"),
            ("create_order", "Place an order.", "product: str, quantity: int"),
            ("list_orders", "List orders.", "product: str = ''"),
            ("add_shipment", "Record that an order was shipped.", "product: str, carrier: str"),
            ("create_coupon", "Create a coupon.", "code: str, percent: int"),
        ],
    ),
    (
        "archive",
        "Documents.",
        &[
            ("create_document", "Store a document.", "title: str, text: str"),
            ("list_documents", "List documents.", ""),
            ("get_document", "Read a document.", "title: str"),
            ("delete_document", "Delete a document.", "title: str"),
            ("add_tag", "Tag a document.", "title: str, tag: str"),
            ("create_folder", "Create a folder.", "name: str"),
            ("list_folders", "List folders.", ""),
            ("share_document", "Share a document with somebody.", "title: str, person: str"),
        ],
    ),
    (
        "ops",
        "Servers, deployments and alerts.",
        &[
            ("create_server", "Start a server.", "name: str, size: str = 'small'"),
            ("list_servers", "List servers.", ""),
            ("delete_server", "Shut a server down for good.", "name: str"),
            ("add_deployment", "Deploy a version.", "service: str, version: str"),
            ("list_deployments", "List deployments.", "service: str = ''"),
            ("create_alert", "Create an alert for a service.", "service: str, above: int"),
            ("list_alerts", "List alerts.", "service: str = ''"),
            ("add_incident", "Open an incident.", "service: str, title: str"),
        ],
    ),
];

/// The task, its tools, the code, and the expected content of the pack's file (or of the reply, for questions).
const TASKS: &[(&str, &[&str], &str, Effect)] = &[
    (
        "add a new customer called Globex in Bern",
        &["crm.create_customer"],
        "crm.create_customer(name='Globex', city='Bern')",
        Effect::File("crm", "Globex"),
    ),
    (
        "add the customers Initech and Hooli, both in Lyon",
        &["crm.create_customer"],
        "[crm.create_customer(name=n, city='Lyon') for n in ('Initech', 'Hooli')]",
        Effect::File("crm", "Hooli"),
    ),
    (
        "which customers do we have in Lyon",
        &["crm.list_customers"],
        "[c['name'] for c in crm.list_customers(city='Lyon')]",
        Effect::Reply("Initech"),
    ),
    (
        "Hooli has moved to Porto",
        &["crm.update_customer"],
        "crm.update_customer(name='Hooli', city='Porto')",
        Effect::File("crm", "Porto"),
    ),
    (
        "bill Globex 1200 and Initech 300",
        &["billing.create_invoice"],
        "[billing.create_invoice(customer=c, amount=a) for c, a in (('Globex', 1200), ('Initech', 300))]",
        Effect::File("billing", "1200"),
    ),
    (
        "Globex has paid 1200",
        &["billing.add_payment"],
        "billing.add_payment(customer='Globex', amount=1200)",
        Effect::File("billing", "add_payment"),
    ),
    (
        "how much have we invoiced in total",
        &["billing.list_invoices"],
        "sum(i['amount'] for i in billing.list_invoices())",
        Effect::Reply("1500"),
    ),
    (
        "remind Initech of its unpaid invoice",
        &["billing.send_reminder"],
        "billing.send_reminder(customer='Initech')",
        Effect::File("billing", "send_reminder"),
    ),
    (
        "open a ticket that Globex cannot log in",
        &["support.create_ticket"],
        "support.create_ticket(subject='cannot log in', customer='Globex')",
        Effect::File("support", "cannot log in"),
    ),
    (
        "assign the login ticket to Ann",
        &["support.assign_ticket"],
        "support.assign_ticket(subject='cannot log in', person='Ann')",
        Effect::File("support", "Ann"),
    ),
    (
        "close the login ticket and comment that it is fixed",
        &["support.close_ticket", "support.add_comment"],
        "support.add_comment(subject='cannot log in', text='fixed')\nsupport.close_ticket(subject='cannot log in')",
        Effect::File("support", "fixed"),
    ),
    (
        "mail ann@acme.example the names of all customers",
        &["mail.send_email", "crm.list_customers"],
        "mail.send_email(to='ann@acme.example', subject='Customers', body=', '.join(c['name'] for c in crm.list_customers()))",
        Effect::File("mail", "Globex, Initech, Hooli"),
    ),
    (
        "what emails did we send to ann@acme.example",
        &["mail.list_sent"],
        "[m['subject'] for m in mail.list_sent(to='ann@acme.example')]",
        Effect::Reply("Customers"),
    ),
    (
        "prepare an email to bob@acme.example about lunch, but do not send it",
        &["mail.create_draft"],
        "mail.create_draft(to='bob@acme.example', subject='Lunch', body='Noon?')",
        Effect::File("mail", "Lunch"),
    ),
    (
        "put a planning meeting with Ann and Bob into the calendar for 2026-05-04",
        &["planner.create_event"],
        "planner.create_event(title='Planning', day='2026-05-04', attendees=['Ann', 'Bob'])",
        Effect::File("planner", "Planning"),
    ),
    (
        "book room Paris for 2026-05-04",
        &["planner.book_room"],
        "planner.book_room(room='Paris', day='2026-05-04')",
        Effect::File("planner", "Paris"),
    ),
    (
        "what is on the calendar on 2026-05-04",
        &["planner.list_events"],
        "[e['title'] for e in planner.list_events(day='2026-05-04')]",
        Effect::Reply("Planning"),
    ),
    (
        "create a task for each of our customers to call them",
        &["planner.create_task", "crm.list_customers"],
        "[planner.create_task(title='Call ' + c['name'], person='Ann') for c in crm.list_customers()]",
        Effect::File("planner", "Call Hooli"),
    ),
    (
        "add a mug for 9.5 and a cap for 14 to the shop",
        &["shop.create_product"],
        "[shop.create_product(name=n, price=p) for n, p in (('mug', 9.5), ('cap', 14))]",
        Effect::File("shop", "9.5"),
    ),
    (
        "we got 40 more mugs in stock",
        &["shop.add_stock"],
        "shop.add_stock(name='mug', quantity=40)",
        Effect::File("shop", "40"),
    ),
    (
        "order three caps and ship them by DHL",
        &["shop.create_order", "shop.add_shipment"],
        "shop.create_order(product='cap', quantity=3)\nshop.add_shipment(product='cap', carrier='DHL')",
        Effect::File("shop", "DHL"),
    ),
    (
        "store a document with the list of products",
        &["archive.create_document", "shop.list_products"],
        "archive.create_document(title='Products', text=', '.join(p['name'] for p in shop.list_products()))",
        Effect::File("archive", "mug, cap"),
    ),
    (
        "deploy version 2.1 of the gateway",
        &["ops.add_deployment"],
        "ops.add_deployment(service='gateway', version='2.1')",
        Effect::File("ops", "2.1"),
    ),
    (
        "alert us when the gateway is above 500, and mail ann@acme.example about it",
        &["ops.create_alert", "mail.send_email"],
        "ops.create_alert(service='gateway', above=500)\nmail.send_email(to='ann@acme.example', subject='Alert', body='gateway above 500')",
        Effect::File("ops", "500"),
    ),
];

#[derive(Clone, Copy)]
enum Effect {
    /// A pack's file contains this afterwards.
    File(&'static str, &'static str),
    /// The reply contains this.
    Reply(&'static str),
}

/// Functions that store their arguments in a file, and find them there again.
const ENGINE: &str = r#"
import json
from pathlib import Path
from typing import Literal

_FILE = Path(__file__).resolve().parents[3] / "records" / "PACK.json"


def _read():
    return json.loads(_FILE.read_text()) if _FILE.exists() else []


def _do(name, given):
    records = _read()
    verb, _, thing = name.partition("_")
    thing = thing.rstrip("s")
    if verb in ("list", "get"):
        thing = {"sent": "email"}.get(thing, thing)
        fits = lambda r: r["thing"] == thing and all(not v or r.get(k) == v for k, v in given.items())
        return [r for r in records if fits(r)]
    if verb in ("update", "delete", "close"):
        key = next(iter(given))
        for record in [r for r in records if r.get(key) == given[key]]:
            record.update(given, done=name) if verb != "delete" else records.remove(record)
    else:
        records.append({"thing": thing, "by": name, **given})
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps(records))
    return given
"#;

fn office() -> Project {
    let project = Project::empty();
    for (pack, about, functions) in OFFICE {
        let mut code = format!("\"\"\"{about}\"\"\"\n{}", ENGINE.replace("PACK", pack));
        for (name, text, parameters) in *functions {
            code.push_str(&format!(
                "\n\ndef {name}({parameters}):\n    \"\"\"{text}\"\"\"\n    return _do('{name}', dict(locals()))\n"
            ));
        }
        project.write(&format!(".onetool/tools/{pack}/{pack}_tools.py"), &code);
    }
    project
}

/// Tools whose signatures a reply shows.
fn shown(reply: &str) -> Vec<String> {
    let tools =
        OFFICE.iter().flat_map(|(pack, _, functions)| functions.iter().map(move |(name, ..)| format!("{pack}.{name}")));
    tools.filter(|tool| reply.contains(&format!("{tool}("))).collect()
}

async fn holds(client: &Client, project: &Project, code: &str, effect: Effect) {
    let reply = client.ok(code).await;
    match effect {
        Effect::Reply(text) => assert!(reply.contains(text), "{code}: {reply}"),
        Effect::File(pack, text) => {
            let file = project.path().join("records").join(format!("{pack}.json"));
            let records = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(records.contains(text), "{code}: {records}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn office_work_takes_few_runs() {
    let project = office();
    let client = project.serve().await;
    let tools = serde_json::to_value(client.service.list_tools(None).await.unwrap()).unwrap();
    let description = tools["tools"][0]["description"].as_str().unwrap().to_owned();
    let mut known: HashSet<String> = HashSet::new();
    let (mut runs, mut looks) = (0, 0);
    let mut helped = 0;
    for (task, needs, code, effect) in TASKS {
        let found = shown(&client.ok(&format!("ot.help(query={})", Json::from(*task))).await);
        helped += usize::from(needs.iter().any(|tool| found.iter().any(|shown| shown == tool)));
        let unknown: BTreeSet<&str> =
            needs.iter().filter(|tool| !known.contains(**tool)).filter_map(|tool| tool.split('.').next()).collect();
        for pack in &unknown {
            assert!(description.contains(&format!("{pack}: ")), "{pack} is not described: {description}");
        }
        if !unknown.is_empty() {
            looks += 1;
            let asked: Vec<String> =
                unknown.iter().map(|pack| format!("ot.packs(pattern='{pack}', info='sig')")).collect();
            known.extend(shown(&client.ok(&format!("[{}]", asked.join(", "))).await));
        }
        assert!(needs.iter().all(|tool| known.contains(*tool)), "{task}");
        runs += 1;
        holds(&client, &project, code, *effect).await;
    }
    assert!(helped * 10 >= TASKS.len() * 8, "help shows the way for {helped} of {} tasks", TASKS.len());
    let average = f64::from(runs + looks) / TASKS.len() as f64;
    assert!(
        TASKS.len() >= 20 && average <= 1.4,
        "{runs} runs and {looks} looks for {} tasks: {average:.2} a task",
        TASKS.len()
    );
}
