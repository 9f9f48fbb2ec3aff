//! JSON: the model as it is, one object and a line feed.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::report::Report;

/// Down to here every value has a line of its own: the fields of a kernel, and what a list among them holds. What is inside such a
/// value shares its line, so that a PTX line of the report is a line of the text.
const SPREAD_DEPTH: usize = 6;
/// Pieces are small and many: they are put together here, not one by one in whatever the writer is.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes the report, indented.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let mut serializer = Serializer::with_formatter(&mut out, Layout::default());
    report.serialize(&mut serializer).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Indents by two spaces down to [`SPREAD_DEPTH`].
#[derive(Default)]
struct Layout {
    depth: usize,
    /// Whether the innermost list or object has something in it.
    filled: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, bracket: &[u8], out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, bracket: &[u8], out: &mut W) -> io::Result<()> {
        if self.filled && self.depth <= SPREAD_DEPTH {
            self.new_line(self.depth - 1, out)?;
        }
        self.depth -= 1;
        self.filled = true;
        out.write_all(bracket)
    }

    fn item<W: ?Sized + Write>(&mut self, first: bool, out: &mut W) -> io::Result<()> {
        match (self.depth <= SPREAD_DEPTH, first) {
            (true, true) => self.new_line(self.depth, out),
            (true, false) => {
                out.write_all(b",")?;
                self.new_line(self.depth, out)
            }
            (false, true) => Ok(()),
            (false, false) => out.write_all(b", "),
        }
    }

    fn new_line<W: ?Sized + Write>(&self, depth: usize, out: &mut W) -> io::Result<()> {
        const SPACES: [u8; 2 * SPREAD_DEPTH] = [b' '; 2 * SPREAD_DEPTH];
        out.write_all(b"\n")?;
        out.write_all(&SPACES[..2 * depth])
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(b"[", out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(b"]", out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(first, out)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(b"{", out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(b"}", out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(first, out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kernel_s_lines_are_lines() {
        let line = json!({"pcs": [0, 16], "spills": []});
        let value = json!({"units": [{"kernels": [{"empty": {}, "lines": [line, line], "none": []}]}]});
        let mut out = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut out, Layout::default())).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = r#"{
  "units": [
    {
      "kernels": [
        {
          "empty": {},
          "lines": [
            {"pcs": [0, 16], "spills": []},
            {"pcs": [0, 16], "spills": []}
          ],
          "none": []
        }
      ]
    }
  ]
}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
