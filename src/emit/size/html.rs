//! The page: a map of the bytes, the tables, what is there twice.

use std::io::{self, Write};

use super::treemap::{Rect, squarify};
use super::{Sheet, contents, copies, group, instead, percent, shown, title, whole};
use crate::emit::escape::markup;
use crate::emit::page;
use crate::emit::text::{bytes, thousands};
use crate::report::abridge;
use crate::report::size::{RowKind, SizeRow};

/// The shape of the map, width by height.
const ASPECT: f64 = 2.0;
/// Areas of one architecture at most: the rest is one area.
const TILES: usize = 80;
/// Rows of the table at most.
const ROWS: usize = 2_000;
/// Groups of equal functions at most.
const GROUPS: usize = 200;
/// Colours of architectures: `.t0` to `.t5` of the page's look.
const COLOURS: usize = 6;
/// Columns that a name has room for.
const NAME: usize = 100;

/// Writes the page.
pub fn write_html(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let size = sheet.size;
    page::open("size", out)?;
    writeln!(out, "<h1>{}</h1>", markup(&sheet.inputs.join(", ")))?;
    writeln!(out, "<p>{}. {}.</p>", markup(&contents(size)), markup(&whole(size)))?;
    for failure in &size.errors {
        let text = format!("{}: {}", failure.path, failure.message);
        writeln!(out, "<p class=\"error\">{}</p>", markup(&text))?;
    }
    write_map(sheet, out)?;
    write_arches(sheet, out)?;
    write_rows(sheet, out)?;
    write_files(sheet, out)?;
    write_copies(sheet, out)?;
    if !size.ptx_instead.is_empty() {
        writeln!(out, "<h2>PTX that could serve for cubins</h2><ul>")?;
        size.ptx_instead.iter().try_for_each(|found| writeln!(out, "<li>{}</li>", markup(&instead(found))))?;
        writeln!(out, "</ul>")?;
    }
    page::close(out)
}

/// An architecture, or what is none.
struct Block {
    name: String,
    tiles: Vec<(String, u64, u64)>,
}

impl Block {
    fn bytes(&self) -> u64 {
        self.tiles.iter().map(|(_, file, _)| *file).sum()
    }
}

fn write_map(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let size = sheet.size;
    let mut blocks: Vec<Block> = Vec::new();
    for (arch, rows) in &size.by_arch_and_template {
        let tile = |row: &SizeRow| (shown(row, size.by, true), row.file_bytes, row.loaded_bytes);
        let mut tiles: Vec<(String, u64, u64)> = rows.iter().take(TILES).map(tile).collect();
        let left = rows.get(TILES..).unwrap_or_default();
        if !left.is_empty() {
            let sum = |of: fn(&SizeRow) -> u64| left.iter().map(of).sum::<u64>();
            let name = format!("{} more", thousands(left.len() as u64));
            tiles.push((name, sum(|row| row.file_bytes), sum(|row| row.loaded_bytes)));
            tiles.sort_by_key(|(_, file, _)| std::cmp::Reverse(*file));
        }
        blocks.push(Block { name: arch.clone(), tiles });
    }
    let ptx: Vec<(String, u64, u64)> =
        size.arches.iter().map(|arch| (format!("ptx {}", arch.arch), arch.ptx_file_bytes, 0)).collect();
    let mut others: Vec<(String, u64, u64)> = ptx.into_iter().filter(|(_, bytes, _)| *bytes > 0).collect();
    let opaque = size.rows.iter().filter(|row| row.kind == RowKind::Opaque);
    others.extend(opaque.map(|row| (row.name.clone(), row.file_bytes, row.loaded_bytes)));
    let host: u64 = size.files.iter().map(|file| file.other_bytes).sum();
    others.extend((host > 0).then(|| ("not GPU code".to_owned(), host, 0)));
    others.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    blocks.push(Block { name: "other".to_owned(), tiles: others });
    blocks.retain(|block| block.bytes() > 0);
    let last = blocks.len();
    let mut order: Vec<(usize, Block)> = (0..).zip(blocks).collect();
    order.sort_by_key(|(at, block)| (std::cmp::Reverse(block.bytes()), *at));
    let sizes: Vec<u64> = order.iter().map(|(_, block)| block.bytes()).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Bytes in the file</h2><div class=\"treemap\" role=\"img\" aria-label=\"Bytes by architecture and template\">"
    )?;
    let whole = Rect { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };
    let total = size.sum.file_bytes;
    for ((number, block), rect) in order.iter().zip(squarify(&sizes, whole, ASPECT)) {
        let class =
            if block.name == "other" && number + 1 == last { "t".to_owned() } else { format!("t{}", number % COLOURS) };
        let share = percent(block.bytes(), total);
        writeln!(
            out,
            "<div class=\"block {class}\" style=\"{}\"><b>{}</b>",
            place(rect),
            markup(&format!("{} {share}", block.name))
        )?;
        let areas: Vec<u64> = block.tiles.iter().map(|(_, file, _)| *file).collect();
        let aspect = ASPECT * rect.width / rect.height.max(1e-9);
        writeln!(out, "<div>")?;
        for ((name, file, loaded), inner) in block.tiles.iter().zip(squarify(&areas, whole, aspect)) {
            let seen = inner.width * rect.width / 100.0;
            let label = if seen * ASPECT >= 6.0 && inner.height * rect.height >= 400.0 {
                format!("<i>{}</i>", markup(&abridge(name, NAME)))
            } else {
                String::new()
            };
            let loaded = if *loaded > 0 { format!(", {} when loaded", bytes(*loaded)) } else { String::new() };
            let hint =
                format!("{name}\n{}: {} in the file ({}){loaded}", block.name, bytes(*file), percent(*file, total));
            writeln!(out, "<span style=\"{}\" title=\"{}\">{label}</span>", place(inner), markup(&hint))?;
        }
        writeln!(out, "</div></div>")?;
    }
    writeln!(out, "</div>")
}

