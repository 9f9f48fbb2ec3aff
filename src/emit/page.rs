//! What pages without a program of their own share: the head, the look, light and dark.

use std::io::{self, Write};

use super::escape::markup;

const STYLE: &str = "\
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}code,pre,td.n{font-family:ui-monospace,monospace}\
table{border-collapse:collapse;margin:.5rem 0}th,td{padding:.15rem .7rem;text-align:left;border-bottom:1px solid #d1d9e0}\
td.n,th.n{text-align:right}.worse,.failure,.error{color:#b3261e}.better,.pass{color:#1a7f37}.tolerated,.note{color:#59636e}\
pre{background:#f6f8fa;padding:.6rem;overflow-x:auto}svg{display:block;max-width:100%;margin:.5rem 0}\
.gone{color:#b3261e}.new{color:#1a7f37}path.before{stroke:#8c959f}path.after{stroke:#0969da}path{fill:none;stroke-width:1.5}\
summary{cursor:pointer}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}\
th,td{border-color:#30363d}.worse,.failure,.error{color:#ff7b72}.better,.pass{color:#56d364}.tolerated,.note{color:#9198a1}\
.gone{color:#ff7b72}.new{color:#56d364}path.before{stroke:#8b949e}path.after{stroke:#58a6ff}}";

/// What the page may load: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Everything before the content.
pub fn open(title: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<title>{}</title><style>{STYLE}</style></head><body>", markup(title))
}

/// Everything after it.
pub fn close(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "</body></html>")
}
