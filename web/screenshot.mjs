// Makes the picture of the page that the README shows: `npm run screenshot`, with a binary in ../target/debug or ONETOOL_BIN.
// `npm run screens` takes every screen, to look at.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withPage } from './e2e/harness.mjs';

const INVOICES = `"""Invoices of the shop."""

pack = "invoices"

ROWS = [("R-2041", "Harbour Café", 418.2, "2026-03-02"), ("R-2038", "Harbour Café", 96.0, "2026-02-17"), ("R-2019", "Harbour Café", 1250.75, "2026-01-30"), ("R-2007", "Harbour Café", 74.9, "2026-01-12")]


def search(customer: str, status: str = "open", year: int = 2026) -> list:
    """Find the invoices of a customer, newest first.

    Args:
        customer: A name, or the start of one.
        status: open, paid or overdue.
        year: The business year.
    """
    return [{"number": number, "customer": name, "amount": amount, "due": due} for number, name, amount, due in ROWS]


def remind(number: str, level: int = 1) -> str:
    """Send a reminder for an invoice that is overdue."""
    return number


def totals(year: int = 2026) -> dict:
    """Sum up what was sold, by month."""
    return {}


def reconcile(statement: str) -> list:
    """Match the lines of a bank statement with open invoices."""
    return []
`;

const folder = fileURLToPath(new URL('../docs/images', import.meta.url));
mkdirSync(folder, { recursive: true });
await withPage({ server: { files: { '.onetool/tools/demo/demo_tools.py': INVOICES } }, browser: { at: '#/tools/invoices.search', width: 1280, height: 790 } }, async ({ page, browser }) => {
  await browser.settled();
  await page.getByLabel('customer', { exact: true }).fill('Harbour');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.getByRole('cell', { name: 'R-2041' }).waitFor();
  await page.locator('.detail-pane').evaluate((pane) => { pane.scrollTop = 0; });
  await page.locator('.tool-list').evaluate((list) => { list.scrollTop = [...list.querySelectorAll('.pack-line')].find((line) => line.textContent.startsWith('invoices')).parentElement.offsetTop - 1; });
  await page.mouse.move(640, 755);
  await page.screenshot({ path: `${folder}/admin-page.png` });
});