fn place(rect: Rect) -> String {
    format!("left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%", rect.left, rect.top, rect.width, rect.height)
}

/// The head of a table: the name first, which is what people look for.
fn head(titles: &[&str], name: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<div class=\"panel\"><table class=\"named\"><thead><tr><th>{name}</th>")?;
    titles.iter().try_for_each(|title| write!(out, "<th class=\"n\">{title}</th>"))?;
    writeln!(out, "</tr></thead><tbody>")
}

fn row(figures: &[String], name: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<tr><td>{name}</td>")?;
    figures.iter().try_for_each(|figure| write!(out, "<td class=\"n\">{figure}</td>"))?;
    writeln!(out, "</tr>")
}

fn write_arches(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h2>By architecture</h2>")?;
    head(&["in the file", "loaded", "code", "functions", "cubins", "PTX"], "architecture", out)?;
    for arch in &sheet.size.arches {
        let figures =
            [arch.file_bytes, arch.loaded_bytes, arch.code_bytes, arch.functions, arch.cubins, arch.ptx_texts]
                .map(thousands);
        row(&figures, &markup(&arch.arch), out)?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn write_rows(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let size = sheet.size;
    writeln!(out, "<h2>By {}</h2>", title(size.by))?;
    head(&["in the file", "", "loaded", "code", "functions"], title(size.by), out)?;
    for one in size.rows.iter().take(ROWS).chain([&size.sum]) {
        let figures = [
            thousands(one.file_bytes),
            percent(one.file_bytes, size.sum.file_bytes),
            thousands(one.loaded_bytes),
            thousands(one.code_bytes),
            thousands(one.functions),
        ];
        let full = shown(one, size.by, sheet.verbose);
        row(&figures, &page::name(&abridge(&full, NAME), &full), out)?;
    }
    writeln!(out, "</tbody></table></div>")?;
    match size.rows.len().checked_sub(ROWS).filter(|left| *left > 0) {
        Some(left) => writeln!(out, "<p class=\"note\">and {} more</p>", thousands(left as u64)),
        None => Ok(()),
    }
}

fn write_files(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let files = &sheet.size.files;
    if files.len() < 2 {
        return Ok(());
    }
    writeln!(out, "<h2>Files</h2>")?;
    head(&["bytes", "as packed", "GPU code", "other"], "file", out)?;
    for file in files.iter().take(ROWS) {
        let figures = [file.bytes, file.packed_bytes, file.gpu_bytes, file.other_bytes].map(thousands);
        row(&figures, &markup(&file.path), out)?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn write_copies(sheet: &Sheet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let found = &sheet.size.same_code;
    let said = copies(found);
    if said.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>The same code</h2>")?;
    said.iter().try_for_each(|text| writeln!(out, "<p>{}</p>", markup(text)))?;
    head(&["more than needed", "copies", "bytes of one", "cubins", "arch"], "names", out)?;
    for one in found.groups.iter().take(GROUPS) {
        let figures = [
            thousands(one.extra_code_bytes),
            thousands(one.count),
            thousands(one.code_bytes),
            thousands(one.cubins),
            markup(&one.arch),
        ];
        let full = group(one, sheet.verbose);
        row(&figures, &page::name(&abridge(&full, NAME), &full), out)?;
    }
    writeln!(out, "</tbody></table></div>")?;
    match found.group_count.checked_sub(GROUPS as u64).filter(|left| *left > 0) {
        Some(left) => writeln!(out, "<p class=\"note\">and {} more</p>", thousands(left)),
        None => Ok(()),
    }
}
