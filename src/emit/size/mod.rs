//! Where the bytes of a library are: for people, for programs, and as a page with a map of them.
//!
//! In: a [`Size`]. Out: text, JSON, HTML. It decides nothing about what is shown but how.

mod html;
mod text;
mod treemap;

pub use html::write_html;
pub use text::write_text;

use std::io::{self, Write};

use serde::Serialize;

use crate::emit::text::{bytes, count, thousands};
use crate::report::demangle;
use crate::report::size::{By, Copies, CopyGroup, PtxInstead, RowKind, SIZE_SCHEMA, Scope, Size, SizeRow};

/// Everything there is to show.
pub struct Sheet<'a> {
    /// What was looked at, as the user named it.
    pub inputs: &'a [String],
    /// Where the bytes are.
    pub size: &'a Size,
    /// How many rows to show.
    pub top: usize,
    /// How wide a line of text may be.
    pub width: usize,
    /// Mangled names.
    pub verbose: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    inputs: &'a [String],
    #[serde(flatten)]
    size: &'a Size,
}

/// Writes one document, with every row.
pub fn write_json(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let document = Document { schema: SIZE_SCHEMA, inputs: sheet.inputs, size: sheet.size };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// How many of what, as a title has it.
fn contents(size: &Size) -> String {
    let sum = |of: fn(&crate::report::size::ArchSize) -> u64| size.arches.iter().map(of).sum::<u64>();
    let parts = [
        (sum(|arch| arch.cubins), "cubin"),
        (sum(|arch| arch.ptx_texts), "PTX text"),
        (size.sum.functions, "function"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(many, _)| *many > 0).map(|(many, what)| count(*many, what)).collect();
    parts.join(", ")
}

/// All bytes in a sentence.
fn whole(size: &Size) -> String {
    let total = &size.sum;
    let other: u64 = size.files.iter().map(|file| file.other_bytes).sum();
    let gpu = total.file_bytes.saturating_sub(other);
    let mut text = format!("{} in the file", bytes(total.file_bytes));
    if size.files.len() > 1 {
        text = format!("{} in {}", bytes(total.file_bytes), count(size.files.len() as u64, "file"));
    }
    let packed: u64 = size.files.iter().map(|file| file.packed_bytes).sum();
    if size.complete && packed < total.file_bytes {
        text += &format!(" ({} as deflated)", bytes(packed));
    }
    if other > 0 {
        text += &format!(": {} of GPU code, {} of other", bytes(gpu), bytes(other));
    }
    text += &format!("; GPU code has {} when loaded", bytes(total.loaded_bytes));
    if !size.complete {
        text += "; only what was asked for is counted";
    }
    text
}

/// A row's name as tables show it.
fn shown(row: &SizeRow, by: By, verbose: bool) -> String {
    match row.kind {
        RowKind::Code if by == By::Kernel && !verbose => demangle(&row.name).unwrap_or_else(|| row.name.clone()),
        RowKind::Code => row.name.clone(),
        _ if by == By::Section && row.kind == RowKind::Section => row.name.clone(),
        _ => format!("[{}]", row.name),
    }
}

/// The title of the names.
fn title(by: By) -> &'static str {
    match by {
        By::Template => "template",
        By::Namespace => "namespace",
        By::Kernel => "function",
        By::Arch => "architecture",
        By::File => "file",
        By::Section => "section",
    }
}

/// A share of a whole.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = u128::from(part) * 1000 / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// What one copy of each function would save, in sentences.
fn copies(copies: &Copies) -> Vec<String> {
    let extra: u64 = copies.scopes.iter().map(|scope| scope.count).sum();
    if extra == 0 {
        return Vec::new();
    }
    let mut said = vec![format!(
        "{} {} there more than once: {}.",
        count(copies.group_count, "function"),
        if copies.group_count == 1 { "is" } else { "are" },
        copies
            .scopes
            .iter()
            .filter(|scope| scope.count > 0)
            .map(|sum| {
                let place = match sum.scope {
                    Scope::Cubin => "under another name in the same cubin",
                    Scope::File => "in other cubins of the same file",
                    Scope::Files => "in other files",
                };
                format!("{} {place} ({} of code)", count_copies(sum.count), bytes(sum.code_bytes))
            })
            .collect::<Vec<_>>()
            .join(", ")
    )];
    let mut saves = format!("One of each would save {} when loaded", bytes(copies.saves_loaded_bytes));
    if copies.saves_file_bytes > 0 {
        saves += &format!(" and {} in the file", bytes(copies.saves_file_bytes));
    }
    if copies.whole_cubins > 0 {
        saves += &format!(", {} as a whole among them", count(copies.whole_cubins, "cubin"));
    }
    if copies.uncertain_code_bytes > 0 {
        saves += &format!(
            "; what {} of code in compressed cubins take in the file is not known",
            bytes(copies.uncertain_code_bytes)
        );
    }
    said.push(saves + ".");
    said
}

fn count_copies(many: u64) -> String {
    format!("{} {}", thousands(many), if many == 1 { "copy" } else { "copies" })
}

/// A group of equal functions in a line.
fn group(group: &CopyGroup, verbose: bool) -> String {
    let name = |name: &String| if verbose { name.clone() } else { demangle(name).unwrap_or_else(|| name.clone()) };
    let mut names: Vec<String> = group.names.iter().take(2).map(name).collect();
    let more = group.name_count.saturating_sub(names.len() as u64);
    if more > 0 {
        names.push(format!("{} more", thousands(more)));
    }
    names.join(", ")
}

/// Cubins that PTX could stand in for, in a sentence.
fn instead(found: &PtxInstead) -> String {
    let mut text = format!(
        "PTX for {} has every kernel of {} for {} ({} in the file, {} when loaded), and is compiled at the first start.",
        found.ptx_arch,
        count(found.cubins, "cubin"),
        found.arch,
        bytes(found.file_bytes),
        bytes(found.loaded_bytes)
    );
    if !found.same_arch {
        text += " It was made for another architecture: code under __CUDA_ARCH__ may be other code.";
    }
    text
}
