//! The annotation as PTX: what ptxas reads is what it read before, the rest is comments.

use std::borrow::Cow;
use std::io::{self, Write};

use super::notes::Notes;
use super::{Options, remarks};
use crate::base::Line;
use crate::emit::control::control;
use crate::report::Unit;
use crate::report::annotation::{AnnotatedInstruction, Document, Group, Mark, View};

/// Writes the document's text, each line followed by its instructions as comments. Comments are ASCII, never end in a backslash
/// and never close a comment they may stand in: whatever was around them means what it meant.
pub fn write(unit: &Unit, view: &View<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let notes = Notes::of(unit, view);
    for document in &view.documents {
        write_document(unit, view, document, (options, &notes), out)?;
    }
    Ok(())
}

fn write_document(
    unit: &Unit,
    view: &View<'_>,
    document: &Document<'_>,
    (options, notes): (&Options, &Notes),
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(text) = document.text else {
        // Code without PTX has no place in a PTX file but a comment.
        for group in view.groups(document) {
            write_group(view, &group, options, out)?;
        }
        return Ok(());
    };
    let mut groups = view.groups(document).peekable();
    let before_text = groups.next_if(|group| group.line.0 == 0);
    let count = text.line_count();
    for line in 1..=count {
        // NVRTC ends its PTX in a NUL, some editors start theirs with a byte-order mark; ptxas takes neither.
        let raw = text.raw_line(Line(line)).unwrap_or_default().trim_end_matches('\0');
        let raw = if line == 1 { raw.trim_start_matches('\u{feff}') } else { raw };
        let raw = plain_spaces(raw);
        out.write_all(raw.as_bytes())?;
        if line == 1 && raw.trim_start().starts_with("//") {
            head(unit, view, options, out)?;
        }
        let said = notes.get(Line(line));
        let group = groups.next_if(|group| group.line.0 == line);
        if (said.is_some() || group.is_some()) && !raw.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        if let Some(said) = said {
            let marks = (!said.marks.is_empty()).then(|| said.marks.join(", "));
            for note in marks.iter().chain(&said.sentences) {
                write!(out, "{}", comment(&note.replace('×', "x")))?;
            }
        }
        if let Some(group) = group {
            write_group(view, &group, options, out)?;
        }
    }
    for group in before_text.into_iter().chain(groups) {
        write_group(view, &group, options, out)?;
    }
    Ok(())
}

/// Figures of the whole, at the top.
fn head(unit: &Unit, view: &View<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let version = unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.as_deref()).unwrap_or("?");
    let arch = unit.arch.as_deref().unwrap_or("?");
    write!(out, "{}", comment(&format!("annotated for {arch}, ptxas {version}")))?;
    let knows_live = view.annotation.kernels.iter().any(|kernel| kernel.peak.is_some());
    let live = if knows_live { "gpr/ugpr/pred live, " } else { "" };
    let instructions = || view.annotation.kernels.iter().flat_map(|kernel| &kernel.instructions);
    let knows_cycles = options.cycles && instructions().any(|instruction| instruction.issue.is_some());
    let cycles = if knows_cycles { "cycle/wait of one warp alone, " } else { "" };
    write!(out, "{}", comment(&format!("pc: {live}{cycles}instruction")))
}

fn write_group(view: &View<'_>, group: &Group<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let several = group.members.first().map(|one| one.kernel) != group.members.last().map(|one| one.kernel);
    for members in group.members.chunk_by(|a, b| a.kernel == b.kernel) {
        if several && let Some((kernel, _)) = members.first().and_then(|one| view.get(one)) {
            write!(out, "{}", comment(&format!("in {}:", kernel.name)))?;
        }
        for placed in members {
            let Some((_, instruction)) = view.get(placed) else { continue };
            let mut row = format!("{}: ", instruction.pc);
            if let Some(live) = instruction.live {
                row += &format!("{:>3}/{}/{} ", live.gpr, live.ugpr, live.pred);
            }
            if let Some(issue) = instruction.issue.filter(|_| options.cycles) {
                row += &format!("{}/{} ", issue.cycle, issue.waited);
            }
            if options.control {
                row += &control(&instruction.control().into());
                row.push(' ');
            }
            row.push(' ');
            row += &instruction.shown();
            let said = remarks(placed, instruction).join(", ");
            if !said.is_empty() {
                row += if is_warning(instruction) { "  <== " } else { "  <- " };
                row += &said;
            }
            write!(out, "{}", comment(&row))?;
        }
    }
    Ok(())
}

fn is_warning(instruction: &AnnotatedInstruction) -> bool {
    instruction.marks.iter().any(|mark| mark.is_spill() || matches!(mark, Mark::Peak { .. }))
}

/// A line with spaces for the other white space that ptxas knows, and its line end alone: a terminal acts on those characters. ptxas
/// takes no other control character and nothing but ASCII outside of comments and strings, where what is spelt out changes no code.
fn plain_spaces(raw: &str) -> Cow<'_, str> {
    const SPACES: [char; 3] = ['\r', '\x0c', '\x1a'];
    match raw.strip_suffix("\r\n") {
        Some(line) => Cow::Owned(line.replace(SPACES, " ") + "\n"),
        None if raw.contains(SPACES) => Cow::Owned(raw.replace(SPACES, " ")),
        None => Cow::Borrowed(raw),
    }
}

/// One comment line.
fn comment(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 8);
    line.push_str("//    ");
    for c in text.chars() {
        match c {
            // A comment that our line stands in must not end here, and none must start.
            '*' | '/' if line.ends_with(['*', '/']) => {
                line.push(' ');
                line.push(c);
            }
            ' '..='~' => line.push(c),
            _ => line.push('?'),
        }
    }
    while line.ends_with(['\\', ' ']) {
        line.pop();
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::{comment, plain_spaces};

    #[test]
    fn a_comment_cannot_end_another_nor_continue() {
        assert_eq!(comment("a */ b /* c // d"), "//    a * / b / * c / / d\n");
        assert_eq!(comment("ends in \\"), "//    ends in\n");
        assert_eq!(comment("é\n"), "//    ??\n");
    }

    #[test]
    fn white_space_is_spaces() {
        assert_eq!(plain_spaces("\tmov.b32\x0c%r1,\r1;\r\n"), "\tmov.b32 %r1, 1;\n");
        assert_eq!(plain_spaces("ret;"), "ret;");
    }
}
