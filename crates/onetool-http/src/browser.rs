//! Opens the user's browser, or prints the address.

use std::process::{Command, Stdio};

/// Programs that open an address; the first one that starts is used. `BROWSER` takes precedence.
#[cfg(target_os = "macos")]
const OPENERS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: &[&str] = &["xdg-open", "wslview", "x-www-browser", "firefox", "chromium"];

/// Opens one of our own addresses. It is passed as a program argument, never as part of a shell command.
pub fn open(address: &str) {
    eprintln!("open {address}");
    let chosen = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    // `BROWSER=none` is for users who open the address themselves.
    if chosen.as_deref() == Some("none") {
        return;
    }
    for program in chosen.iter().map(String::as_str).chain(OPENERS.iter().copied()) {
        let mut command = Command::new(program);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // Reaps the child process.
            std::thread::spawn(move || child.wait());
            return;
        }
    }
}
