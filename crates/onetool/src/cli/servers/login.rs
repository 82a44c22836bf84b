//! `onetool servers login|logout`: signs in to servers.

use std::io::{BufRead as _, IsTerminal as _};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use onetool_proxy::{ServerState, SignInError};
use onetool_sdk::{CallContext, Caller};
use tokio::sync::mpsc;

use crate::assemble::App;
use crate::cli::table::{Page, Tone};

#[derive(Args)]
pub struct LoginArgs {
    /// The server's name
    name: String,

    /// Only print the address; open no browser
    #[arg(long)]
    no_browser: bool,

    /// Register a new client instead of using that of the last sign-in
    #[arg(long)]
    new_client: bool,
}

pub async fn login(app: &App, args: &LoginArgs) -> anyhow::Result<ExitCode> {
    let servers = app.servers();
    let name = args.name.as_str();
    let url = servers.begin_sign_in(name, args.new_client).await?;
    eprintln!("open this address to sign in to {name}:\n");
    println!("{url}");
    eprintln!("\nwaiting for the browser to come back; or paste the address that it ends at, or the code in it");
    if !args.no_browser {
        open_browser(&url);
    }
    let mut pasted = lines();
    let finished = servers.signed_in(name);
    tokio::pin!(finished);
    loop {
        tokio::select! {
            outcome = &mut finished => {
                outcome?;
                break;
            }
            Some(line) = pasted.recv() => {
                if line.trim().is_empty() {
                    continue;
                }
                match servers.finish_sign_in(name, &line).await {
                    Ok(()) => break,
                    Err(error @ SignInError::Failed { .. }) => eprintln!("{error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let mut page = Page::new();
    page.put(Tone::Good, "signed in").put(Tone::Plain, &format!(": {name}")).end_line();
    page.print()?;
    // Connect, now that the sign-in allows it.
    let pack = servers.status().into_iter().find(|server| server.name == name || server.pack == name);
    if let Some(pack) = pack.map(|server| server.pack) {
        let _ = servers.try_now(&pack, &CallContext::new(Caller::Cli)).await;
        let status = servers.status().into_iter().find(|server| server.pack == pack);
        if let Some(server) = status.filter(|server| server.state != ServerState::Connected) {
            eprintln!("it does not connect yet: {}", server.reason.unwrap_or_else(|| "it is still trying".to_owned()));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn logout(app: &App, name: &str) -> anyhow::Result<ExitCode> {
    let was_signed_in = app.servers().sign_out(name).await?;
    let mut page = Page::new();
    let told = if was_signed_in { "signed out" } else { "nobody was signed in" };
    page.put(Tone::Good, told).put(Tone::Plain, &format!(": {name}")).end_line();
    page.print()?;
    Ok(ExitCode::SUCCESS)
}

/// Reads lines from standard input. Reading blocks until there is input, so it has its own thread.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
        // After the end of a pipe the browser may still redirect back.
        std::thread::park();
    });
    receiver
}

/// Starts the browser with the address as its argument, without a shell. Without a desktop nothing happens.
fn open_browser(url: &str) {
    let chosen = std::env::var("BROWSER").ok().filter(|program| !program.is_empty());
    if chosen.is_none() && !std::io::stderr().is_terminal() {
        return;
    }
    let programs = match &chosen {
        Some(program) => vec![program.as_str()],
        None if cfg!(target_os = "macos") => vec!["open"],
        None if cfg!(windows) => vec!["explorer"],
        None => vec!["xdg-open", "gio"],
    };
    for program in programs {
        let mut command = Command::new(program);
        if program == "gio" {
            command.arg("open");
        }
        let quiet = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if quiet.spawn().is_ok() {
            return;
        }
    }
}
