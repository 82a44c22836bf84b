//! Opens the user's browser, or says where to go.

use std::process::{Command, Stdio};

/// Programs that open an address, the first that starts is used. `BROWSER` comes before them.
#[cfg(target_os = "macos")]
const OPENERS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: &[&str] = &["xdg-open", "wslview", "x-www-browser", "firefox", "chromium"];

/// Opens an address of our own. It is an argument of a program, never part of a shell's line.
pub fn open(address: &str) {
    eprintln!("open {address}");
    let chosen = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    // `BROWSER=none` is for those who open it themselves.
    if chosen.as_deref() == Some("none") {
        return;
    }
    for program in chosen.iter().map(String::as_str).chain(OPENERS.iter().copied()) {
        let mut command = Command::new(program);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // Nobody else would collect it.
            std::thread::spawn(move || child.wait());
            return;
        }
    }
}
